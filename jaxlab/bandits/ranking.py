"""Comparisons of arms in which equal means are ordered at random."""

import itertools
from typing import TypeVar

import jax
import jax.numpy as jnp

from jaxlab.bandits import randomness

T = TypeVar('T')


# Bit 3 m + b of the word: in the m-th of the six orders of three things, which
# of a pair comes first; b = 0, 1, 2 for the pairs (0, 1), (0, 2), (1, 2).
_ORDERS = sum(
  int(order.index(i) < order.index(j)) << (3 * m + b)
  for m, order in enumerate(itertools.permutations(range(3)))
  for b, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)])
)


def sort_three(
  scores: tuple[jax.Array, jax.Array, jax.Array],
  words: jax.Array,
  items: tuple[T, T, T],
) -> tuple[T, T, T]:
  """Orders triples by three comparisons; equal scores in a random order.

  Args:
    scores: three arrays `[...]`.
    words: `[...]` uint32 random words: each picks one of the six orders in
      which equal scores are taken.
    items: what is ordered: three pytrees of `[...]` arrays.

  Returns:
    `(best, median, worst)`, each like one of the items.
  """
  a, b, c = scores
  first = jnp.uint32(_ORDERS) >> (3 * (words % 6))

  def beats(x, y, bit):
    return (x > y) | ((x == y) & ((first >> bit) & 1).astype(bool))

  ab, ac, bc = beats(a, b, 0), beats(a, c, 1), beats(b, c, 2)

  def choose(is_a, is_b):
    return jax.tree.map(
      lambda x, y, z: jnp.where(is_a, x, jnp.where(is_b, y, z)), *items
    )

  best = choose(ab & ac, ~ab & bc)
  median = choose(ab != ac, ab == bc)
  worst = choose(~ab & ~ac, ab & ~bc)
  return best, median, worst


def priorities(key: jax.Array, counter, ids: jax.Array) -> jax.Array:
  """Returns fresh random uint32 numbers, one for each of `ids`."""
  draw = jax.vmap(lambda i: randomness.words(key, counter, i)[0])
  return draw(ids.ravel()).reshape(ids.shape)


def settled(scores: jax.Array) -> jax.Array:
  """Computes scores once and for all, with nan as +inf, so that it is noticed.

  XLA may compute an array anew for each of its uses, which is slow and, since
  the roundings can differ, leaves none of the scores equal to the largest. What
  a loop returns is computed once.
  """
  return jax.lax.while_loop(
    lambda scores: jnp.any(jnp.isnan(scores)),
    lambda scores: jnp.where(jnp.isnan(scores), jnp.inf, scores),
    scores,
  )


def argbest(means: jax.Array, priority: jax.Array, valid) -> jax.Array:
  """Returns the place on the last axis that beats all other valid ones."""
  means = settled(jnp.where(valid, means, -jnp.inf))
  top = jnp.max(means, -1, keepdims=True)
  candidate = valid & (means == top)
  # Priorities start at 1, so that a valid place always beats an invalid one.
  score = jnp.where(candidate, jnp.maximum(priority, 1), 0)
  return jnp.argmax(score, -1).astype(jnp.int32)
