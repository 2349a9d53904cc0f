"""Breast cancer in Wisconsin: 569 tumours, shipped in scikit-learn.

W. Street, W. Wolberg and O. Mangasarian (1993), UCI Machine Learning
Repository, CC BY 4.0. There is no attribute of the patients; to try methods on
groups without a download, tumours are grouped by their mean texture.
"""

import numpy as np
import sklearn.datasets

from jaxlab.data import files
from jaxlab.data.records import Records


def load(split: str | None = None) -> Records:
  """Reads the tumours; there are no splits.

  Returns:
    Records with 30 numeric features, label 1 for a malignant tumour, and the
    attribute `texture`: `smooth` up to the median, else `rough`.

  Raises:
    UserError: if a split is named.
  """
  files.no_split('breast_cancer', split)
  source = sklearn.datasets.load_breast_cancer()
  texture = source.data[:, 1]
  rough = texture > np.median(texture)
  return Records(
    numeric=source.data,
    categorical=np.zeros((len(rough), 0), 'U1'),
    labels=(source.target == 0).astype(np.int32),
    weight=np.ones(len(rough)),
    attributes={'texture': np.where(rough, 'rough', 'smooth')},
    numeric_names=[str(name) for name in source.feature_names],
    categorical_names=[],
  )


def prepare(manual_dir: str | None = None) -> str:
  """Says that nothing is to be prepared."""
  del manual_dir
  return 'breast_cancer: shipped in scikit-learn, nothing to prepare.'


def describe(split: str | None = None) -> list[tuple[str, str]]:
  """Returns source, licence and sizes."""
  tumours = load(split)
  return [
    ('source', 'scikit-learn load_breast_cancer (UCI, Street et al. 1993)'),
    ('licence', 'CC BY 4.0'),
    ('rows', f'{len(tumours.labels)}, {tumours.labels.sum()} malignant'),
    ('features', f'{tumours.numeric.shape[1]} numeric'),
    ('groups', 'texture: smooth, rough (around the median)'),
  ]
