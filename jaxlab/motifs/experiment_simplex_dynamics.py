"""What networks do as the shares of the three layers of motifs change."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab import plots as charts
from jaxlab import stats
from jaxlab.harness.claims import Claim
from jaxlab.harness.progress import Progress
from jaxlab.motifs import catalog, lyapunov, measures, models, regimes
from jaxlab.motifs import experiment_records as records
from jaxlab.motifs.models import MotifParams
from jaxlab.motifs.nulls import count_graphs
from jaxlab.motifs.regimes import REGIMES
from jaxlab.motifs.tile import tile
from jaxlab.motifs.weights import control, rescale, weights

ARMS = ('motifs', 'degree', 'er')
# Law -> signs s2, s3 of the 2- and 3-cycles within placed motifs.
LAWS = {
  'free': (0, 0),
  'positive pairs': (1, 0),
  'negative pairs': (-1, 0),
  'negative loops': (0, -1),
  'positive loops': (0, 1),
}


class Case(NamedTuple):
  """A point of the simplex with a law of weights."""

  shares: tuple[float, float, float]
  law: str

  @property
  def name(self) -> str:
    return f'{self.mixture}-{self.law.replace(" ", "-")}'

  @property
  def mixture(self) -> str:
    return '+'.join(f'{share:.2f}' for share in self.shares)


def run(config, workdir) -> None:
  """Measures every mixture beside its controls, for all gains and seeds."""
  _check(config)
  cases = [
    Case(shares, law)
    for law in config.laws
    for shares in simplex(config.grid)
    if _has_cycles(shares, law)
  ]
  found = {}
  with Progress('dynamics of networks', len(cases)) as progress:
    for case in cases:
      found[case] = workdir.cached(
        case.name, functools.partial(_unit, config, case)
      )
      progress.advance()
  _record(config, workdir, found)


def simplex(grid: int) -> list[tuple[float, float, float]]:
  """Points of the 2-simplex with coordinates in steps of `1 / grid`."""
  return [
    (a / grid, b / grid, (grid - a - b) / grid)
    for a in range(grid, -1, -1)
    for b in range(grid - a, -1, -1)
  ]


def _has_cycles(shares, law: str) -> bool:
  """Whether some placed motif has the cycles whose sign a law sets."""
  s2, s3 = LAWS[law]
  return not ((s2 and shares[1] + shares[2] == 0) or (s3 and shares[2] == 0))


def _check(config) -> None:
  records.check_positive(
    config,
    *('grid', 'gains', 'num_nodes', 'num_edges', 'exponents', 'dt'),
    *('time', 'burn_in', 'starts', 'input_steps', 'max_lag'),
  )
  records.check_names(config, 'laws', tuple(LAWS))
  records.check_seeds(config)
  records.check(
    config,
    'claim_gain',
    config.claim_gain in config.gains,
    f'one of config.gains, {config.gains}',
  )


def networks(config, case: Case, seed: int) -> tuple[jax.Array, Any]:
  """`[arms, N, N]` weights of spectral radius 1, and the placements.

  The controls have the weights of the motif network on other edges.
  """
  key = records.key_of(config.seed, case.name, seed)
  keys = jax.random.split(key, 4)
  A, placements = tile(
    keys[0],
    catalog.layer_shares(case.shares),
    num_nodes=config.num_nodes,
    num_edges=config.num_edges,
  )
  s2, s3 = LAWS[case.law]
  W = weights(keys[1], A, 'loop_sign', placements=placements, s2=s2, s3=s3)
  W = rescale(W, 1.0)
  others = [
    control(k, W, kind) for k, kind in zip(keys[2:], ARMS[1:], strict=True)
  ]
  return jnp.stack([W, *others]), placements


def _unit(config, case: Case) -> dict:
  """Measures `[seeds, arms, gains]` of a mixture."""
  drawn = [networks(config, case, seed)[0] for seed in range(config.seeds)]
  W = jnp.stack(drawn)
  gains = jnp.asarray(config.gains)
  measure = _measuring(
    config.exponents,
    config.dt,
    config.time,
    config.burn_in,
    config.starts,
    config.input_steps,
    config.max_lag,
  )
  shape = *W.shape[:2], len(gains)
  flat = (gains[:, None, None] * W[:, :, None]).reshape(-1, *W.shape[2:])
  # The same starts and inputs for all arms and gains of a seed.
  keys = jnp.stack(
    [records.key_of(config.seed, 'starts', s) for s in range(config.seeds)]
  )
  keys = jnp.repeat(keys, shape[1] * shape[2])
  result = measure(keys, flat)
  graphs = np.asarray(jnp.swapaxes(W, -1, -2) != 0)
  counts = count_graphs(graphs.reshape(-1, *graphs.shape[2:]))
  return {
    **{
      name: np.asarray(value).reshape(*shape, *np.shape(value)[1:])
      for name, value in result.items()
    },
    'counts': counts.reshape(*shape[:2], 13),
    'edges': graphs.sum(axis=(-2, -1)),
    'radius': jax.vmap(jax.vmap(measures.spectral_radius))(W),
    'weight_rms': jnp.sqrt(jnp.sum(W**2, (-2, -1)) / config.num_edges),
  }


@functools.cache
def _measuring(exponents, dt, time, burn_in, starts, input_steps, max_lag):
  """The compiled measurement of `[n]` keys and `[n, N, N]` weights."""
  cfg = regimes.RegimeConfig(
    n_starts=starts, dt=dt, burn_in=burn_in, window=time / 2
  )
  steps = round(time / dt)

  def measure(key, W):
    keys = jax.random.split(key, 3)
    params = MotifParams(W)

    def step(x):
      return models.rk4_step(lambda y: models.flow(params, y), x, dt)

    x0 = jax.random.normal(keys[0], W.shape[:1])
    spectrum = lyapunov.lyapunov_spectrum(
      step,
      x0,
      exponents,
      steps,
      every=5,
      dt=dt,
      burn_in=round(burn_in / dt),
    )
    regime = regimes.classify_regime(keys[1], params, cfg)
    x = jax.lax.fori_loop(0, steps, lambda _, x: step(x), x0)
    _, states = jax.lax.scan(lambda x, _: (step(x), x), x, length=steps)
    return {
      'exponents': spectrum.exponents,
      'standard_error': spectrum.standard_error[0],
      'regime': regime.regime,
      'active': jnp.max(regime.amplitude) > cfg.min_amplitude,
      'num_fixed': regime.num_fixed,
      'activity': jnp.sqrt(jnp.mean(jnp.var(states, axis=0))),
      'henrici': measures.henrici(W),
      'participation': measures.participation_ratio(states),
      'memory_time': measures.autocorrelation_time(states, dt),
      **_driven(keys[2], params, input_steps, max_lag),
    }

  # Not spread over devices: over two CPU devices it hung (jaxlib 0.10.2).
  return jax.jit(jax.vmap(measure))


def _driven(key: jax.Array, params: MotifParams, steps: int, max_lag: int):
  """Memory of a random input, and rank of the states by different inputs."""
  size = params.W.shape[0]
  keys = jax.random.split(key, 3)
  fed = params._replace(B=jax.random.normal(keys[0], (size, 1)))
  inputs = 0.5 * jax.random.normal(keys[1], (steps, 1))
  several = 0.5 * jax.random.normal(keys[2], (size, 2 * max_lag, 1))

  def follow(inputs):
    return models.integrate(
      fed,
      jnp.zeros(size),
      inputs,
      dt=0.5,
      num_steps=len(inputs),
      method='exponential_euler',
    )[1:]

  states = follow(inputs)
  recalled = measures.memory_capacity(states, inputs[:, 0], max_lag, ridge=1e-4)
  ends = jax.vmap(lambda u: follow(u)[-1])(several)
  return {
    'memory_capacity': jnp.sum(recalled),
    'kernel_rank': measures.kernel_rank(ends, threshold=1e-3),
  }


def _rows(config, found: dict) -> list[dict]:
  rows = []
  for case, unit in found.items():
    for a, arm in enumerate(ARMS):
      for g, gain in enumerate(config.gains):
        regime = unit['regime'][:, a, g]
        row = {
          'law': case.law,
          **{f'layer {k + 1}': s for k, s in enumerate(case.shares)},
          'arm': arm,
          'gain': gain,
          'edges': int(unit['edges'][:, a].mean()),
          'radius': gain * float(unit['radius'][:, a].mean()),
          'weight rms': gain * float(unit['weight_rms'][:, a].mean()),
          **{r: float((regime == i).mean()) for i, r in enumerate(REGIMES)},
        }
        row |= records.with_interval(
          'largest exponent', unit['exponents'][:, a, g, 0]
        )
        row |= {
          name: float(np.mean(value[:, a, g]))
          for name, value in unit.items()
          if np.ndim(value) == 3 and name not in ('regime', 'counts')
        }
        row |= {
          f'exponent {k + 1}': float(value)
          for k, value in enumerate(unit['exponents'][:, a, g].mean(axis=0))
        }
        rows.append(row)
  return rows


def _record(config, workdir, found: dict) -> None:
  workdir.save_table(
    'simplex',
    _rows(config, found),
    f'Means over {config.seeds} seeds. The controls have the weights of the '
    'motif network on other edges, scaled to its spectral radius, which is the '
    'gain in all arms.',
  )
  g = list(config.gains).index(config.claim_gain)
  cases = list(found)
  workdir.save_table(
    'ordering',
    _ordering(config, found, g),
    'Paired differences of the largest exponent to the degree-preserving '
    f'control at gain {config.claim_gain:g}, 95 % t intervals over seeds.',
  )
  mean = np.stack(
    [u['exponents'][:, :, g, 0].mean(axis=0) for u in found.values()]
  )
  workdir.save_figure(
    'exponents',
    charts.heatmap(
      mean,
      [f'{case.mixture} {case.law}' for case in cases],
      ARMS,
      xlabel='arm',
      ylabel='shares of layers 1+2+3, signs',
      label='largest exponent',
      text_format='{:.3f}',
    ),
    f'Largest Lyapunov exponent at gain {config.claim_gain:g}.',
  )
  series = {
    case.name: _band(unit['exponents'][:, 0, :, 0])
    for case, unit in found.items()
    if max(case.shares) == 1
  }
  workdir.save_figure(
    'gains',
    charts.line_with_bands(
      np.asarray(config.gains),
      series,
      xlabel='gain = spectral radius',
      ylabel='largest exponent',
    ),
    'Largest exponent of the corners of the simplex against the gain.',
  )
  for claim in _claims(config, found, g):
    workdir.add_claim(claim)


def _band(values: np.ndarray):
  """Mean and interval over the leading axis of `[seeds, gains]`."""
  columns = [records.with_interval('x', v).values() for v in values.T]
  mean, low, high = np.array([list(column) for column in columns]).T
  return mean, low, high


def _difference(unit: dict, g: int) -> np.ndarray:
  """`[seeds]` largest exponent less that of the degree control."""
  first = unit['exponents'][:, :, g, 0]
  return first[:, 0] - first[:, 1]


def _ordering(config, found: dict, g: int) -> list[dict]:
  """Mixtures by their difference to the control, the largest first."""
  rows = []
  for case, unit in found.items():
    gap = _difference(unit, g)
    interval = stats.mean_interval(gap, level=records.LEVEL)
    low, high = float(interval.low), float(interval.high)
    rows.append(
      {
        'law': case.law,
        'shares': case.mixture,
        'difference': float(gap.mean()),
        'low': low,
        'high': high,
        'excludes 0': low > 0 or high < 0,
      }
    )
  return sorted(rows, key=lambda row: -row['difference'])


def _claims(config, found: dict, g: int) -> list[Claim]:
  rows = _ordering(config, found, g)
  corners = {
    (case.shares.index(1.0) + 1, case.law): unit
    for case, unit in found.items()
    if max(case.shares) == 1
  }
  apart = sum(row['excludes 0'] for row in rows)
  claims = [
    records.share_claim(
      'Shares of motifs change the largest exponent beyond what degrees, '
      'weights and radius do, for more than 1 in 10 mixtures',
      np.array([row['excludes 0'] for row in rows]),
      threshold=0.1,
      sense='>',
      note=f'{apart} of {len(rows)} intervals exclude 0, where 5 % would by '
      'chance',
    )
  ]
  for layer, law, text, sense in (
    (2, 'positive pairs', 'Positive pairs calm a network', '<'),
    (3, 'negative loops', 'Negative loops liven a network', '>'),
  ):
    if (layer, law) in corners:
      claims.append(
        records.mean_claim(
          f'{text} (largest exponent against the degree-preserving control)',
          _difference(corners[layer, law], g),
          threshold=0,
          sense=sense,
          unit='1/tau',
        )
      )
  return claims
