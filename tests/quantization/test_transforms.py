"""Transforms keep the product and share the spread."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import linalg

from jaxlab.errors import UserError
from jaxlab.quantization import transforms


@pytest.fixture
def rng():
  return np.random.default_rng(1)


def test_the_product_is_kept_and_the_rotation_is_orthogonal(rng):
  x, w = rng.normal(size=(2, 5, 12)), rng.normal(size=(12, 3))
  scale, signs = rng.uniform(0.2, 4, 12), rng.choice([-1.0, 1.0], 12)
  with jax.enable_x64(True):
    R = transforms.block_hadamard(4, signs)
    np.testing.assert_allclose(R @ R.T, np.eye(12), atol=1e-12)
    np.testing.assert_allclose(
      R[4:8, 4:8], linalg.hadamard(4) / 2 * signs[4:8], atol=1e-12
    )
    for rotation in (None, R):
      moved, weights = jax.jit(transforms.apply_transform)(
        x, w, scale, rotation
      )
      np.testing.assert_allclose(moved @ weights, x @ w, rtol=1e-9)
    np.testing.assert_allclose(moved, x / scale @ R.T, rtol=1e-9)


@pytest.mark.parametrize(('k', 'block'), [(12, 4), (7, 1), (64, 64), (96, 32)])
def test_largest_block(k, block):
  assert transforms.largest_block(k) == block


@pytest.mark.parametrize('block', [0, 3, 8])
def test_wrong_blocks_are_named(block):
  with pytest.raises(UserError, match=f'block = {block} .* largest is 4'):
    transforms.block_hadamard(block, np.ones(12))


def test_scales_are_those_of_the_formulas(rng):
  x, w = rng.uniform(0.5, 2, 8), rng.uniform(0.5, 2, 8)
  with jax.enable_x64(True):
    for alpha in (0.25, 0.5):
      for rule, raw in [
        ('rms', (x / w) ** alpha),
        ('max', x**alpha / w ** (1 - alpha)),
      ]:
        found = transforms.smooth_scales(x, w, alpha, rule=rule)
        expected = raw / np.exp(np.mean(np.log(raw)))
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        np.testing.assert_allclose(np.prod(found), 1, rtol=1e-9)
  with pytest.raises(UserError, match="rule = 'mean'"):
    transforms.smooth_scales(x, w, 0.5, rule='mean')


def test_scales_are_clipped_and_dead_channels_are_left_alone():
  x = jnp.asarray([1e6, 1.0, 0.0, 1.0, 1e-6])
  w = jnp.asarray([1.0, 1.0, 1.0, 0.0, 1.0])
  found = transforms.smooth_scales(x, w, 1.0)
  np.testing.assert_allclose(found, [10, 1, 1, 1, 0.1], rtol=1e-5)
  gradient = jax.jit(
    jax.grad(lambda x: transforms.smooth_scales(x, w, 0.5).sum())
  )(x)
  assert np.isfinite(gradient).all()
