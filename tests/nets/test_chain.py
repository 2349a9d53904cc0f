"""Chains: names of parameters, blocks that stand alone, marks of operands."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab import nets
from tests.nets import drawn

NETS = {
  'resnet': (nets.resnet((1, 1), (4, 8), norm='none'), (2, 6, 6, 1)),
  'mobilenet': (
    nets.mobilenet(
      (nets.Part(2, 8, 1, expand=2),), stem=8, head=16, classes=3, norm='none'
    ),
    (2, 8, 8, 3),
  ),
  'vit': (nets.vit(16, 1, 2), (2, 8, 8, 1)),
  'mamba': (
    nets.vision_mamba(16, 1, 4, patch=4, bidirectional=True),
    (2, 8, 8, 1),
  ),
}


@pytest.fixture(scope='module', params=NETS)
def made(request):
  chain, shape = NETS[request.param]
  x = jax.random.normal(jax.random.key(1), shape)
  return chain, drawn.variables(chain, *shape)['params'], x


def test_blocks_in_turn_are_the_chain(made):
  chain, params, x = made
  assert set(params) == {name for name, _ in chain.stages}
  blocks = chain.blocks()

  @jax.jit
  def both_ways(params, x):
    y = x
    for block in blocks:
      y = block(params, y)
    return chain.apply({'params': params}, x), y

  # One program, so that the compiler makes the same of both.
  whole, x = both_ways(params, x)
  np.testing.assert_array_equal(x, whole)
  assert len(np.unique(whole)) == whole.size > 2


def test_every_product_is_seen(made):
  chain, params, x = made
  seen = []

  def note(call, args, kwargs, context):
    if isinstance(context.module, nn.Dense | nn.Conv | nets.Operand):
      seen.append('/'.join(context.module.path))
    return call(*args, **kwargs)

  with nn.intercept_methods(note):
    jax.eval_shape(lambda x: chain.apply({'params': params}, x), x)
  kernels = [
    '/'.join(str(key.key) for key in path[:-1])
    for path, _ in jax.tree.leaves_with_path(params)
    if path[-1].key == 'kernel'
  ]
  assert set(kernels) <= set(seen)
  assert len(set(seen)) == len(seen)


def test_blocks_of_equal_shape_are_equal():
  chain = nets.resnet((2, 1), (8, 16))
  first, second, other = chain.blocks()[1:4]
  assert first.module == second.module != other.module
  assert hash(first.module) == hash(second.module)
  assert first != second
  assert first == nets.resnet((2, 1), (8, 16)).blocks()[1]
  deep = nets.vit(8, 2, 2).blocks()
  assert deep[1].module == deep[3].module
  assert deep[2].module == deep[4].module != deep[1].module


def test_a_block_is_static_under_jit():
  chain = nets.vit(8, 1, 2)
  x = jnp.ones((1, 8, 8, 1))
  params = drawn.variables(chain, *x.shape)['params']
  block = chain.blocks()[0]
  traced = jax.jit(lambda b, p, x: b(p, x), static_argnums=0)(block, params, x)
  np.testing.assert_allclose(traced, block(params, x), rtol=1e-6)


def test_operand_is_the_identity():
  x = jnp.arange(3)
  mark = nets.Operand('scan', signed=False)
  np.testing.assert_array_equal(mark.apply({}, x), x)
