"""Eigenvalues of motif networks beside the curves of their short cycles."""

import functools

import jax
import numpy as np

from jaxlab.harness.claims import Claim
from jaxlab.harness.progress import Progress
from jaxlab.motifs import experiment_records as records
from jaxlab.motifs import plots, spectra
from jaxlab.motifs.tile import tile
from jaxlab.motifs.weights import control, weights

_ELLIPSE = 'Sommers, Crisanti, Sompolinsky & Stein 1988'
_HYPOTROCHOID = 'Aceituno, Rogers & Schomerus 2019'
# Arm -> motif, signs of its cycles, lengths of the cycles of the theory.
ARMS = {
  '2-cycles, positive': ('201', 1, 0, (2,)),
  '2-cycles, negative': ('201', -1, 0, (2,)),
  '3-cycles, positive': ('030C', 0, 1, (3,)),
  '3-cycles, negative': ('030C', 0, -1, (3,)),
}


def run(config, workdir) -> None:
  """Compares the eigenvalues of each arm and of its control with theory."""
  records.check_names(config, 'arms', tuple(ARMS))
  records.check_positive(config, 'num_nodes', 'num_edges', 'slack')
  records.check_seeds(config)
  found: dict = {arm: [] for arm in config.arms}
  with Progress('spectra', len(found) * config.seeds) as progress:
    for arm, units in found.items():
      for seed in range(config.seeds):
        unit = functools.partial(_unit, config, arm, seed)
        units.append(workdir.cached(f'{_unit_name(arm)}-{seed}', unit))
        progress.advance()
  _record(config, workdir, found)


def _unit_name(arm: str) -> str:
  return arm.replace(', ', '-')


def _unit(config, arm: str, seed: int) -> dict:
  """Spectra and shares inside the curves: `[2]` of the arm and its control."""
  motif, s2, s3, orders = ARMS[arm]
  key = records.key_of(config.seed, arm, seed)
  graph_key, weight_key, control_key = jax.random.split(key, 3)
  A, placements = tile(
    graph_key, motif, num_nodes=config.num_nodes, num_edges=config.num_edges
  )
  W = weights(weight_key, A, 'loop_sign', placements=placements, s2=s2, s3=s3)
  found = [
    _measure(each, orders, config.slack)
    for each in (W, control(control_key, W, 'er'))
  ]
  return {field: np.stack([one[field] for one in found]) for field in found[0]}


def _measure(W, orders, slack: float) -> dict:
  """Eigenvalues, the curve by cycles, and the shares inside it and a disc."""
  values = np.linalg.eigvals(np.asarray(W, np.float64))
  curve = np.asarray(spectra.spectral_curve(W, orders))
  disc = np.asarray(spectra.spectral_curve(W, ()))
  facts = records.network_facts(np.asarray(W).T != 0, W)
  return {
    'values': values,
    'curve': curve,
    'inside': spectra.share_inside(values, curve, slack=slack),
    'inside_disc': spectra.share_inside(values, disc, slack=slack),
    **{name.replace(' ', '_'): value for name, value in facts.items()},
  }


def _record(config, workdir, found: dict) -> None:
  rows = []
  for arm, units in found.items():
    for place, kind in enumerate((arm, f'{arm}: random control')):
      columns = {
        name: np.array([unit[field][place] for unit in units])
        for name, field in (
          ('inside the curve', 'inside'),
          ('inside the disc', 'inside_disc'),
          ('edges', 'edges'),
          ('weight rms', 'weight_rms'),
          ('spectral radius', 'spectral_radius'),
        )
      }
      row: dict = {'arm': kind, 'motif': ARMS[arm][0]}
      for name, values in columns.items():
        row |= records.with_interval(name, values)
      rows.append(row)
  workdir.save_table(
    'spectra',
    rows,
    'Share of the eigenvalues inside the curve of their cycles and inside the '
    f'disc of the same variance, both widened by {config.slack:.0%}; means '
    f'over {config.seeds} seeds. The control has the same weights, '
    'scaled to the same radius, on random edges.',
  )
  workdir.save_figure(
    'spectra',
    plots.spectrum(
      {
        arm: (units[0]['values'][0], units[0]['curve'][0])
        for arm, units in found.items()
      }
    ),
    'Eigenvalues of one network of each arm, and the curve of its cycles.',
  )
  for claim in _claims(config, found):
    workdir.add_claim(claim)


def _claims(config, found: dict) -> list[Claim]:
  inside, better = [], []
  for arm, units in found.items():
    motif, _, _, orders = ARMS[arm]
    source = _ELLIPSE if orders == (2,) else _HYPOTROCHOID
    curve, disc = (
      np.array([unit[field][0] for unit in units])
      for field in ('inside', 'inside_disc')
    )
    inside.append(
      records.mean_claim(
        f'{arm} ({motif})',
        curve,
        threshold=0.95,
        sense='>',
        unit='share',
        source=source,
      )
    )
    better.append(
      records.mean_claim(
        f'{arm} ({motif})',
        curve - disc,
        threshold=0,
        sense='>',
        unit='share',
        source=source,
      )
    )
  both = f'{_ELLIPSE}; {_HYPOTROCHOID}'
  return [
    Claim.all_of(
      'Over 95 % of the eigenvalues lie inside the curve of the short cycles, '
      f'widened by {config.slack:.0%}',
      both,
      inside,
    ),
    Claim.all_of(
      'The curve holds more of them than the disc of the same variance',
      both,
      better,
    ),
  ]
