"""Checks of the golden cases about gradients along a path."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.adaptive_testing import estimate, gradients, models, paths
from jaxlab.adaptive_testing.types import item_bank


@functools.partial(jax.jit, static_argnames='num_points')
def along(bank, y, *, num_points):
  """The estimate, points of the path, and gradients at them."""
  points = paths.path_points(bank, y, jnp.zeros(()), num_points=num_points)
  grad = models.nll_grad(bank, points, y)
  precision = models.item_information(bank, points).sum(-1) + 1
  newton = (grad + points) / precision
  return estimate.map_newton(bank, y), points, grad, newton


greedy_subset = jax.jit(paths.greedy_subset, static_argnums=(2, 4))


@functools.partial(jax.jit, static_argnums=4)
def of_subset(bank, y, chosen, points, match):
  value = paths.match_value(bank, y, chosen, points, match)
  return value, estimate.map_newton(bank, y, chosen)


def case_path_match(case):
  bank = item_bank(case['a'], case['b'], case['c'])
  y, expect = jnp.asarray(case['y']), case['expect']
  close = {'rtol': case['rtol'], 'atol': case['atol']}
  full, points, grad, newton = along(bank, y, num_points=case['num_points'])
  np.testing.assert_allclose(full, expect['theta_full_map'], **close)
  np.testing.assert_allclose(points, expect['path'], **close)
  np.testing.assert_allclose(grad / len(y), expect['grad_full_mean'], **close)
  np.testing.assert_allclose(newton, expect['newton_full'], **close)

  for match in gradients.MATCHES:
    wanted = expect[match]
    args = (bank, y, case['test_length'], points, match)
    best, value = paths.best_subset(*args)
    assert set(best.tolist()) == set(wanted['best_subset'])
    np.testing.assert_allclose(value, wanted['best_value'], **close)
    greedy, value = greedy_subset(*args)
    assert greedy.tolist() == wanted['greedy_subset']
    np.testing.assert_allclose(value, wanted['greedy_value'], **close)
    chosen = np.zeros(len(y))
    chosen[best] = 1
    value, found = of_subset(bank, y, chosen, points, match)
    np.testing.assert_allclose(value, wanted['best_value'], **close)
    np.testing.assert_allclose(found, wanted['map_best'], **close)
