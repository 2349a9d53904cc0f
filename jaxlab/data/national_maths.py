"""Two forms of a Swedish national test of mathematics, 28 items each.

Scores of 1,008 and 1,401 pupils, in the PyPI package irtorch (MIT licence).
"""

import pathlib
from collections.abc import Sequence

import numpy as np

from jaxlab import errors
from jaxlab.data import files
from jaxlab.data.response_matrix import MatrixSource, ResponseMatrix
from jaxlab.data.response_matrix.matrix import numbered, read_arrays

_RAW = files.RawFiles(
  name='national_maths',
  patterns=[['swedish_national_maths.npz']],
  origin='the PyPI package irtorch 0.5.6, datasets/national_mathematics',
  shared='gpm',
)
_FORMS = (1, 2)
_ITEMS = ('full', 'single')


def _read(
  found: Sequence[pathlib.Path], *, form: int = 1, items: str = 'full'
) -> ResponseMatrix:
  """Reads a form.

  Args:
    found: the file.
    form: 1 or 2; they have other pupils and other items.
    items: 'full' takes all items, right where the score is the highest of the
      item; 'single' takes the items with one point alone.
  """
  if form not in _FORMS:
    raise errors.UserError(f'form={form!r} is not one of 1, 2.')
  if items not in _ITEMS:
    raise errors.UserError(
      f'items={items!r} is not one of {", ".join(_ITEMS)}.'
    )
  name = f'form{form}'
  score = read_arrays(found[0], {name: (None, None)})[name]
  highest = score.max(axis=0)
  kept = highest == 1 if items == 'single' else highest >= 1
  return ResponseMatrix(
    responses=(score == highest)[:, kept].astype(np.int8),
    mask=np.ones((len(score), kept.sum()), bool),
    examinees=numbered(len(score), f'{name}/'),
    items=numbered(score.shape[1], f'{name}/')[kept],
  )


SOURCE = MatrixSource(_RAW, _read, 'MIT')
load, prepare, describe = SOURCE.load, SOURCE.prepare, SOURCE.describe
