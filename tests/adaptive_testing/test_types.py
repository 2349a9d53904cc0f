"""Banks of items: shapes, and what is refused."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.adaptive_testing import types
from jaxlab.adaptive_testing.types import item_bank
from jaxlab.errors import UserError


def test_numbers_become_vectors():
  bank = item_bank(1.5, [0.0, 1.0, -1.0], 0.2)
  np.testing.assert_allclose(bank.a, [1.5] * 3)
  np.testing.assert_allclose(bank.c, [0.2] * 3, rtol=1e-6)
  np.testing.assert_allclose(bank.d, [1] * 3)
  assert bank.num_items == 3
  assert bank.latent_shape == ()
  assert bank.a.dtype == jnp.float32


def test_slopes_with_two_axes_have_dimensions():
  bank = item_bank(np.ones((3, 2)) * -1, np.zeros(3), q_matrix=[[1, 0]] * 3)
  assert bank.latent_shape == (2,)
  assert bank.q_matrix.shape == (3, 2)


def test_an_item_without_information_is_allowed():
  assert item_bank([0.0, 1.0], [0.0, 0.0]).a[0] == 0


def test_grid_is_symmetric():
  np.testing.assert_allclose(types.GRID, -types.GRID[::-1])
  assert types.GRID[0] == -5


@pytest.mark.parametrize(
  ('given', 'named'),
  [
    ({'a': 1, 'b': []}, r'b .*n > 0'),
    ({'a': 1, 'b': 0}, r'b .*shape'),
    ({'a': [1, 1], 'b': [0]}, r'a .*\(2,\).*\(1,\)'),
    ({'a': [[[1]]], 'b': [0]}, 'a has the shape'),
    ({'a': [1, -0.4], 'b': [0, 0]}, r'a\[1\] = -0\.4'),
    ({'a': [1, np.nan], 'b': [0, 0]}, r'a\[1\] = nan.*finite'),
    ({'a': 1, 'b': [0, np.inf]}, r'b\[1\] = inf.*finite'),
    ({'a': 1, 'b': [0], 'c': 1}, r'c\[0\] = 1.*\[0, 1\)'),
    ({'a': 1, 'b': [0], 'c': -0.1}, r'c\[0\] = -0\.1'),
    ({'a': 1, 'b': [0], 'c': 0.5, 'd': 0.5}, r'd\[0\] = 0\.5.*above c'),
    ({'a': 1, 'b': [0], 'd': 1.1}, r'd\[0\] = 1\.1'),
    ({'a': 1, 'b': [0], 'q_matrix': [[0, 0]]}, 'item 0 needs no concept'),
    ({'a': 1, 'b': [0], 'q_matrix': [[2, 1]]}, r'q_matrix\[\(0, 0\)\] = 2'),
    ({'a': 1, 'b': [0], 'q_matrix': [1]}, r'q_matrix .*\[1, D\]'),
  ],
)
def test_what_cannot_be_is_named(given, named):
  with pytest.raises(UserError, match=named) as caught:
    item_bank(**given)
  assert '\n' not in str(caught.value)
