"""A test of one examinee after the other, in float64 and without JAX."""

import numpy as np
from scipy import optimize, special

GRID = np.linspace(-5, 5, 81)


def prob(a, b, c, theta):
  return c + (1 - c) * special.expit(a * (theta - b))


def information(a, b, c, theta):
  p = prob(a, b, c, theta)
  return a**2 * (p - c) ** 2 * (1 - p) / ((1 - c) ** 2 * p)


def map_estimate(a, b, c, y):
  """The most likely ability under N(0, 1), the highest of all maxima."""

  def loss(theta):
    p = prob(a, b, c, theta)
    return theta**2 / 2 - np.sum(np.log(np.where(y == 1, p, 1 - p)))

  best = min(np.linspace(-5, 5, 201), key=loss)
  found = optimize.minimize_scalar(
    loss,
    bounds=(best - 0.1, best + 0.1),
    method='bounded',
    options={'xatol': 1e-10},
  )
  return found.x


def log_posterior(a, b, c, y, grid=GRID):
  p = prob(a, b, c, grid[:, None])
  height = np.log(np.where(y == 1, p, 1 - p)).sum(1) - grid**2 / 2
  return height - special.logsumexp(height)


def run_mfi(a, b, c, y, available, length):
  """Items and estimates of one examinee, tested by Fisher information."""
  theta, items, path = 0.0, [], []
  for _ in range(length):
    info = information(a, b, c, theta)
    info[~available] = -1
    info[items] = -1
    items.append(int(np.argmax(info)))
    theta = map_estimate(a[items], b[items], c[items], y[items])
    path.append(theta)
  return items, path
