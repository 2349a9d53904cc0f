"""Accuracy against bit-widths, for every method."""

import numpy as np

from jaxlab import plots
from jaxlab.harness.evidence import mean_claim, with_interval
from jaxlab.quantization import experiment_claims as claims
from jaxlab.quantization import experiment_tables as tables
from jaxlab.quantization.experiment_accuracy import record
from jaxlab.quantization.experiment_cells import Bench, Table, check_config

_LOST_AT_8_BITS = -0.5


def run(config, workdir) -> None:
  """Quantizes with few and with many bits."""
  check_config(config)
  bench = Bench(config, workdir)
  table = Table(bench.measure(bench.cells(config.methods)))
  record(workdir, bench, table)
  for network in table.networks:
    workdir.save_figure(
      f'bits-{network}',
      _figure(table, network),
      'Accuracy by bit-widths, mean over seeds with 95 % t intervals.',
    )
  tables.add_headlines(workdir, table, (claims.SHARP,))
  for claim in _claims(bench, table):
    workdir.add_claim(claim)


def _figure(table: Table, network: str):
  series = {}
  for method in table.methods:
    found = [
      list(with_interval('', table.accuracy(network, b, method)).values())
      for b in table.bits
    ]
    series[method] = tuple(np.transpose(found))
  fig = plots.line_with_bands(
    np.arange(len(table.bits)),
    series,
    xlabel='bits of weights and activations',
    ylabel='accuracy on test pictures (%)',
    title=network,
  )
  fig.axes[0].set_xticks(range(len(table.bits)), table.bits)
  return fig


def _claims(bench: Bench, table: Table):
  yield from claims.of_table(table)
  if 'W8A8' not in table.bits or 'rtn_minmax' not in table.methods:
    return
  for network in table.networks:
    nets = {cell.net for cell in table.found}
    exact = np.mean([bench.trained(network, net).accuracy for net in nets])
    yield mean_claim(
      f'{claims.kind_of(network)} W8A8: rounding to nearest loses less than '
      'half a point',
      table.accuracy(network, 'W8A8', 'rtn_minmax') - exact,
      threshold=_LOST_AT_8_BITS,
      sense='>',
      unit='points',
      source='this package: 8 bits need no method',
      note=table.note,
    )
