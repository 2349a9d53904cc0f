"""What a quantized network must not get away with."""

import jax
import numpy as np
import pytest

from jaxlab.quantization import export, network, operators, sites
from jaxlab.quantization.types import Linear, QuantSpec
from kernels_pallas import quantized_matmul as qm
from tests.quantization import small

SPEC = QuantSpec(2, 2, conv1d_bits=3, ssm_act_bits=4)


def without_compensation(states):
  return [
    {
      k: s._replace(first=None, second=None) if isinstance(s, Linear) else s
      for k, s in group.items()
    }
    for group in states
  ]


@pytest.mark.parametrize('name', small.NETS)
def test_no_product_sees_more_values_than_its_bits(name, monkeypatch):
  """W2A2 is not W2A16: counts what enters each product, and its weights."""
  net = small.NETS[name]()
  plan, owned, states = small.rounded(net, SPEC, np.random.default_rng(0))
  states = without_compensation(states)
  at: list = []
  product, replaced = operators.product, sites.replaced

  def noted(site, x, weights):
    at.append((site, x, weights))
    return product(site, x, weights)

  def operand(module, site, state, x, soft=False):
    y = replaced(module, site, state, x, soft)
    if not site.linear:
      at.append((site, y, None))
    return y

  @jax.jit
  def entering(states, x):
    network.quantized_logits.__wrapped__(plan, owned, states, x)
    return [(x, weights) for _, x, weights in at]

  monkeypatch.setattr(operators, 'product', noted)
  monkeypatch.setattr(sites, 'replaced', operand)
  found = entering(states, net.calib)
  assert [s.name for s, *_ in at] == [s.name for _, s, _ in plan.named()]
  assert sum(site.a_bits == 2 for site, *_ in at) >= 2
  for (site, *_), (x, weights) in zip(at, found, strict=True):
    assert 1 < len(np.unique(x)) <= 2**site.a_bits
    if site.linear:
      size = np.max(np.abs(weights), axis=0)
      steps = np.round(np.asarray(weights / size).T, 4)
      assert max(len(np.unique(row)) for row in steps) <= 2**site.w_bits


def test_codes_of_a_learned_network_are_integers():
  """Rounding does not stay soft: the stored codes give the answers."""
  net = small.dense()
  plan, owned, states = small.rounded(net, SPEC)
  rng = np.random.default_rng(1)
  soft = [
    {
      k: s._replace(soft=rng.normal(size=s.soft.shape).astype('float32'))
      for k, s in group.items()
    }
    for group in states
  ]
  model = export.pack_model(plan, owned, soft)
  for group, packed in zip(soft, model.sites, strict=True):
    codes = np.asarray(qm.unpack(packed['dense'].weights))
    state = group['dense']
    np.testing.assert_array_equal(codes, state.code + (state.soft >= 0))
  hard = network.quantized_logits(plan, owned, soft, net.calib)
  found = export.apply(model, net.calib, 'integer')
  close = np.max(np.abs(found - hard), axis=1) < 1e-3
  assert np.mean(close) >= 0.9


def test_stages_of_the_network_differ_in_float_only_by_rounding():
  """At 8 bits everywhere the network is nearly the float one."""
  net = small.dense()
  plan, owned, states = small.rounded(
    net, QuantSpec(8, 8), np.random.default_rng(2)
  )
  model = export.pack_model(plan, owned, without_compensation(states))
  exact = np.asarray(net.logits(net.calib))
  gap = np.abs(np.asarray(export.apply(model, net.calib, 'integer')) - exact)
  assert np.max(gap) < 0.05 * np.max(np.abs(exact))
