"""Sites that are found in flax networks, against flax itself."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab import errors, nets
from jaxlab.quantization import operators, sites
from tests.quantization import small
from tests.quantization.closeness import assert_normwise

CONVS = {
  'same': {'strides': 2},
  'same_even': {'kernel_size': (2, 4), 'strides': (3, 1)},
  'valid': {'padding': 'VALID'},
  'number': {'padding': 1, 'strides': (1, 2)},
  'pairs': {'padding': [(2, 0), (0, 1)]},
  'dilated': {'kernel_dilation': 2},
  'grouped': {'feature_group_count': 2},
  'depthwise': {'feature_group_count': 4, 'use_bias': False},
  'pointwise': {'kernel_size': (1, 1)},
}


class Inner(nn.Module):
  def setup(self):
    self.map = nn.Dense(3, use_bias=False)

  def __call__(self, x):
    return nn.relu(self.map(x))


class Everything(nn.Module):
  """Convolutions of all kinds side by side, a nested layer, an operand."""

  @nn.compact
  def __call__(self, x):
    found = [
      nn.Conv(**({'features': 8, 'kernel_size': (3, 3)} | options), name=name)(
        x
      ).reshape(len(x), -1)
      for name, options in CONVS.items()
    ]
    line = x.reshape(len(x), -1, 4)
    found.append(nn.Conv(4, (3,), padding=[(2, 0)], name='causal')(line))
    found.append(nets.Operand('scan', signed=False, name='mark')(line))
    found.append(Inner(name='inner')(line))
    return jnp.concatenate([y.reshape(len(x), -1) for y in found], axis=1)


@pytest.fixture(scope='module')
def everything():
  module = Everything()
  x = small.inputs(3, 5, 6, 4)
  params = small.drawn.variables(module, 3, 5, 6, 4)

  def block(params, x):
    return module.apply(params, x)

  return block, params, x, sites.find(block, params, x)


def test_finds_sites_in_their_order(everything):
  found = {site.name: site for site in everything[3]}
  assert list(found) == [*CONVS, 'causal', 'mark', 'inner/map']
  assert found['inner/map'].kind == 'dense'
  assert found['inner/map'].rows == 4 and found['inner/map'].columns == 3
  assert found['grouped'].rows == 9 * 2
  assert found['causal'].padding == ((2, 0),)
  assert found['number'].padding == ((1, 1), (1, 1))
  # Five rows in steps of 2 make 3 places, which need 7: one zero on each side.
  assert found['same'].padding == ((1, 1), (0, 1))
  assert not found['mark'].signed and found['mark'].role == 'scan'


def test_sites_in_float_compute_what_flax_does(everything):
  block, params, x, found = everything
  states = {
    site.name: small.state_of(
      site,
      np.ones((site.rows, site.columns), np.float32),
      np.ones(site.columns, np.float32),
      x,
    )._replace(active=jnp.zeros((), bool))
    for site in found
    if site.linear and len(site.window) != 1
  }
  run = jax.jit(lambda p, x: sites.run(block, p, x, found, states))
  assert_normwise(run(params, x), block(params, x), 1e-6)


def test_records_inputs_and_places(everything):
  block, params, x, found = everything
  y, seen = jax.jit(lambda p, x: sites.record(block, p, x, found))(params, x)
  patches = jax.jit(operators.patches, static_argnames='site')
  start = 0
  for site in found:
    entry = seen[site.name]
    if not site.linear:
      start += entry['input'][0].size
      continue
    places = operators.num_places(site, entry['input'].shape)
    size = int(np.prod(places)) * site.columns
    given = np.asarray(y[:, start : start + size]).reshape(3, -1, site.columns)
    start += size
    if site.groups > 1:
      continue
    index = jnp.arange(3 * int(np.prod(places)))
    rows = np.asarray(patches(site, entry['input'], index))
    flat = rows.reshape(len(rows), -1)
    expected = flat @ np.asarray(entry['weights']) + np.asarray(entry['bias'])
    expected = expected.reshape(given.shape)
    if site.name == 'inner/map':
      expected = np.maximum(expected, 0)
    assert_normwise(given, expected, 1e-5)
  assert start == y.shape[1]


def test_adds_to_what_a_site_gives(everything):
  block, params, x, _ = everything
  added = {'pointwise': jnp.ones((3, 5, 6, 8))}
  moved = sites.perturbed(block, params, x, added) - block(params, x)
  changed = jnp.abs(moved) > 0.5
  assert int(jnp.sum(changed)) == added['pointwise'].size
  assert_normwise(moved[changed], np.ones(added['pointwise'].size), 1e-5)


@pytest.mark.parametrize('padding', ['CIRCULAR', 'REFLECT', 'CAUSAL'])
def test_refuses_other_padding(padding):
  rank = 1 if padding == 'CAUSAL' else 2
  module = nn.Conv(2, (3,) * rank, padding=padding)
  x = jnp.zeros((1, *(4,) * rank, 1))
  params = jax.eval_shape(module.init, jax.random.key(0), x)
  with pytest.raises(errors.UserError, match=padding):
    sites.find(module.apply, params, x)


@pytest.mark.parametrize(
  ('options', 'shape'),
  [({'input_dilation': 2, 'padding': 1}, (1, 4, 4, 1)), ({}, (4, 4, 1))],
)
def test_refuses_what_has_no_quantized_form(options, shape):
  module = nn.Conv(2, (3, 3), **options)
  x = jnp.zeros(shape)
  params = jax.eval_shape(module.init, jax.random.key(0), x)
  with pytest.raises(errors.UserError, match='a convolution takes'):
    sites.find(module.apply, params, x)


def test_equal_blocks_are_equal():
  net = small.dense()
  views = [sites.view(block, net.params) for block in net.blocks]
  first, second = views[1], views[2]
  assert first[0] == second[0] and hash(first[0]) == hash(second[0])
  assert first[0] != views[0][0]
  assert first[1] is net.params['middle_0']


def test_places_are_sampled_without_repeats():
  site = operators.Site(
    '', 'conv', 1, 1, (3, 3), (2, 2), ((1, 1), (0, 0)), (1, 1)
  )
  assert operators.num_places(site, (2, 7, 7, 1)) == (4, 3)
  every = sites.sample_places(site, (2, 7, 7, 1), 24, jax.random.key(0))
  np.testing.assert_array_equal(every, np.arange(24))
  some = sites.sample_places(site, (2, 7, 7, 1), 10, jax.random.key(0))
  assert len(set(np.asarray(some).tolist())) == 10
