"""Checks of the golden cases about gradients along a path."""

import jax.numpy as jnp
import numpy as np

from jaxlab.adaptive_testing import estimate, gradients, models, paths
from jaxlab.adaptive_testing.types import item_bank


def case_path_match(case):
  bank = item_bank(case['a'], case['b'], case['c'])
  y, expect = jnp.asarray(case['y']), case['expect']
  close = {'rtol': case['rtol'], 'atol': case['atol']}
  points = paths.path_points(
    bank, y, jnp.zeros(()), num_points=case['num_points']
  )
  full = estimate.map_newton(bank, y)
  np.testing.assert_allclose(full, expect['theta_full_map'], **close)
  np.testing.assert_allclose(points, expect['path'], **close)

  grad = models.nll_grad(bank, points, y)
  np.testing.assert_allclose(grad / len(y), expect['grad_full_mean'], **close)
  precision = models.item_information(bank, points).sum(-1) + 1
  newton = (grad + points) / precision
  np.testing.assert_allclose(newton, expect['newton_full'], **close)

  for match in gradients.MATCHES:
    wanted = expect[match]
    args = (bank, y, case['test_length'], points, match)
    best, value = paths.best_subset(*args)
    assert set(best.tolist()) == set(wanted['best_subset'])
    np.testing.assert_allclose(value, wanted['best_value'], **close)
    greedy, value = paths.greedy_subset(*args)
    assert greedy.tolist() == wanted['greedy_subset']
    np.testing.assert_allclose(value, wanted['greedy_value'], **close)
    chosen = np.zeros(len(y))
    chosen[best] = 1
    value = paths.match_value(bank, y, chosen, points, match)
    np.testing.assert_allclose(value, wanted['best_value'], **close)
    found = estimate.map_newton(bank, y, chosen)
    np.testing.assert_allclose(found, wanted['map_best'], **close)
