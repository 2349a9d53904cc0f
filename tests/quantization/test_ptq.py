"""Whole quantizations of small networks."""

import dataclasses
import functools
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.quantization import dfsc, export, ptq
from jaxlab.quantization.baselines import METHODS
from jaxlab.quantization.types import QuantSpec
from kernels_pallas import quantized_matmul as qm
from tests.quantization import small

AUDIT = (24, 6)


@functools.cache
def quantized(method, spec=small.W2A2, name='dense', **changed):
  net = small.NETS[name]()
  recipe = dataclasses.replace(METHODS[method], steps=small.STEPS, **changed)
  audit = small.inputs(*AUDIT, seed=5) if name == 'dense' else None
  return ptq.quantize_model(
    net.blocks,
    net.params,
    net.calib,
    spec,
    recipe,
    model_fn=lambda p, x: net.model.apply({'params': p}, x),
    audit=audit,
  )


def kl_of(model, net, x):
  p, q = (
    np.asarray(jax.nn.log_softmax(y), np.float64)
    for y in (net.logits(x), export.apply(model, x))
  )
  return np.mean(np.sum(np.exp(p) * (p - q), axis=1))


def agree(name, model):
  x = small.NETS[name]().calib
  fake, integer = export.apply(model, x), export.apply(model, x, 'integer')
  size = float(jnp.max(jnp.abs(fake)))
  assert float(jnp.max(jnp.abs(fake - integer))) <= 1e-3 * size
  same = jnp.argmax(fake, axis=1) == jnp.argmax(integer, axis=1)
  assert float(jnp.mean(same)) >= 0.995
  assert bool(jnp.all(jnp.isfinite(fake)))


@pytest.mark.parametrize('method', ['rtn_mse', 'qdrop', 'sharp'])
def test_the_report_is_true(method):
  model, report = quantized(method)
  net = small.dense()
  agree('dense', model)
  np.testing.assert_allclose(
    report.kl_calibration, kl_of(model, net, net.calib), rtol=0.05
  )
  np.testing.assert_allclose(
    report.kl_audit, kl_of(model, net, small.inputs(*AUDIT, seed=5)), rtol=0.05
  )
  assert report.bytes == export.stored_bytes(model)
  leaves = jax.tree.leaves(net.params)
  assert report.float_bytes == sum(4 * x.size for x in leaves)
  plain = json.loads(json.dumps(report.as_dict()))
  assert plain['method'] == method
  assert list(report.sites) == [f'{i}/dense' for i in range(4)]


def test_bits_of_a_weight_count_everything():
  # An 8 x 8 layer of 2 bits: codes, and for a column a float and a byte.
  plain = quantized('rtn_mse')[1]
  assert plain.bits_per_weight == (64 * 2 + 8 * (32 + 8)) / 64
  added = quantized('rtn_mse', comp_rank=2)[1]
  gap = added.bits_per_weight - plain.bits_per_weight
  assert gap == 32 * 2 * (8 + 8) / 64
  assert added.bytes['compensation'] == 2 * 4 * 2 * (8 + 8)


def test_compensation_lowers_the_error():
  plain, added = quantized('rtn_mse')[1], quantized('rtn_mse', comp_rank=2)[1]
  for before, after in zip(plain.blocks[1:3], added.blocks[1:3], strict=True):
    assert after.error_after < before.error_after


@pytest.mark.parametrize('method', ['rtn_mse', 'qdrop', 'sharp'])
def test_the_ends_have_8_bits_whatever_the_method(method):
  _, report = quantized(method)
  bits = [(s.w_bits, s.a_bits) for s in report.sites.values()]
  assert bits == [(8, 8), (2, 2), (2, 2), (8, 8)]


def test_overrides_mix_bits():
  spec = QuantSpec(2, 2, overrides=(('2/dense', (4, 3)),))
  model, report = quantized('rtn_mse', spec)
  assert report.sites['2/dense'].w_bits == 4
  assert report.sites['2/dense'].a_bits == 3
  assert model.sites[2]['dense'].weights.bits == 4
  assert model.sites[1]['dense'].weights.bits == 2
  agree('dense', model)


def test_har_reports_what_it_tried():
  _, report = quantized('sharp')
  for path in ('1/dense', '2/dense'):
    site = report.sites[path]
    assert len(site.losses) == 18
    assert site.losses[site.transform] == min(site.losses.values())
    assert site.losses[site.transform] <= site.losses['identity']
    assert all(map(math.isfinite, (*site.audit, *site.sharpness)))
  assert report.sites['0/dense'].losses == {}


def test_the_fisher_form_is_built_anew():
  dynamic = quantized('sharp')[1].blocks
  static = quantized('static_fisher')[1].blocks
  for report in dynamic[1:3]:
    assert len(report.change) == 2 and all(x > 0 for x in report.change)
    assert report.loss == 'channel' and len(report.losses) == small.STEPS
  assert all(report.change == () for report in static)
  third = small.STEPS // 3
  np.testing.assert_allclose(
    dynamic[1].losses[:third], static[1].losses[:third], rtol=1e-4
  )
  assert not np.allclose(
    dynamic[1].losses[third:], static[1].losses[third:], rtol=1e-3
  )


def test_learning_lowers_the_loss_and_the_error():
  net = small.dense()
  recipe = dataclasses.replace(METHODS['qdrop'], steps=200)
  _, report = ptq.quantize_model(
    net.blocks, net.params, net.calib, small.W2A2, recipe
  )
  for block in report.blocks[1:3]:
    first, last = np.mean(block.losses[:20]), np.mean(block.losses[-20:])
    assert last < first
    assert block.error_after < block.error_before
  assert not any(block.diverged for block in report.blocks)


def test_equal_blocks_share_one_program():
  quantized('qdrop')
  net = small.dense()
  before = dfsc.learn._cache_size()
  recipe = dataclasses.replace(METHODS['qdrop'], steps=small.STEPS + 1)
  ptq.quantize_model(net.blocks, net.params, net.calib, small.W2A2, recipe)
  assert dfsc.learn._cache_size() == before + 1


def test_a_block_that_diverges_is_left_and_reported():
  net = small.dense()
  recipe = dataclasses.replace(
    METHODS['qdrop'], steps=small.STEPS, hyper=(('steps', math.nan),)
  )
  model, report = ptq.quantize_model(
    net.blocks, net.params, net.calib, small.W2A2, recipe
  )
  assert [block.diverged for block in report.blocks] == [
    False,
    True,
    True,
    False,
  ]
  assert any('diverged' in note for note in report.notes)
  start, _ = quantized('rtn_mse')
  np.testing.assert_array_equal(
    qm.unpack(model.sites[1]['dense'].weights),
    qm.unpack(start.sites[1]['dense'].weights),
  )


def test_few_inputs_are_noted_and_progress_is_told():
  net, told = small.dense(), []
  _, report = ptq.quantize_model(
    net.blocks,
    net.params,
    net.calib[:32],
    small.W2A2,
    'rtn_minmax',
    progress=lambda *x: told.append(x),
  )
  assert any('only 32 inputs' in note for note in report.notes)
  assert told == [(i + 1, 4) for i in range(4)]
  assert quantized('rtn_mse')[1].notes == []


def test_the_key_decides():
  net = small.dense()
  recipe = dataclasses.replace(METHODS['qdrop'], steps=small.STEPS)

  def losses(seed):
    _, report = ptq.quantize_model(
      net.blocks,
      net.params,
      net.calib,
      small.W2A2,
      recipe,
      jax.random.key(seed),
    )
    return report.blocks[1].losses

  assert losses(0) == losses(0) != losses(1)


def test_functions_of_a_whole_tree_are_blocks():
  net = small.dense()

  def block_of(block):
    def apply(params, x):
      own = {'params': params['params'][block.name]}
      return block.module.apply(own, x)

    return apply

  model, report = ptq.quantize_model(
    [block_of(block) for block in net.blocks],
    {'params': net.params},
    net.calib,
    small.W2A2,
    'rtn_mse',
  )
  expected, _ = quantized('rtn_mse')
  np.testing.assert_allclose(
    export.apply(model, net.calib),
    export.apply(expected, net.calib),
    rtol=1e-4,
    atol=1e-5,
  )
  assert list(report.sites) == [f'{i}/dense' for i in range(4)]


@pytest.mark.slow
@pytest.mark.parametrize('method', ['rtn_mse', 'sharp', 'kmeans_recon'])
@pytest.mark.parametrize('name', ['resnet', 'vit', 'mamba'])
def test_all_architectures(name, method):
  model, report = quantized(method, name=name)
  agree(name, model)
  assert math.isfinite(report.kl_calibration)
  assert report.bytes['total'] < report.float_bytes
