"""Sections 6 and 7 of the LSAT: the textbook tables of five items each.

Answers of 1,000 test takers, as frequencies of patterns (Bock & Lieberman,
Psychometrika, 1970).
"""

import functools
import pathlib
from collections.abc import Sequence

import numpy as np

from jaxlab.data import files, tables
from jaxlab.data.response_matrix import MatrixSource, ResponseMatrix
from jaxlab.data.response_matrix.matrix import numbered

_ITEMS = 5


def source(section: int) -> MatrixSource:
  """Returns section 6 or 7."""
  raw = files.RawFiles(
    name=f'lsat{section}',
    patterns=[['lsat_patterns.csv']],
    origin='Bock & Lieberman, Psychometrika 35, 1970',
    shared='gpm',
  )
  return MatrixSource(raw, functools.partial(_read, section), 'none stated')


def _read(section: int, found: Sequence[pathlib.Path]) -> ResponseMatrix:
  name = f'lsat{section}'
  table = tables.read_table(found[0], ('pattern', name))
  counts = tables.numbers(table, name, 0, whole=True)
  patterns = table.columns['pattern']
  for row, pattern in enumerate(patterns):
    if len(pattern) != _ITEMS or set(str(pattern)) - {'0', '1'}:
      raise table.failure('pattern', row, f'{_ITEMS} answers 0 or 1')
  answers = np.array([[int(x) for x in pattern] for pattern in patterns])
  responses = np.repeat(answers, counts, axis=0).astype(np.int8)
  return ResponseMatrix(
    responses=responses,
    mask=np.ones(responses.shape, bool),
    examinees=numbered(len(responses)),
    items=numbered(_ITEMS),
  )
