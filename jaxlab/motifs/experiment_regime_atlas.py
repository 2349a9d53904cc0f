"""What each of the 13 motifs does for random weights, beside the theory."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab import parallel
from jaxlab import plots as charts
from jaxlab.harness.claims import Claim
from jaxlab.harness.progress import Progress
from jaxlab.motifs import catalog, models, plots, regimes, stability
from jaxlab.motifs import experiment_records as records
from jaxlab.motifs.models import MotifParams
from jaxlab.motifs.regimes import (
  CHAOTIC,
  FIXED,
  MULTISTABLE,
  OSCILLATING,
  REGIMES,
)

_START = 1e-4  # size of a kick of the origin
_THEORY = 'Routh-Hurwitz on l^3 - c2 l - c3; Mallet-Paret & Smith 1990'


def run(config, workdir) -> None:
  """Classifies draws of every motif and compares them with the layers."""
  _check(config)
  cfg = regime_config(config)
  cases = [(g, m) for g in config.gains for m in catalog.NAMES]
  found = {}
  with Progress('regimes of the motifs', len(cases)) as progress:
    for gain, name in cases:
      unit = f'{name}-{gain:g}'
      found[gain, name] = workdir.cached(
        unit, functools.partial(_atlas_unit, config, cfg, name, gain)
      )
      progress.advance()
  _record(config, workdir, found)


def regime_config(config) -> regimes.RegimeConfig:
  """The horizons of a config."""
  return regimes.RegimeConfig(
    n_starts=config.starts,
    dt=config.dt,
    burn_in=config.burn_in,
    window=config.window,
  )


def draw_weights(key: jax.Array, name: str, num: int, gain: float) -> jax.Array:
  """`[num, 3, 3]` normal weights of standard deviation `gain` of a motif."""
  normal = jax.random.normal(key, (num, 3, 3))
  return gain * normal * catalog.adjacency(name).T


@functools.cache
def classify_draws(cfg: regimes.RegimeConfig):
  """The compiled classifier of `[n]` keys, `[n, 3, 3]` W and `[n, 3]` tau."""

  def classify(key, W, tau):
    return regimes.classify_regime(key, MotifParams(W, 0.0, tau), cfg)

  return parallel.sharded_vmap(classify)


def _check(config) -> None:
  records.check_positive(
    config,
    *('gains', 'draws', 'starts', 'dt', 'burn_in', 'window', 'origin_time'),
    'near_line',
  )
  records.check(
    config,
    'gains',
    config.claim_gain in config.gains,
    f'gains with config.claim_gain = {config.claim_gain} among them',
  )


def _atlas_unit(config, cfg, name: str, gain: float) -> dict:
  """Regimes and the fate of a kicked origin, for all draws of a motif."""
  key = records.key_of(config.seed, name, f'{gain:g}')
  W_key, start_key = jax.random.split(key)
  W = draw_weights(W_key, name, config.draws, gain)
  keys = parallel.replication_keys(start_key, config.draws)
  found = classify_draws(cfg)(keys, W, jnp.ones((config.draws, 3)))
  steps = round(config.origin_time / config.dt)
  origin = stability.origin_stability(W)
  return {
    'regime': found.regime,
    'num_fixed': found.num_fixed,
    'period': _first_finite(found.period),
    'c2': origin.c2,
    'c3': origin.c3,
    'max_real': origin.max_real,
    'growth': _kick(steps)(keys, W, jnp.full(len(W), config.dt)),
  }


def _first_finite(values: jax.Array) -> jax.Array:
  """`[n]` first number in each row of `[n, K]` that is one."""
  place = jnp.argmax(jnp.isfinite(values), axis=1)
  return jnp.take_along_axis(values, place[:, None], axis=1)[:, 0]


@functools.cache
def _kick(steps: int):
  """By what factor a small kick of the origin has grown after some steps."""

  def growth(key, W, dt):
    params = MotifParams(W)
    x0 = _START * jax.random.normal(key, (3,))

    def step(_, x):
      return models.rk4_step(lambda y: models.flow(params, y), x, dt)

    x = jax.lax.fori_loop(0, steps, step, x0)
    return jnp.linalg.norm(x) / jnp.linalg.norm(x0)

  return parallel.sharded_vmap(growth)


def regime_row(name: str, regime: np.ndarray) -> dict:
  """Shares of the regimes with the interval of the cycles, as a row."""
  cycles = int((regime == OSCILLATING).sum())
  low, high = records.share_interval(cycles, len(regime))
  shares = {r: float((regime == i).mean()) for i, r in enumerate(REGIMES)}
  return {
    'motif': name,
    'layer': catalog.layer_of(name),
    'draws': len(regime),
    **shares,
    'oscillating low': low,
    'oscillating high': high,
  }


def shares_figure(regime: dict[str, np.ndarray]):
  """Bars of the regimes of each motif, with Wilson intervals."""
  series = {}
  for index in (MULTISTABLE, OSCILLATING, CHAOTIC):
    hits = [int((r == index).sum()) for r in regime.values()]
    sizes = [len(r) for r in regime.values()]
    ends = [
      records.share_interval(*pair) for pair in zip(hits, sizes, strict=True)
    ]
    series[REGIMES[index]] = (
      np.divide(hits, sizes),
      np.array([low for low, _ in ends]),
      np.array([high for _, high in ends]),
    )
  return charts.bars_with_intervals(
    list(regime), series, ylabel='share of weight draws'
  )


def _record(config, workdir, found: dict) -> None:
  rows = [
    {'gain': gain, **regime_row(name, unit['regime'])}
    | {'median period': _median(unit['period'])}
    for (gain, name), unit in found.items()
  ]
  workdir.save_table(
    'regimes',
    rows,
    'Shares of the regimes over weight draws N(0, gain^2), by motif.',
  )
  chosen = {name: found[config.claim_gain, name] for name in catalog.NAMES}
  regime = {name: unit['regime'] for name, unit in chosen.items()}
  workdir.save_figure(
    'regimes',
    shares_figure(regime),
    f'Regimes of the motifs at gain {config.claim_gain:g}; the others rest at '
    'one point.',
  )
  together = {
    field: np.concatenate([unit[field] for unit in chosen.values()])
    for field in ('c2', 'c3', 'regime')
  }
  workdir.save_figure(
    'regime_map',
    plots.regime_map(together['c2'], together['c3'], together['regime']),
    'Regimes over the cycle products, with the lines where the origin loses '
    'its stability.',
  )
  captions = [
    f'{name}\n{(regime[name] == OSCILLATING).mean():.0%} cycle'
    for name in catalog.NAMES
  ]
  workdir.save_figure(
    'motifs',
    plots.motif_gallery(captions),
    'The 13 motifs, coloured by layer, and the share of draws that oscillate.',
  )
  for claim in (*_layer_claims(regime), _origin_claim(config, found)):
    workdir.add_claim(claim)


def _median(values: np.ndarray) -> float:
  values = values[np.isfinite(values)]
  return float(np.median(values)) if len(values) else float('nan')


def _in_layer(layer: int) -> Sequence[str]:
  return [n for n in catalog.NAMES if catalog.layer_of(n) == layer]


def _layer_claims(regime: dict[str, np.ndarray]) -> list[Claim]:
  def each(text, names, kind, threshold, sense='>'):
    return Claim.all_of(
      text,
      records.PAPER,
      [
        records.share_claim(
          name, regime[name] == kind, threshold=threshold, sense=sense
        )
        for name in names
      ],
    )

  second = np.concatenate([regime[name] for name in _in_layer(2)])
  return [
    each(
      'Layer 1 rests at one point (over 95 % of draws, each motif)',
      _in_layer(1),
      FIXED,
      0.95,
    ),
    records.share_claim(
      'Layer 2 neither oscillates nor is chaotic (below 1 % of draws)',
      (second == OSCILLATING) | (second == CHAOTIC),
      threshold=0.01,
      sense='<',
    ),
    each(
      'Layer 2 has several fixed points (over 20 % of draws, each motif)',
      _in_layer(2),
      MULTISTABLE,
      0.2,
    ),
    each(
      'Layer 3 oscillates (over 5 % of draws, each motif)',
      _in_layer(3),
      OSCILLATING,
      0.05,
    ),
    records.share_claim(
      'The pure ring is never chaotic (below 5 % of draws)',
      regime['030C'] == CHAOTIC,
      threshold=0.05,
      sense='<',
      source=_THEORY,
    ),
  ]


def _origin_claim(config, found: dict) -> Claim:
  """The two lines against simulated kicks of the origin."""
  c2, c3, real, growth = (
    np.concatenate([unit[field] for unit in found.values()])
    for field in ('c2', 'c3', 'max_real', 'growth')
  )
  static, hopf = stability.margins(c2, c3)
  predicted = np.asarray((static > 0) & (hopf > 0))
  clear = np.abs(real) > config.near_line
  return records.share_claim(
    'The lines in (c2, c3) say whether a kick of the origin dies out (over '
    '99 % of draws)',
    (predicted == (growth < 1))[clear],
    threshold=0.99,
    sense='>',
    source=_THEORY,
    note=f'{(~clear).sum()} draws within {config.near_line:g} of a line left '
    'out: their kicks change too slowly to tell',
  )
