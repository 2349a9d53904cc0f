"""Variables of networks, drawn without compiling their initialization."""

import jax
import jax.numpy as jnp
import numpy as np


def shapes(net, *shape):
  x = jax.ShapeDtypeStruct(shape, jnp.float32)
  return jax.eval_shape(net.init, jax.random.key(0), x)


def variables(net, *shape, dtype=np.float32):
  """Random numbers, variances among them positive, with nothing at 0 or 1."""
  rng = np.random.default_rng(0)

  def draw(path, leaf):
    numbers = rng.normal(size=leaf.shape)
    if path[-1].key == 'var':
      numbers = 0.5 + numbers**2
    return jnp.asarray(numbers / np.sqrt(leaf.shape[0]), dtype)

  return jax.tree_util.tree_map_with_path(draw, shapes(net, *shape))
