"""Fisher matrices of less memory: shared between places, or diagonal.

A `ChannelFisher` takes the same channels x channels matrix at every place of
every sample, times one weight a place. Its low-rank part is a sketch of all
rows of the factors, and what the sketch misses on the diagonal is added.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

_WHOLE_GRAM_CHANNELS = 1024
_LARGEST_WEIGHT = 10.0


class ChannelFisher(NamedTuple):
  """`F = weight (rows^T rows + diag(delta))` at each place.

  Attributes:
    rows: `[R, C]` low-rank part.
    delta: `[C]` residual of the diagonal, >= 0.
    weight: `[n, *places]` of each place: energy of its factors, mixed half and
      half with 1, at most 10.
  """

  rows: jax.Array
  delta: jax.Array
  weight: jax.Array


@functools.partial(jax.jit, static_argnames='chunk')
def sketch_update(
  sketch: jax.Array, rows: jax.Array, *, chunk: int | None = None
) -> jax.Array:
  """Adds rows to a frequent-directions sketch.

  After each chunk the squared singular values of sketch and chunk together are
  lowered by the (R+1)-th, which leaves R rows B. For all rows A so far, and
  any rank k < R,
  `0 <= A^T A - B^T B <= |A - A_k|_F^2 / (R + 1 - k)`.

  Source: Liberty, KDD 2013; Ghashami et al., SIAM J. Comput. 45/5, 2016.

  Args:
    sketch: `[R, C]`; zeros to begin with.
    rows: `[m, C]`.
    chunk: rows taken at a time; None for all where C is at most 1024, else R.
      More are more exact.

  Returns:
    `[R, C]` sketch.
  """
  rank, channels = sketch.shape
  if chunk is None:
    chunk = len(rows) if channels <= _WHOLE_GRAM_CHANNELS else rank
  missing = -len(rows) % chunk
  chunks = jnp.pad(rows, ((0, missing), (0, 0))).reshape(-1, chunk, channels)
  sketch, _ = jax.lax.scan(
    lambda sketch, rows: (_shrink(jnp.concatenate([sketch, rows]), rank), None),
    sketch,
    chunks,
  )
  return sketch


@functools.partial(jax.jit, static_argnames='rank')
def channel_factor(G: jax.Array, rank: int) -> ChannelFisher:
  """The mean Fisher matrix of all samples and places, over channels.

  Args:
    G: `[n, r, *places, C]` factors.
    rank: R, rows of the low-rank part.

  Returns:
    The structure; `diag(rows^T rows) + delta` is the diagonal of the mean.
  """
  channels = G.shape[-1]
  rows = G.reshape(-1, channels)
  places = len(rows) / G.shape[1]
  sketch = sketch_update(jnp.zeros((rank, channels), G.dtype), rows)
  diagonal = jnp.sum(rows**2, axis=0) / places
  sketch = sketch / places**0.5
  delta = jnp.maximum(diagonal - jnp.sum(sketch**2, axis=0), 0)
  energy = jnp.sum(G**2, axis=(1, -1))
  mean = jnp.mean(energy)
  weight = 0.5 + 0.5 * jnp.where(mean > 0, energy / mean, 1)
  return ChannelFisher(sketch, delta, jnp.minimum(weight, _LARGEST_WEIGHT))


def channel_quadratic(
  cf: ChannelFisher, delta: jax.Array, weight: jax.Array
) -> jax.Array:
  """The predicted KL divergence `1/2 sum_places d^T F d` of each sample.

  Args:
    cf: shared structure; its own weights are not used.
    delta: `[b, *places, C]` errors.
    weight: `[b, *places]` weights of these samples.

  Returns:
    `[b]` predictions in nats.
  """
  along = jnp.sum((delta @ cf.rows.T) ** 2, axis=-1)
  at_place = weight * (along + delta**2 @ cf.delta)
  return 0.5 * jnp.sum(at_place, axis=tuple(range(1, at_place.ndim)))


def diagonal_factor(G: jax.Array) -> jax.Array:
  """`[n, ...]` diagonals of `G^T G` for `[n, r, ...]` factors."""
  return jnp.sum(G**2, axis=1)


def diagonal_quadratic(diagonal: jax.Array, delta: jax.Array) -> jax.Array:
  """`1/2 sum diagonal delta^2` of each sample.

  Args:
    diagonal: `[n, ...]` of `diagonal_factor`.
    delta: `[n, ...]` errors.

  Returns:
    `[n]` predictions in nats.
  """
  weighted = diagonal * delta**2
  return 0.5 * jnp.sum(weighted, axis=tuple(range(1, weighted.ndim)))


def _shrink(stack: jax.Array, rank: int) -> jax.Array:
  """The `rank` leading rows of a stack, their energies lowered by the next."""
  m, channels = stack.shape
  wide = m < channels
  gram = stack @ stack.T if wide else stack.T @ stack
  energy, vectors = jnp.linalg.eigh(gram)
  energy, vectors = jnp.maximum(energy[::-1], 0), vectors[:, ::-1]
  kept = min(rank, len(energy))
  next_energy = energy[rank] if rank < len(energy) else 0
  lowered = jnp.sqrt(jnp.maximum(energy[:kept] - next_energy, 0))
  if wide:
    lowered = lowered / jnp.sqrt(jnp.where(energy > 0, energy, 1))[:kept]
  directions = vectors.T[:kept]
  rows = lowered[:, None] * (directions @ stack if wide else directions)
  return jnp.pad(rows, ((0, rank - kept), (0, 0)))
