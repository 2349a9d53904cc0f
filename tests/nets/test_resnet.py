"""Residual networks: the published sizes, and normalization folded away."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab import nets
from tests.nets import drawn


def count(tree):
  return sum(leaf.size for leaf in jax.tree.leaves(tree))


def test_sizes_of_cifar_networks():
  # Table 6 of He et al. (2016): 0.27 M, 0.46 M and 0.85 M parameters, without
  # the two shortcuts, which are convolutions here.
  for depth, millions in ((20, 0.27), (32, 0.46), (56, 0.85)):
    params = drawn.shapes(nets.resnet_cifar(depth), 1, 32, 32, 3)['params']
    assert count(params) / 1e6 == pytest.approx(millions, abs=0.01)
  blocks = nets.resnet_cifar(20).blocks()
  assert [block.name for block in blocks][:2] == ['stem', 'block_0']
  assert len(blocks) == 11


def test_strides():
  chain = nets.resnet()
  x = jax.ShapeDtypeStruct((1, 14, 14, 1), jnp.float32)
  sizes = []
  variables = drawn.shapes(chain, *x.shape)
  for name, module in chain.stages[:-1]:
    own = {kind: tree[name] for kind, tree in variables.items()}
    x = jax.eval_shape(module.apply, own, x)
    sizes.append(x.shape[1:])
  assert sizes == [(14, 14, 8), (14, 14, 8), (7, 7, 16), (4, 4, 32)]


@pytest.mark.parametrize(
  ('chain', 'shape'),
  [
    (nets.resnet((1, 1), (4, 8)), (2, 6, 6, 1)),
    (
      nets.mobilenet(
        (nets.Part(1, 4, 1, expand=1), nets.Part(2, 6, 2, 2, 5)),
        stem=4,
        head=8,
        classes=3,
        epsilon=1e-3,
      ),
      (2, 8, 8, 3),
    ),
  ],
  ids=['resnet', 'mobilenet'],
)
def test_folding_changes_nothing(chain, shape):
  x = jax.random.normal(jax.random.key(2), shape)
  variables = drawn.variables(chain, *shape)
  bare, params = nets.fold_batch_norm(chain, **variables)
  right = jax.jit(chain.apply)(variables, x)
  found = jax.jit(bare.apply)({'params': params}, x)
  np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)
  made = drawn.shapes(bare, *shape)
  assert set(made) == {'params'}
  assert jax.tree.structure(made['params']) == jax.tree.structure(params)
  assert float(jnp.std(right)) > 1e-2


def test_training_moves_the_statistics():
  chain = nets.resnet((1,), (4,))
  x = 3 + jax.random.normal(jax.random.key(0), (8, 4, 4, 1))
  variables = drawn.variables(chain, *x.shape)
  _, new = chain.apply(variables, x, train=True, mutable=['batch_stats'])
  conv = nn.Conv(4, (3, 3), use_bias=False)
  kernel = variables['params']['stem']['conv0']['conv']
  mean = conv.apply({'params': kernel}, x).mean((0, 1, 2))
  found = new['batch_stats']['stem']['conv0']['norm']['mean']
  before = variables['batch_stats']['stem']['conv0']['norm']['mean']
  np.testing.assert_allclose(found, 0.9 * before + 0.1 * mean, rtol=1e-4)


def test_depth_and_widths_are_checked():
  with pytest.raises(ValueError, match='depth=18'):
    nets.resnet_cifar(18)
  with pytest.raises(ValueError, match='shorter'):
    nets.resnet((1, 1, 1), (8, 16))


def test_efficientnet_lite0_has_the_published_size():
  # 4.7 M parameters with the scales and shifts of the normalization.
  params = drawn.shapes(nets.efficientnet_lite0(), 1, 224, 224, 3)['params']
  assert count(params) == 4_652_008
  assert count(params['head']['dense']) == 1_281_000
