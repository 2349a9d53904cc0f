"""The best of many scores."""

import jax
import jax.numpy as jnp


def first_best(scores: jax.Array) -> jax.Array:
  """Index of the largest score along the last axis, the first of equal ones.

  It is `argmax`, several times as fast on a CPU: XLA vectorizes neither a
  reduction of pairs (value, index) nor the scores that it would fuse into it.

  Args:
    scores: `[..., n]` without NaN.

  Returns:
    `[...]` int32.
  """
  scores = jax.lax.optimization_barrier(scores)
  best = jnp.max(scores, axis=-1, keepdims=True)
  number = jnp.arange(scores.shape[-1], dtype=jnp.int32)
  places = jnp.where(scores == best, number, scores.shape[-1])
  return jnp.min(places, axis=-1)
