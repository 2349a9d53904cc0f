"""Argmax whose ties are decided by chance, at the cost of two reductions."""

import jax
import jax.numpy as jnp
import numpy as np


def fair_argmax(score: jax.Array, word: jax.Array) -> jax.Array:
  """Returns the place of the largest score; equal scores win equally often.

  Every place gets a hash of itself and of the word; among the best scores the
  largest hash wins. The low bits of the hash are the place itself (turned by
  the word), so the winner is read off the hash and no index is preferred even
  where hashes agree.

  Args:
    score: `[N]` floats; nan counts as +inf, so that it comes to light.
    word: `[]` uint32 random word; a fresh one for each decision.

  Returns:
    `[]` int32 in `[0, N)`.
  """
  num = score.shape[-1]
  mask = np.uint32(2 ** (num - 1).bit_length() - 1)
  place = jnp.arange(num, dtype=jnp.uint32)
  label = (_hash(place, word) & ~mask) | ((place ^ word) & mask)
  score = jnp.where(jnp.isnan(score), jnp.inf, score)
  is_best = score == jnp.max(score, -1, keepdims=True)
  winner = jnp.max(jnp.where(is_best, label, 0), -1)
  return ((winner ^ word) & mask).astype(jnp.int32)


def _hash(value: jax.Array, word: jax.Array) -> jax.Array:
  """The 32-bit finaliser `lowbias32` (C. Wellons), keyed by addition."""
  mixed = value * np.uint32(0x9E3779B1) + word
  mixed = (mixed ^ (mixed >> 16)) * np.uint32(0x7FEB352D)
  mixed = (mixed ^ (mixed >> 15)) * np.uint32(0x846CA68B)
  return mixed ^ (mixed >> 16)
