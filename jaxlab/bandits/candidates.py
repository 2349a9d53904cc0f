"""A pool of candidate models, trained in one program: arms of a real problem.

Every candidate is a ridge classifier on random Fourier features (Rahimi and
Recht 2007) with its own bandwidth, regularisation, share of the pixels and
share of the training examples. Most are mediocre, a few are good, and which
ones is only found out by scoring them.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

NUM_FEATURES = 32


class Settings(NamedTuple):
  """The hyper-parameters of N candidates.

  Attributes:
    key: `[N]` PRNG keys of the features, pixels and examples.
    bandwidth: `[N]` scale of the random frequencies.
    ridge: `[N]` regularisation, relative to the number of examples.
    pixels: `[N]` share of the pixels that are seen.
    examples: `[N]` share of the training examples that are used.
  """

  key: jax.Array
  bandwidth: jax.Array
  ridge: jax.Array
  pixels: jax.Array
  examples: jax.Array


def draw_settings(key: jax.Array, num: int) -> Settings:
  """Draws the settings of `num` candidates at random."""
  keys = jax.random.split(key, 5)

  def log_uniform(key, low, high):
    exponent = jax.random.uniform(key, (num,), minval=0, maxval=1)
    return low * (high / low) ** exponent

  return Settings(
    jax.random.split(keys[0], num),
    log_uniform(keys[1], 0.05, 2.0),
    log_uniform(keys[2], 1e-6, 1.0),
    jax.random.uniform(keys[3], (num,), minval=0.2, maxval=1.0),
    log_uniform(keys[4], 0.05, 1.0),
  )


def correct_answers(
  settings: Settings,
  images: jax.Array,
  labels: jax.Array,
  held_out: jax.Array,
  answers: jax.Array,
  *,
  num_classes: int = 10,
  batch_size: int = 128,
) -> jax.Array:
  """Trains all candidates and scores them on the held-out examples.

  Args:
    settings: of N candidates.
    images: `[n, d]` training images.
    labels: `[n]` int32 their classes.
    held_out: `[H, d]` images.
    answers: `[H]` int32 their classes.
    num_classes: number of classes.
    batch_size: candidates trained at once: bounds the memory.

  Returns:
    `[N, H]` int8: 1 where a candidate classifies an example correctly.
  """
  targets = 2.0 * jax.nn.one_hot(labels, num_classes) - 1

  def score(one: Settings):
    frequency_key, phase_key, pixel_key, example_key = jax.random.split(
      one.key, 4
    )
    seen = jax.random.uniform(pixel_key, images.shape[1:]) < one.pixels
    shape = (images.shape[1], NUM_FEATURES)
    frequency = one.bandwidth * jax.random.normal(frequency_key, shape)
    frequency = jnp.where(seen[:, None], frequency, 0)
    phase = jax.random.uniform(phase_key, (NUM_FEATURES,), maxval=2 * jnp.pi)
    used = jax.random.uniform(example_key, labels.shape) < one.examples
    features = jnp.cos(images @ frequency + phase)
    weighted = features * used[:, None]
    ridge = one.ridge * labels.shape[0] * jnp.eye(NUM_FEATURES)
    weights = jax.scipy.linalg.solve(
      weighted.T @ features + ridge, weighted.T @ targets, assume_a='pos'
    )
    guess = jnp.argmax(jnp.cos(held_out @ frequency + phase) @ weights, -1)
    return (guess == answers).astype(jnp.int8)

  return jax.lax.map(score, settings, batch_size=batch_size)
