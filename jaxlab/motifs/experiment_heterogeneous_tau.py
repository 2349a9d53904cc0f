"""Can pairwise feedback oscillate where time constants differ?"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab import parallel
from jaxlab.harness.claims import Claim
from jaxlab.harness.progress import Progress
from jaxlab.motifs import catalog
from jaxlab.motifs import experiment_records as records
from jaxlab.motifs import experiment_regime_atlas as atlas
from jaxlab.motifs.regimes import OSCILLATING

_HUB = '201'  # two 2-cycles that share a node
_SINGLE = ('111D', '111U', '120D', '120U')  # one 2-cycle
_THEORY = 'Routh-Hurwitz with unequal time constants; Bendixson-Dulac'


def run(config, workdir) -> None:
  """Classifies the same weights with equal and with unequal time constants."""
  records.check_positive(
    config, 'gain', 'spread', 'draws', 'starts', 'dt', 'burn_in', 'window'
  )
  smallest = np.exp(-config.spread)
  records.check(
    config,
    'dt',
    config.dt <= 0.5 * smallest,
    f'at most half the smallest time constant, {0.5 * smallest:.3g}',
  )
  names = [n for n in catalog.NAMES if catalog.layer_of(n) < 3]
  cases = [(n, True) for n in names] + [(_HUB, False)]
  found = {}
  with Progress('regimes of the motifs', len(cases)) as progress:
    for name, spread in cases:
      unit = f'{name}-{"unequal" if spread else "equal"}'
      found[name, spread] = workdir.cached(
        unit, functools.partial(_unit, config, name, spread)
      )['regime']
      progress.advance()
  _record(config, workdir, found)


def _unit(config, name: str, spread: bool) -> dict:
  """Regimes of `[draws]` networks; the weights do not depend on `spread`."""
  key = records.key_of(config.seed, name)
  W_key, tau_key, start_key = jax.random.split(key, 3)
  W = atlas.draw_weights(W_key, name, config.draws, config.gain)
  logs = jax.random.uniform(
    tau_key, (config.draws, 3), minval=-config.spread, maxval=config.spread
  )
  tau = jnp.exp(logs) if spread else jnp.ones_like(logs)
  keys = parallel.replication_keys(start_key, config.draws)
  classify = atlas.classify_draws(atlas.regime_config(config))
  return {'regime': classify(keys, W, tau).regime}


def _record(config, workdir, found: dict) -> None:
  rows = [
    {'time constants': 'unequal' if spread else 'equal'}
    | atlas.regime_row(name, regime)
    for (name, spread), regime in found.items()
  ]
  workdir.save_table(
    'regimes',
    rows,
    f'Shares of the regimes over weight draws N(0, {config.gain:g}^2); log tau '
    f'uniform in +-{config.spread:g}, or all equal.',
  )
  workdir.save_figure(
    'regimes',
    atlas.shares_figure(
      {
        name if spread else f'{name}, equal tau': regime
        for (name, spread), regime in found.items()
      }
    ),
    'Regimes with unequal time constants, and of 201 with equal ones.',
  )
  for claim in _claims(found):
    workdir.add_claim(claim)


def _claims(found: dict) -> list[Claim]:
  def cycles(names, spread=True):
    return np.concatenate([found[n, spread] for n in names]) == OSCILLATING

  first = [n for n in catalog.NAMES if catalog.layer_of(n) == 1]
  shown = functools.partial(records.share_claim, source=_THEORY)
  return [
    shown(
      'Unequal time constants let 201 oscillate (over 0.5 % of draws)',
      cycles([_HUB]),
      threshold=0.005,
      sense='>',
    ),
    shown(
      'The same weights with equal ones do not (below 2 % of draws)',
      cycles([_HUB], spread=False),
      threshold=0.02,
      sense='<',
    ),
    shown(
      'No time constants let layer 1 oscillate (below 1 % of draws)',
      cycles(first),
      threshold=0.01,
      sense='<',
    ),
    shown(
      'Nor a single 2-cycle (below 1 % of draws)',
      cycles(_SINGLE),
      threshold=0.01,
      sense='<',
    ),
  ]
