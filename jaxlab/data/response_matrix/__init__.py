"""Answers of examinees to the items of a test.

`matrix` holds the arrays and their splits by examinee, `triplets` turns logs of
(examinee, item, answer) into them. The prepared copy of a log is one
configuration of the TensorFlow data set `response_matrix`.
"""

from jaxlab.data.response_matrix.matrix import (
  MatrixSource,
  ResponseMatrix,
  split_rows,
  take,
)
from jaxlab.data.response_matrix.triplets import (
  Triplets,
  TripletSource,
  assemble,
  from_columns,
)

__all__ = [
  'MatrixSource',
  'ResponseMatrix',
  'TripletSource',
  'Triplets',
  'assemble',
  'from_columns',
  'split_rows',
  'take',
]
