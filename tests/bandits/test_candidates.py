"""The pool of classifiers against a NumPy solution in float64."""

import jax
import numpy as np

from jaxlab.bandits import candidates


def _data():
  rng = np.random.default_rng(0)
  centres = rng.normal(size=(3, 5))
  labels = rng.integers(0, 3, 90)
  images = centres[labels] + 0.3 * rng.normal(size=(90, 5))
  return images.astype(np.float32), labels.astype(np.int32)


def _expected(settings, i, images, labels, held_out, answers):
  """Ridge regression on the same features, by normal equations."""
  one = jax.tree.map(lambda leaf: leaf[i], settings)
  keys = jax.random.split(one.key, 4)
  features = candidates.NUM_FEATURES
  seen = np.asarray(jax.random.uniform(keys[2], (5,)) < one.pixels)
  frequency = np.asarray(jax.random.normal(keys[0], (5, features)), np.float64)
  frequency = float(one.bandwidth) * frequency * seen[:, None]
  phase = np.asarray(jax.random.uniform(keys[1], (features,), maxval=2 * np.pi))
  used = np.asarray(jax.random.uniform(keys[3], labels.shape) < one.examples)
  basis = np.cos(images @ frequency + phase)
  targets = 2.0 * np.eye(3)[labels] - 1
  penalty = float(one.ridge) * len(labels) * np.eye(features)
  weights = np.linalg.solve(
    basis[used].T @ basis[used] + penalty, basis[used].T @ targets[used]
  )
  scores = np.cos(held_out @ frequency + phase) @ weights
  top_two = np.sort(scores, -1)[:, -2:]
  return scores.argmax(-1) == answers, top_two[:, 1] - top_two[:, 0]


def test_answers_are_those_of_ridge_regression():
  images, labels = _data()
  settings = candidates.draw_settings(jax.random.key(1), 6)
  settings = settings._replace(ridge=settings.ridge + 1e-3)
  found = candidates.correct_answers(
    settings, images[:60], labels[:60], images[60:], labels[60:], num_classes=3
  )
  assert found.shape == (6, 30)
  for i in range(6):
    expected, margin = _expected(
      settings, i, images[:60], labels[:60], images[60:], labels[60:]
    )
    clear = margin > 1e-2
    assert clear.sum() > 15
    np.testing.assert_array_equal(np.asarray(found[i])[clear], expected[clear])


def test_pool_does_not_depend_on_the_batch_size():
  images, labels = _data()
  settings = candidates.draw_settings(jax.random.key(2), 7)
  data = (images[:60], labels[:60], images[60:], labels[60:])
  whole, parts = (
    candidates.correct_answers(settings, *data, num_classes=3, batch_size=size)
    for size in (7, 3)
  )
  assert np.mean(np.asarray(whole) == np.asarray(parts)) > 0.98
