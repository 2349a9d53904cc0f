"""Records of people with a label, and their encoding as numbers."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxlab.data import tables


class Records(NamedTuple):
  """People, one a row.

  Attributes:
    numeric: `[n, d]` float64 features; NaN where missing.
    categorical: `[n, c]` text features; empty where missing.
    labels: `[n]` int32, 1 for the outcome that a model is to foresee.
    weight: `[n]` float64: how many people of the population a row stands for.
    attributes: `[n]` texts by name: what groups may be made of; see
      `tables.group_index`.
    numeric_names: the d names.
    categorical_names: the c names.
  """

  numeric: np.ndarray
  categorical: np.ndarray
  labels: np.ndarray
  weight: np.ndarray
  attributes: dict[str, np.ndarray]
  numeric_names: Sequence[str]
  categorical_names: Sequence[str]


def take(records: Records, rows: np.ndarray) -> Records:
  """Returns the records of some rows, given as indices or as a mask."""
  return records._replace(
    numeric=records.numeric[rows],
    categorical=records.categorical[rows],
    labels=records.labels[rows],
    weight=records.weight[rows],
    attributes={k: each[rows] for k, each in records.attributes.items()},
  )


class Encoding(NamedTuple):
  """How features become numbers.

  Attributes:
    mean: `[d]` float64 mean of each numeric feature over the training rows.
    scale: `[d]` float64 standard deviation; 1 for a constant feature.
    categories: for each of the c categorical features its known values.
  """

  mean: np.ndarray
  scale: np.ndarray
  categories: Sequence[np.ndarray]


def fit_encoding(train: Records, *, min_count: int = 1) -> Encoding:
  """Learns an encoding from training rows alone.

  Args:
    train: the training rows.
    min_count: rows that a category must have to get a column.
  """
  known = np.isfinite(train.numeric)
  count = np.maximum(known.sum(axis=0), 1)
  mean = np.where(known, train.numeric, 0).sum(axis=0) / count
  spread = np.where(known, train.numeric - mean, 0)
  scale = np.sqrt((spread**2).sum(axis=0) / count)
  categories = []
  for column in train.categorical.T:
    values, counts = np.unique(column, return_counts=True)
    categories.append(values[counts >= min_count])
  return Encoding(mean, np.where(scale > 0, scale, 1), categories)


def encode(encoding: Encoding, records: Records) -> np.ndarray:
  """Turns features into numbers.

  Numbers are standardised, a missing one becomes the mean. Categories become
  one column each, all 0 for a value that the training rows did not have;
  missing is a category of its own.

  Args:
    encoding: learnt by `fit_encoding`.
    records: rows with the same features.

  Returns:
    `[n, d + number of categories]` float32.
  """
  standard = (records.numeric - encoding.mean) / encoding.scale
  parts = [np.nan_to_num(standard)]
  columns = zip(records.categorical.T, encoding.categories, strict=True)
  for column, values in columns:
    place = tables.group_index(column, values) if values.size else None
    parts.append(
      np.zeros((len(column), 0))
      if place is None
      else place[:, None] == np.arange(values.size)
    )
  return np.concatenate(parts, axis=1, dtype=np.float32)
