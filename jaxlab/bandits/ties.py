"""Argmax whose ties are decided by chance, at the cost of two reductions."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.bandits.ranking import settled

_SPREAD = 0x9E3779B1


def fair_argmax(score: jax.Array, word: jax.Array) -> jax.Array:
  """Returns the place of the largest score; equal scores win equally often.

  Every place gets a hash of itself and of the word; among the best scores the
  largest hash wins. The hash is a bijection of the place, so the winner is
  read off the hash by undoing it. Scores of -inf at the end change nothing.

  Args:
    score: `[N]` floats; nan counts as +inf, so that it comes to light.
    word: `[]` uint32 random word; a fresh one for each decision.

  Returns:
    `[]` int32 in `[0, N)`.
  """
  label = _hash(jnp.arange(score.shape[-1], dtype=jnp.uint32), word)
  score = settled(score)
  is_best = score == jnp.max(score, -1, keepdims=True)
  winner = jnp.max(jnp.where(is_best, label, 0), -1)
  return _unhash(winner, word).astype(jnp.int32)


def _hash(value: jax.Array, word: jax.Array) -> jax.Array:
  """The 32-bit finaliser `lowbias32` (C. Wellons), keyed by addition."""
  mixed = value * np.uint32(_SPREAD) + word
  mixed = (mixed ^ (mixed >> 16)) * np.uint32(0x7FEB352D)
  mixed = (mixed ^ (mixed >> 15)) * np.uint32(0x846CA68B)
  return mixed ^ (mixed >> 16)


def _unhash(mixed: jax.Array, word: jax.Array) -> jax.Array:
  """The inverse of `_hash` in its first argument."""
  mixed = (mixed ^ (mixed >> 16)) * np.uint32(pow(0x846CA68B, -1, 2**32))
  mixed = mixed ^ (mixed >> 15) ^ (mixed >> 30)
  mixed = mixed * np.uint32(pow(0x7FEB352D, -1, 2**32))
  mixed = mixed ^ (mixed >> 16)
  return (mixed - word) * np.uint32(pow(_SPREAD, -1, 2**32))
