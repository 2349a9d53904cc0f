"""Packed networks: what they compute, hold and weigh."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from jaxlab.quantization import export, network, quantizers
from jaxlab.quantization.types import QuantSpec
from kernels_pallas import quantized_matmul as qm
from tests.nets import drawn
from tests.quantization import small
from tests.quantization.closeness import assert_normwise

SPEC = QuantSpec(2, 2, overrides=(('fc1', (3, 4)), ('conv2', (4, 3))))


@functools.cache
def packed(name, rich):
  net = small.NETS[name]()
  rng = np.random.default_rng(3) if rich else None
  plan, owned, states = small.rounded(net, SPEC, rng)
  model = export.pack_model(plan, owned, states)
  return net, plan, owned, states, model


@pytest.fixture(params=list(small.NETS))
def rich(request):
  """Networks with transforms, half-integer zeros and compensation."""
  return packed(request.param, True)


@pytest.fixture
def plain():
  return packed('dense', False)


def test_both_modes_agree(rich):
  net, _, _, _, model = rich
  fake = export.apply(model, net.calib)
  integer = export.apply(model, net.calib, 'integer')
  size = float(jnp.max(jnp.abs(fake)))
  assert float(jnp.max(jnp.abs(fake - integer))) <= 1e-3 * size
  same = jnp.argmax(fake, axis=1) == jnp.argmax(integer, axis=1)
  assert float(jnp.mean(same)) >= 0.995


def test_packed_is_what_was_learned(rich):
  net, plan, owned, states, model = rich
  expected = network.quantized_logits(plan, owned, states, net.calib)
  found = export.apply(model, net.calib)
  # A tie of a code may fall to the other side, rarely.
  gap = jnp.max(jnp.abs(found - expected), axis=1)
  limit = 1e-4 * float(jnp.max(jnp.abs(expected)))
  assert float(jnp.mean(gap <= limit)) >= 0.9


def test_codes_are_those_of_the_weights(rich):
  _, plan, _, states, model = rich
  for group, state_of, packed_of in zip(
    plan.sites, states, model.sites, strict=True
  ):
    for site in group:
      if not site.linear:
        continue
      state, weights = state_of[site.name], packed_of[site.name].weights
      codes = np.asarray(qm.unpack(weights))
      assert codes.dtype == np.uint8 and codes.max() <= 2**site.w_bits - 1
      zero = np.asarray(state.zero, np.float64)
      value = np.asarray(state.scale, np.float64) * (codes - zero)
      up = np.asarray(state.soft) >= 0
      expected = np.where(up, state.high, state.low)
      assert_normwise(value, expected, 1e-6)


def test_gains_fold_into_scales(plain):
  _, plan, owned, states, _ = plain
  gain = jnp.linspace(-0.5, 0.5, 8)
  name = 'dense'
  moved = [dict(group) for group in states]
  moved[1][name] = moved[1][name]._replace(log_gain=gain)
  found = export.pack_model(plan, owned, moved).sites[1][name].weights.scale[0]
  assert_normwise(found, states[1][name].scale * np.exp(gain), 1e-6)


def test_bytes_are_those_promised(plain):
  *_, model = plain
  found = export.stored_bytes(model)
  # 6 -> 8 and 8 -> 4 at 8 bits, twice 8 -> 8 at 2; rows come in units of 8
  # (8 bits) and 32 (2 bits).
  columns, codes = 8 + 8 + 8 + 4, 8 * 8 + 2 * (32 * 2 // 8 * 8) + 8 * 4
  assert found['codes'] == codes
  scale, zero = 4, 1
  assert found['scales'] == columns * (scale + zero)
  bias, offset_row, step, offset = 4, 4, 4, 4
  assert found['other'] == columns * (bias + offset_row) + 4 * (step + offset)
  assert found['compensation'] == 0
  assert found['float'] == sum(x.nbytes for x in jax.tree.leaves(model.params))
  assert found['total'] == sum(v for k, v in found.items() if k != 'total')


def test_compensation_shows_in_bytes():
  _, plan, _, _, model = packed('dense', True)
  expected = sum(
    4 * 2 * (site.rows + site.columns) for _, site, _ in plan.named()
  )
  assert export.stored_bytes(model)['compensation'] == expected


@pytest.mark.parametrize(
  ('rows', 'bits', 'filled'),
  [(9, 2, 32), (64, 2, 64), (72, 3, 96), (300, 4, 304), (27, 8, 32)],
)
def test_few_rows_are_filled_up(rows, bits, filled):
  block = export.pack_block(rows, bits)
  assert -(-rows // block) * block == filled


def test_what_is_quantized_is_not_kept_in_float(rich):
  _, plan, owned, _, model = rich
  for group, own, rest in zip(plan.sites, owned, model.params, strict=True):
    linear = {site.name for site in group if site.linear}

    def names(tree):
      paths = jax.tree_util.tree_leaves_with_path(tree)
      return {
        '/'.join(key.key for key in path[:-1]): path[-1].key
        for path, _ in paths
      }

    assert linear <= set(names(own))
    assert not linear & set(names(rest))
    kept = [x for x in jax.tree.leaves(rest)]
    other = len(jax.tree.leaves(own)) - sum(
      len(jax.tree.leaves(_at(own, name))) for name in linear
    )
    assert len(kept) == other


def _at(tree, name):
  for part in name.split('/'):
    tree = tree[part]
  return tree


def test_under_jit_and_vmap(plain):
  net, _, _, _, model = plain
  one = export.apply(model, net.calib)
  found = jax.jit(lambda m, x: export.apply(m, x, 'integer'))(model, net.calib)
  assert_normwise(found, one, 1e-5)
  many = jax.vmap(lambda x: export.apply(model, x))(
    net.calib.reshape(4, 16, -1)
  )
  assert_normwise(many.reshape(one.shape), one, 1e-5)


def test_models_stack_under_vmap(plain):
  net, plan, owned, states, model = plain
  moved = [
    {k: s._replace(bias=s.bias + 1.0) for k, s in g.items()} for g in states
  ]
  other = export.pack_model(plan, owned, moved)
  stacked = jax.tree.map(lambda *x: jnp.stack(x), model, other)
  found = jax.vmap(lambda m: export.apply(m, net.calib))(stacked)
  expected = jnp.stack([export.apply(m, net.calib) for m in (model, other)])
  assert_normwise(found, expected, 1e-5)


def test_gradient_of_the_input_is_finite(plain):
  net, _, _, _, model = plain
  slope = jax.grad(lambda x: jnp.sum(export.apply(model, x) ** 2))(net.calib)
  assert bool(jnp.all(jnp.isfinite(slope)))


def test_saved_and_restored(tmp_path):
  net, _, _, _, model = packed('dense', True)
  path = tmp_path / 'model'
  with ocp.StandardCheckpointer() as saver:
    saver.save(path, model)
  blank = jax.tree.map(jnp.zeros_like, model)
  with ocp.StandardCheckpointer() as saver:
    found = saver.restore(path, blank)
  assert jax.tree.structure(found) == jax.tree.structure(model)
  for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(model), strict=True):
    np.testing.assert_array_equal(a, b)
    assert a.dtype == b.dtype
  np.testing.assert_array_equal(
    export.apply(found, net.calib), export.apply(model, net.calib)
  )


def test_codebooks_of_activations_are_looked_up(plain):
  net, plan, owned, states, _ = plain
  moved = [dict(group) for group in states]
  state = states[1]['dense']
  levels = jnp.asarray([-0.5, 0.1, 0.7, 4.0])
  moved[1]['dense'] = state._replace(
    act=state.act._replace(levels=levels, uniform=jnp.zeros((), bool))
  )
  model = export.pack_model(plan, owned, moved)
  x = net.calib @ net.params['middle_0']['dense']['kernel'][:6]
  site = plan.sites[1][0]
  found = jax.jit(functools.partial(export.linear, site))(
    model.sites[1]['dense'], x
  )
  near = levels[quantizers.nearest_level(x, levels)]
  weights = np.where(state.soft >= 0, state.high, state.low)
  assert_normwise(found, near @ weights + state.bias, 1e-5)


class Pair(nn.Module):
  """Two layers, of which each is a method."""

  def setup(self):
    self.one, self.two = nn.Dense(5), nn.Dense(3)

  def first(self, x):
    return nn.relu(self.one(x))

  def second(self, x):
    return self.two(x)

  def __call__(self, x):
    return self.second(self.first(x))


def test_functions_of_one_tree_share_what_is_left_of_it():
  net = Pair()
  params = drawn.variables(net, 2, 4)
  blocks = (
    lambda p, x: net.apply(p, x, method=Pair.first),
    lambda p, x: net.apply(p, x, method=Pair.second),
  )
  one = small.Small(blocks, params, small.inputs(16, 4), net)
  plan, owned, states = small.rounded(one, SPEC)
  model = export.pack_model(plan, owned, states)
  assert jax.tree.leaves(model.params) == []
  assert export.stored_bytes(model)['float'] == 0
  exact = np.asarray(net.apply(params, one.calib))
  gap = np.abs(np.asarray(export.apply(model, one.calib)) - exact)
  assert np.max(gap) < 0.1 * np.max(np.abs(exact))  # both ends have 8 bits
