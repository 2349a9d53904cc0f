"""Runs notebooks: python -m colabs [NAME ...] [--write]."""

import argparse
import pathlib
import sys
import tempfile
import time
from collections.abc import Sequence

import nbclient
import nbformat

FOLDER = pathlib.Path(__file__).parent


def names() -> list[str]:
  """Returns the names of the notebooks of this folder."""
  return sorted(path.stem for path in FOLDER.glob('*.ipynb'))


def execute(path: pathlib.Path, timeout: int) -> nbformat.NotebookNode:
  """Runs a notebook in an empty folder; its file is left as it is.

  Args:
    path: the notebook.
    timeout: most seconds for a cell.

  Returns:
    The notebook with its outputs.

  Raises:
    CellExecutionError: if a cell raises.
    CellTimeoutError: if a cell takes too long.
  """
  notebook = nbformat.read(path, as_version=4)
  with tempfile.TemporaryDirectory() as folder:
    return nbclient.NotebookClient(
      notebook,
      timeout=timeout,
      kernel_name='python3',
      record_timing=False,
      extra_arguments=['--IPKernelApp.log_level=ERROR'],
      resources={'metadata': {'path': folder}},
    ).execute()


def main(argv: Sequence[str] | None = None) -> int:
  """Runs the named notebooks, all by default, and says how long they take.

  Args:
    argv: the command line.

  Returns:
    1 if a notebook fails, else 0.
  """
  known = names()
  parser = argparse.ArgumentParser(prog='python -m colabs', description=__doc__)
  parser.add_argument(
    'names', nargs='*', help=f'of {", ".join(known)}; all by default'
  )
  parser.add_argument(
    '--write', action='store_true', help='store the outputs in the notebooks'
  )
  parser.add_argument(
    '--timeout', type=int, default=600, help='most seconds for a cell'
  )
  options = parser.parse_args(argv)
  unknown = sorted(set(options.names) - set(known))
  if unknown:
    parser.error(f'unknown notebook {unknown[0]!r}; use {", ".join(known)}.')
  failures = 0
  for name in options.names or known:
    path = FOLDER / f'{name}.ipynb'
    start = time.perf_counter()
    try:
      done = execute(path, options.timeout)
    except (
      nbclient.exceptions.CellExecutionError,
      nbclient.exceptions.CellTimeoutError,
    ) as error:
      failures += 1
      print(f'{name}: FAILED\n{error}', file=sys.stderr)
      continue
    print(f'{name}: {time.perf_counter() - start:.0f} s', flush=True)
    if options.write:
      nbformat.write(done, path)
  return 1 if failures else 0


if __name__ == '__main__':
  sys.exit(main())
