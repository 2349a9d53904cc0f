"""Uniform levels against codebooks, with and without the same alignment."""

import numpy as np

from jaxlab.quantization import experiment_claims as claims
from jaxlab.quantization import experiment_tables as tables
from jaxlab.quantization.experiment_accuracy import record
from jaxlab.quantization.experiment_cells import Bench, Table, check_config

_ALIGNED = 'kmeans_aligned'
_WITHOUT = 'sharp_no_transform'
_SHOWN = (claims.SHARP, _WITHOUT, 'kmeans_recon', _ALIGNED)


def run(config, workdir) -> None:
  """Quantizes with both kinds of levels."""
  check_config(config)
  bench = Bench(config, workdir)
  table = Table(bench.measure(bench.cells(config.methods)))
  record(workdir, bench, table)
  workdir.save_table(
    'verdicts',
    list(_verdicts(table)),
    'Which kind of levels wins, by the mean over seeds, and what the '
    'transforms add; points.',
  )
  tables.save_published(workdir)
  tables.add_headlines(workdir, table, _SHOWN)
  for claim in claims.of_table(table):
    workdir.add_claim(claim)


def _verdicts(table: Table):
  for network in table.networks:
    for bits in table.bits:
      row: tables.Row = {'network': network, 'bits': bits}
      for rival, name in (
        ('kmeans_recon', 'codebook without alignment'),
        (_ALIGNED, 'codebook with alignment'),
      ):
        if rival in table.methods:
          gain = np.mean(table.gain(network, bits, claims.SHARP, rival))
          row[f'ahead of {name}'] = gain
          row[f'against {name}'] = _words(gain)
      if _WITHOUT in table.methods:
        row['share of the transforms'] = np.mean(
          table.gain(network, bits, claims.SHARP, _WITHOUT)
        )
      yield row


def _words(gain: float) -> str:
  if gain >= 0:
    return 'uniform is ahead'
  return 'uniform is within 1 point' if gain >= -1 else 'uniform is behind'
