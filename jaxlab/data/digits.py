"""The digits data set that ships with scikit-learn: needs no download.

1,797 handwritten digits, 8 x 8 pixels of 0..16 (the test part of the UCI
optical recognition of handwritten digits data, CC BY 4.0).
"""

from typing import NamedTuple

import numpy as np
import sklearn.datasets
import sklearn.model_selection

from jaxlab import errors


class Digits(NamedTuple):
  """Images with their labels.

  Attributes:
    images: `[n, 64]` float32 in [0, 1], pixels row by row.
    labels: `[n]` int32, the digit 0..9.
  """

  images: np.ndarray
  labels: np.ndarray


def load(
  split: str | None = None, *, seed: int = 0, train: int = 597
) -> Digits:
  """Reads the digits.

  Args:
    split: `'train'` or `'test'`; None is all 1,797 digits in their own order.
    seed: decides which digits are in which split.
    train: number of training digits, from 10 to 1787; the rest is the test
      split. Both hold each digit in proportion to its frequency.

  Returns:
    The digits of the split, in an order that depends on `seed` and `train`.

  Raises:
    UserError: if `split` or `train` is out of range.
  """
  images, labels = sklearn.datasets.load_digits(return_X_y=True)
  digits = Digits((images / 16).astype(np.float32), labels.astype(np.int32))
  if split is None:
    return digits
  if split not in ('train', 'test'):
    raise errors.UserError(f"digits: split={split!r} is not 'train' or 'test'.")
  classes = labels.max() + 1
  if not classes <= train <= len(labels) - classes:
    raise errors.UserError(
      f'digits: train={train} is not in [{classes}, {len(labels) - classes}].'
    )
  rows = sklearn.model_selection.train_test_split(
    np.arange(len(labels)), train_size=train, stratify=labels, random_state=seed
  )[split == 'test']
  return Digits(digits.images[rows], digits.labels[rows])


def prepare(manual_dir: str | None = None) -> str:
  """Says that there is nothing to prepare."""
  del manual_dir
  return 'digits ships with scikit-learn: nothing to prepare.'


def describe(split: str | None = None) -> list[tuple[str, str]]:
  """Returns source, licence and sizes; see `jaxlab.data.describe`."""
  images, labels = load(split)
  counts = np.bincount(labels)
  return [
    ('source', 'scikit-learn load_digits (UCI optical recognition, test part)'),
    ('licence', 'CC BY 4.0'),
    ('splits', 'train (597), test (1,200), all (1,797)'),
    ('images', f'[{len(images):,}, 64] float32 in [0, 1]'),
    ('labels', f'[{len(labels):,}] int32, {counts.min()}..{counts.max()} each'),
  ]
