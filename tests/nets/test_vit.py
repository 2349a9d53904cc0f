"""Vision transformers against NumPy in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from jaxlab import nets
from jaxlab.nets.tokens import split_patches
from tests.nets import drawn


def layer_norm(x, p):
  centred = x - x.mean(-1, keepdims=True)
  scaled = centred / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
  return scaled * p['scale'] + p['bias']


def dense(x, p):
  return x @ p['kernel'] + p['bias']


def attention(x, p, heads):
  """Head by head and token by token."""
  qkv = dense(layer_norm(x, p['norm']), p['qkv'])
  size = x.shape[-1] // heads
  out = np.zeros_like(x)
  for head in range(heads):
    q, k, v = (
      part[..., head * size : (head + 1) * size]
      for part in np.split(qkv, 3, axis=-1)
    )
    for i in range(x.shape[1]):
      scores = (q[:, i : i + 1] * k).sum(-1) / np.sqrt(size)
      weights = scipy.special.softmax(scores, axis=-1)
      mixed = (weights[..., None] * v).sum(1)
      out[:, i, head * size : (head + 1) * size] = mixed
  return x + dense(out, p['proj'])


def test_equals_numpy():
  with jax.enable_x64(True):
    chain = nets.vit(8, 1, 2, 4, 3)
    x = jax.random.normal(jax.random.key(0), (2, 8, 8, 1), jnp.float64)
    params = drawn.variables(chain, *x.shape, dtype=float)['params']
    found = chain.apply({'params': params}, x)
    assert found.dtype == jnp.float64
    p = jax.tree.map(np.asarray, params)
  y = np.stack(
    [
      np.asarray(x)[:, 4 * i : 4 * i + 4, 4 * j : 4 * j + 4].reshape(2, 16)
      for i in range(2)
      for j in range(2)
    ],
    axis=1,
  )
  y = dense(y, p['stem']['embed']) + p['stem']['position']
  y = attention(y, p['attention_0'], 2)
  z = dense(layer_norm(y, p['mlp_0']['norm']), p['mlp_0']['fc1'])
  z = z * (1 + scipy.special.erf(z / np.sqrt(2))) / 2
  y = y + dense(z, p['mlp_0']['fc2'])
  y = layer_norm(y, p['head']['norm']).mean(1)
  np.testing.assert_allclose(found, dense(y, p['head']['dense']), atol=1e-6)


def test_patches_keep_channels_together():
  images = jnp.arange(2 * 4 * 6 * 3).reshape(2, 4, 6, 3)
  patches = split_patches(images, 2)
  assert patches.shape == (2, 6, 12)
  np.testing.assert_array_equal(
    patches[1, 4].reshape(2, 2, 3), images[1, 2:4, 2:4]
  )


@pytest.mark.parametrize(
  ('make', 'named'),
  [
    (lambda: nets.vit(10, heads=4), 'heads=4 must divide dim=10'),
    (lambda: nets.vit(patch=3), 'patch=3 must divide image_size=8'),
    (lambda: nets.vision_mamba(patch=5), 'patch=5 must divide image_size=8'),
    (
      lambda: nets.vit().init(jax.random.key(0), jnp.ones((1, 64))),
      r'\[B, 8, 8, C\], got \[1, 64\]',
    ),
  ],
)
def test_wrong_sizes_are_named(make, named):
  with pytest.raises(ValueError, match=named):
    make()
