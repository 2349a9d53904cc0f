"""Rows of an array that some mechanism works on, and sums over connections.

Both know their indices when the program is built, which is what lets them do
without XLA's scatter wherever there is another way.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# More runs of neighbouring rows than this are gathered instead of sliced.
_MOST_SLICES = 16
# A matrix of this many entries costs less than a sum by index.
_DENSE = 2**18


class Rows(NamedTuple):
  """Some rows of an `[n, B]` array; static.

  Attributes:
    indices: the rows, rising.
    n: number of rows in all.
  """

  indices: tuple[int, ...]
  n: int

  @property
  def whole(self) -> bool:
    """Whether it is every row."""
    return len(self.indices) == self.n

  def take(self, x: jax.Array) -> jax.Array:
    """`[n, B]` to the `[R, B]` of these rows."""
    if self.whole or x.shape[0] != self.n:
      return x
    runs = self._runs()
    if len(runs) <= _MOST_SLICES:
      parts = [x[start:stop] for start, stop in runs]
      return parts[0] if len(parts) == 1 else jnp.concatenate(parts)
    return x.at[np.array(self.indices)].get(
      indices_are_sorted=True, unique_indices=True, mode='promise_in_bounds'
    )

  def spread(self, y: jax.Array) -> jax.Array:
    """`[R, B]` to `[n, B]` with zeros in all other rows."""
    if self.whole:
      return y
    runs = self._runs()
    if len(runs) > _MOST_SLICES:
      zeros = jnp.zeros((self.n, *y.shape[1:]), y.dtype)
      return zeros.at[np.array(self.indices)].set(
        y, indices_are_sorted=True, unique_indices=True
      )
    parts, done, taken = [], 0, 0
    for start, stop in [*runs, (self.n, self.n)]:
      if start > done:
        parts.append(jnp.zeros((start - done, *y.shape[1:]), y.dtype))
      parts.append(y[taken : taken + stop - start])
      taken, done = taken + stop - start, stop
    return jnp.concatenate([part for part in parts if part.shape[0]])

  def add(self, x: jax.Array, y: jax.Array) -> jax.Array:
    """`[n, B]` plus the `[R, B]` of these rows."""
    if self.whole:
      return x + y
    if len(self._runs()) == 1:
      start = self.indices[0]
      return x.at[start : start + len(self.indices)].add(y)
    return x + self.spread(y)

  def _runs(self) -> list[tuple[int, int]]:
    """Neighbouring rows as (start, stop)."""
    rows = np.array(self.indices)
    cuts = np.flatnonzero(np.diff(rows) != 1) + 1
    return [(int(r[0]), int(r[-1]) + 1) for r in np.split(rows, cuts)]


def rows_of(indices, n: int) -> Rows:
  """`Rows` of indices in any order; each once."""
  return Rows(tuple(int(i) for i in np.unique(np.asarray(indices))), n)


class Links(NamedTuple):
  """Weighted connections from S sources to T targets; static.

  Attributes:
    source: index of each connection's source.
    target: index of each connection's target.
    n_sources: S.
    n_targets: T.
  """

  source: tuple[int, ...]
  target: tuple[int, ...]
  n_sources: int
  n_targets: int

  @property
  def dense(self) -> bool:
    """Whether the sums run as the product with a matrix."""
    return self.n_sources * self.n_targets <= max(_DENSE, 8 * len(self.source))

  def prepare(self, weight: jax.Array) -> jax.Array:
    """`[C]` weights in the form that `apply` takes; once for a run."""
    if not self.dense:
      return weight
    matrix = jnp.zeros((self.n_targets, self.n_sources), weight.dtype)
    return matrix.at[np.array(self.target), np.array(self.source)].add(weight)

  def apply(self, prepared: jax.Array, x: jax.Array) -> jax.Array:
    """Sums weight times source over each target's connections.

    Args:
      prepared: of `prepare`.
      x: `[S, B]` sources.

    Returns:
      `[T, B]` targets.
    """
    if self.dense:
      return jnp.matmul(prepared, x, precision='highest')
    order = np.argsort(np.array(self.target), kind='stable')
    terms = prepared[order, None] * x[np.array(self.source)[order]]
    return jax.ops.segment_sum(
      terms,
      np.array(self.target)[order],
      self.n_targets,
      indices_are_sorted=True,
    )
