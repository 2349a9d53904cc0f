"""Methods on one or more networks, over calibration seeds."""

from jaxlab.quantization import experiment_claims as claims
from jaxlab.quantization import experiment_tables as tables
from jaxlab.quantization.experiment_cells import Bench, Table, check_config


def run(config, workdir) -> None:
  """Quantizes the networks with all methods and compares them."""
  check_config(config)
  bench = Bench(config, workdir)
  table = Table(bench.measure(bench.cells(config.methods)))
  record(workdir, bench, table)
  tables.save_published(workdir)
  tables.add_headlines(workdir, table, config.methods)
  for claim in claims.of_table(table):
    workdir.add_claim(claim)


def record(workdir, bench: Bench, table: Table) -> None:
  """Tables and figures of the quantizations."""
  tables.save_accuracy(workdir, bench, table)
  if claims.SHARP in table.methods:
    tables.save_differences(workdir, table, claims.SHARP)
  tables.save_layers(workdir, table)
  tables.save_choices(workdir, table)
  tables.save_packed(workdir, table)
