"""SHARP-Q without one part at a time."""

import numpy as np

from jaxlab.harness.claims import Claim
from jaxlab.harness.evidence import mean_claim
from jaxlab.quantization import experiment_claims as claims
from jaxlab.quantization import experiment_tables as tables
from jaxlab.quantization.experiment_accuracy import record
from jaxlab.quantization.experiment_cells import (
  Bench,
  Found,
  Table,
  check_config,
)

_PARTS = {
  'har_only': 'compensation (no reconstruction)',
  'dfsc_only': 'rectification',
  'sharp_no_transform': 'the transforms of the rectification',
  'har_mse': 'the Fisher form (squared error instead)',
  'static_fisher': 'its refreshes',
  'diag_fisher': 'all but the diagonal of the Fisher form',
  'no_gain_bias': 'gains and biases',
}


def run(config, workdir) -> None:
  """Quantizes with the whole method and with what is left of it."""
  check_config(config)
  bench = Bench(config, workdir)
  table = Table(bench.measure(bench.cells(config.methods)))
  record(workdir, bench, table)
  tables.add_headlines(workdir, table, config.methods)
  for claim in _claims(table):
    workdir.add_claim(claim)


def _claims(table: Table):
  if claims.SHARP not in table.methods:
    return
  for bits in table.bits:
    for method, part in _PARTS.items():
      if method in table.methods:
        yield mean_claim(
          f'{bits}: {part}: worth over 0 points',
          table.mean_gain(bits, claims.SHARP, method),
          threshold=0.0,
          sense='>',
          unit='points',
          source=claims.PAPER,
          note='; '.join(
            filter(None, (f'mean over {len(table.networks)} nets', table.note))
          ),
        )
  yield _refreshed(table)
  yield from claims.packed(table)


def _refreshed(table: Table) -> Claim:
  """That the Fisher form moves while a block learns."""
  changes = [
    min(_changes(found), default=0.0)
    for cell, found in table.found.items()
    if cell.method == claims.SHARP
  ]
  return mean_claim(
    'The Fisher form changes at each refresh: least relative change',
    np.array(changes),
    threshold=0.0,
    sense='>',
    source=claims.PAPER,
    note='a seed is a quantization, with the least change of its blocks',
  )


def _changes(found: Found) -> list[float]:
  return [c for block in found.report['blocks'] for c in block['change']]
