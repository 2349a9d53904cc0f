"""What a solve leaves behind for others with the same matrix."""

from typing import NamedTuple

import jax


class Pivots(NamedTuple):
  """Result of the elimination of a tree matrix, without its right side.

  With d' the diagonal after elimination. The transposed matrix has the same
  d', so one elimination serves both.

  Attributes:
    factor: `[n, B]` float: upper_i / d'_i; 0 at a root.
    inverse: `[n, B]` float: 1 / d'_i.
  """

  factor: jax.Array
  inverse: jax.Array
