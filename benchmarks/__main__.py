"""Runs benchmarks: python -m benchmarks [FAMILY ...] [--quick]."""

import argparse
import importlib
import pathlib
import sys
from collections.abc import Sequence

import jax
import rich.console

from benchmarks import peers, report, timing
from jaxlab.harness import startup

FAMILIES = (
  'adaptive_testing',
  'bandits',
  'certified',
  'dendrites',
  'fairness',
  'lm',
  'motifs',
  'quantized_matmul',
)
_LEAST_WIDTH = 120
_RESULTS = pathlib.Path(__file__).parent / 'results'


def main(argv: Sequence[str] | None = None) -> int:
  """Runs the named families, all by default.

  A family is a module of this package with a function `rows(quick)` that
  yields `timing.Row`s.

  Args:
    argv: the command line.

  Returns:
    1 if results of two programs that should agree differ, else 0.
  """
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks', description=__doc__
  )
  parser.add_argument(
    'families', nargs='*', help=f'of {", ".join(FAMILIES)}; all by default'
  )
  parser.add_argument(
    '--quick', action='store_true', help='small sizes: about a minute'
  )
  parser.add_argument(
    '--install-peers',
    action='store_true',
    help=f'install the other implementations into {peers.VENV.name}, and stop',
  )
  parser.add_argument(
    '--out', type=pathlib.Path, default=_RESULTS, help='folder of the results'
  )
  options = parser.parse_args(argv)
  unknown = sorted(set(options.families) - set(FAMILIES))
  if unknown:
    parser.error(f'unknown family {unknown[0]!r}; use {", ".join(FAMILIES)}.')
  if options.install_peers:
    peers.install()
    return 0
  # As in `jaxlab run`, every core is a device.
  jax.config.update('jax_num_cpu_devices', startup.cores())
  # Compile times must be those of the first run on a machine.
  jax.config.update('jax_enable_compilation_cache', False)
  console = rich.console.Console()
  # Narrower, in a file for instance, the table would be a tall one.
  console.width = max(console.width, _LEAST_WIDTH)
  agreed = True
  for family in options.families or FAMILIES:
    module = importlib.import_module(f'benchmarks.{family}')
    rows = []
    with console.status(f'{family} ...') as status:
      for row in module.rows(options.quick):
        rows.append(row)
        status.update(f'{family}: {len(rows)} rows')
        console.print(report.line(row), markup=False, highlight=False)
    console.print(report.table(family, rows))
    for row in rows:
      if row.note:
        console.print(f'{row.work}: {row.note}', markup=False, highlight=False)
    path = options.out / f'{family}.json'
    report.write(path, rows)
    console.print(f'results: {path}', markup=False, highlight=False)
    agreed &= not any(row.note.startswith(timing.DIFFER) for row in rows)
  return 0 if agreed else 1


if __name__ == '__main__':
  sys.exit(main())
