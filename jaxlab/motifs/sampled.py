"""Census from a sample of wedges, for graphs too large to count."""

import functools

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.motifs import catalog
from jaxlab.motifs.dyads import states_of
from jaxlab.motifs.types import Estimate


@functools.partial(jax.jit, static_argnames='n_samples')
def estimate_census(key: jax.Array, A: ArrayLike, n_samples: int) -> Estimate:
  """Estimates the motif counts from random wedges.

  A wedge is a node with two of its neighbours. An open triple has one, a
  closed one three; the weights 1 and 1/3 make the estimate unbiased.

  Args:
    key: PRNG key.
    A: `[N, N]` graph; entries other than 0 are edges, loops are ignored.
    n_samples: number of wedges drawn, with replacement; at least 2.

  Returns:
    The estimated counts and their standard errors.
  """
  state = states_of(A)
  joined = state > 0
  degree = jnp.sum(joined, axis=1, dtype=jnp.int32)
  dtype = jnp.zeros(()).dtype
  wedges = degree.astype(dtype) * (degree - 1).astype(dtype) / 2
  # Neighbours first, in each row.
  neighbours = jnp.argsort(~joined, axis=1, stable=True)

  keys = jax.random.split(key, 3)
  centre = jax.random.categorical(keys[0], jnp.log(wedges), shape=(n_samples,))
  width = degree[centre]
  one = jax.random.randint(keys[1], (n_samples,), 0, width)
  two = jax.random.randint(keys[2], (n_samples,), 0, jnp.maximum(width - 1, 1))
  two += two >= one
  x, y = neighbours[centre, one], neighbours[centre, two]
  code = state[centre, x] + 4 * state[centre, y] + 16 * state[x, y]
  motif = jnp.asarray(catalog.CLASS_OF_CODE)[code]
  share = jnp.where(state[x, y] > 0, 1 / 3, 1)
  values = jnp.where(motif == jnp.arange(13)[:, None], share, 0).astype(dtype)
  total = jnp.sum(wedges)
  error = jnp.std(values, axis=1, ddof=1) / jnp.sqrt(n_samples)
  return Estimate(total * jnp.mean(values, axis=1), total * error)
