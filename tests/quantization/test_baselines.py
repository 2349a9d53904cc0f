"""All methods by name, on one small network."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.quantization import export, network, operators, ptq
from jaxlab.quantization.baselines import METHODS
from jaxlab.quantization.methods import resolve, with_hyper
from tests.quantization import small
from tests.quantization.test_ptq import quantized

FAST = (
  *('rtn_mse', 'qdrop', 'kmeans_recon', 'sharp', 'brecq', 'adaround'),
  'fima_q',
)
PAPER = {
  *('rtn_minmax', 'rtn_mse', 'adaround', 'gptq', 'brecq', 'qdrop'),
  *('smoothquant', 'hadamard', 'ptq4vit', 'repq_vit', 'aphq', 'fima_q'),
  *('kmeans', 'apot', 'log2', 'adalog', 'kmeans_recon', 'sharp'),
}


def check(name):
  model, report = quantized(name)
  net = small.dense()
  assert report.method == name
  assert 0 <= report.kl_calibration < 1
  assert not any(block.diverged for block in report.blocks)
  assert bool(jnp.all(jnp.isfinite(export.apply(model, net.calib))))
  for site in model.plan.sites[1]:
    weights = model.sites[1][site.name].weights
    assert weights.bits == 2 and site.a_bits == 2


@pytest.mark.parametrize('name', FAST)
def test_runs(name):
  check(name)


@pytest.mark.slow
@pytest.mark.parametrize('name', [n for n in METHODS if n not in FAST])
def test_runs_too(name):
  net = small.dense()
  if METHODS[name].comp_rank > 8:
    recipe = dataclasses.replace(METHODS[name], comp_rank=8, steps=4)
    _, report = ptq.quantize_model(
      net.blocks, net.params, net.calib, small.W2A2, recipe
    )
    assert math.isfinite(report.kl_calibration)
  else:
    check(name)


def test_methods_are_known_by_their_names():
  assert set(METHODS) >= PAPER
  assert all(method.name == name for name, method in METHODS.items())
  recipes = {
    dataclasses.replace(method, name='') for method in METHODS.values()
  }
  assert len(recipes) >= len(METHODS) - 1  # probes are exact for few classes
  assert resolve('qdrop', METHODS) is METHODS['qdrop']
  own = with_hyper(METHODS['sharp'], drop=0.25)
  assert own.rates.drop == 0.25 and own.rates.gains == 2e-3
  assert resolve(own, METHODS) is own


def test_a_fitted_range_beats_the_extremes():
  fitted, extreme = quantized('rtn_mse'), quantized('rtn_minmax')
  net = small.dense()
  for i in (1, 2):
    kernel = np.asarray(net.params[net.blocks[i].name]['dense']['kernel'])
    errors = []
    for model, _ in (fitted, extreme):
      weights = export.qm.dequantize(model.sites[i]['dense'].weights)
      errors.append(np.sum((np.asarray(weights) - kernel) ** 2))
    assert errors[0] < errors[1]
  assert fitted[1].kl_calibration < extreme[1].kl_calibration


@pytest.mark.parametrize('name', ['sharp', 'qdrop', 'brecq', 'rtn_mse'])
def test_ends_are_the_same_for_all(name):
  model, _ = quantized(name)
  other, _ = quantized('rtn_minmax')
  for i in (0, 3):
    a, b = (m.sites[i]['dense'].weights for m in (model, other))
    assert a.bits == b.bits == 8


def test_adaround_starts_from_the_weights():
  net = small.dense()
  plan, owned = network.make_plan(
    net.blocks, net.params, net.calib[:2], small.W2A2
  )
  (site,) = plan.sites[1]
  state = small.state_of(
    site, owned[1]['dense']['kernel'], jnp.zeros(8), small.inputs(4, 8)
  )
  soft = operators.weights_of(state, soft=True)
  top = 2 ** (site.w_bits - 1) - 1
  inside = jnp.abs(owned[1]['dense']['kernel']) <= top * state.scale
  gap = jnp.abs(soft - owned[1]['dense']['kernel'])
  assert float(jnp.max(jnp.where(inside, gap, 0))) < 1e-5
