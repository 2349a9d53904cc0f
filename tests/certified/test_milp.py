"""The mixed-integer program against enumeration."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.certified import bounds
from jaxlab.certified.milp import minimum_margins
from jaxlab.errors import UserError
from tests.certified import nets

_C = np.array([[1.0, -1, 0], [0, 1, -1]])


def _box(lower, upper):
  return bounds.Interval(
    jnp.asarray([lower], jnp.float32), jnp.asarray([upper], jnp.float32)
  )


@pytest.mark.parametrize('widths', [(3, 6, 3), (2, 3, 3, 3)])
def test_equals_enumeration(widths):
  for seed in range(4):
    params = nets.dense_params(seed, widths, scale=1.5)
    lower = np.linspace(0, 0.3, widths[0])
    upper = lower + 0.6
    found = minimum_margins(nets.dense_net, params, _box(lower, upper), _C)
    exact = [nets.pattern_minimum(params, row, lower, upper) for row in _C]
    np.testing.assert_allclose(found.margins, exact, atol=1e-5)
    attained = nets.dense_net(params, found.points) @ _C.T
    np.testing.assert_allclose(np.diag(attained), exact, atol=1e-5)


def test_enumerations_agree():
  params = nets.dense_params(8, (3, 6, 3))
  lower, upper = np.zeros(3), np.full(3, 0.8)
  for row in _C:
    by_pattern = nets.pattern_minimum(params, row, lower, upper)
    by_vertex = nets.vertex_minimum(params, row, lower, upper)
    np.testing.assert_allclose(by_pattern, by_vertex, atol=1e-7)


def test_network_without_relu():
  box = _box([0.0, 0.0], [1.0, 2.0])
  net = lambda params, x: x @ params + 1  # noqa: E731 - a network in a line
  found = minimum_margins(net, jnp.array([[1.0, 2], [3, -1]]), box, jnp.eye(2))
  np.testing.assert_allclose(found.margins, [1, -1], atol=1e-6)


def test_refusals():
  params = nets.dense_params(0, (6, 30, 30, 3))
  box = _box(np.zeros(6), np.ones(6))
  with pytest.raises(UserError, match=r'60 ReLUs is not solved.*time_limit'):
    minimum_margins(nets.dense_net, params, box, _C, time_limit=1e-3)
  two = bounds.Interval(*(jnp.concatenate([part, part]) for part in box))
  with pytest.raises(UserError, match='holds 2 examples'):
    minimum_margins(nets.dense_net, params, two, _C)
