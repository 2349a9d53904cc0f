"""What is asked of a whole network, against matrices in NumPy."""

import jax
import numpy as np
import pytest

from jaxlab.quantization import network, operators
from jaxlab.quantization.types import QuantSpec, Site
from tests.quantization import small
from tests.quantization.closeness import assert_normwise


@pytest.fixture(scope='module')
def planned():
  net = small.dense()
  plan, owned, states = small.rounded(net, small.W2A2)
  return net, plan, owned, states


def test_the_chain_is_the_network(planned):
  net, plan, owned, _ = planned
  found = network.outputs(plan, owned, net.calib)
  assert [z.shape for z in found] == [(64, n) for n in (8, 8, 8, 4)]
  assert_normwise(found[-1], net.logits(net.calib), 1e-6)
  for i in (0, 2, 3):
    rest = network.rest_of(plan, i, owned)
    assert_normwise(rest(found[i]), found[-1], 1e-5)


def test_bits_by_place_and_kind():
  spec = QuantSpec(
    2, 3, 7, ssm_act_bits=6, conv1d_bits=5, overrides=(('x_proj', (4, 1)),)
  )
  net = small.mamba()
  plan, _ = network.make_plan(net.blocks, net.params, net.calib[:1], spec)
  bits = {path: (s.w_bits, s.a_bits) for _, s, path in plan.named() if s.linear}
  acts = {path: s.a_bits for _, s, path in plan.named() if not s.linear}
  assert bits == {
    '0/embed': (7, 7),
    '1/in_proj': (2, 3),
    '1/ssm/conv': (5, 5),
    '1/ssm/x_proj': (4, 1),
    '1/ssm/dt_proj': (2, 3),
    '1/out_proj': (2, 3),
    '2/dense': (7, 7),
  }
  names = ('scan_u', 'scan_delta', 'scan_B', 'scan_C')
  assert acts == {f'1/ssm/{name}': 6 for name in names}


def test_operands_of_attention_have_the_bits_of_activations():
  net = small.vit()
  plan, _ = network.make_plan(
    net.blocks, net.params, net.calib[:1], QuantSpec(2, 3)
  )
  found = {s.name: s for s in plan.sites[1]}
  assert list(found) == ['qkv', 'query', 'key', 'value', 'probs', 'proj']
  assert all(s.a_bits == 3 for s in found.values())
  assert not found['probs'].signed


def test_energies_are_those_of_the_fisher_matrix(planned):
  net, plan, owned, _ = planned
  x = net.calib
  found = network.energies(plan, owned, x, jax.random.key(0), probes=2000)
  z = network.outputs(plan, owned, x)
  logits = np.asarray(z[-1], np.float64)
  p = np.exp(logits) / np.sum(np.exp(logits), axis=1, keepdims=True)
  fisher = np.einsum('ni,ij->nij', p, np.eye(4))
  fisher -= np.einsum('ni,nj->nij', p, p)
  # d logits / d (what the last hidden layer gives before its ReLU).
  last = np.asarray(owned[3]['dense']['kernel'], np.float64)
  slope = (np.asarray(z[2]) > 0)[:, :, None] * last
  diag = np.einsum('nik,nkl,nil->ni', slope, fisher, slope)
  omega, gamma = found[2]['dense']
  assert_normwise(omega, diag.sum(1) / diag.sum(1).mean(), 0.1)
  assert_normwise(gamma, diag.mean(0) / diag.mean(), 0.1)
  np.testing.assert_allclose(np.mean(omega), 1, rtol=1e-5)


def test_collects_inputs_at_the_places_of_the_energies():
  net = small.resnet()
  plan, owned = network.make_plan(
    net.blocks, net.params, net.calib[:1], small.W2A2
  )
  key = jax.random.key(0)
  data = network.collect(plan, owned, net.calib, key, most=100)
  shapes = jax.eval_shape(
    lambda x: network.energies(plan, owned, x, key, most=100), net.calib
  )
  for group, energy, sites in zip(data, shapes, plan.sites, strict=True):
    for site in sites:
      seen = group[site.name]
      count = min(100, 32 * 64)
      if site.name == 'dense':
        count = 32
      assert seen.values.shape == (count, site.taps, site.channels)
      assert energy[site.name][0].shape == (count,)
      assert energy[site.name][1].shape == (site.columns,)


def test_divergence_is_that_of_the_outputs(planned):
  net, plan, owned, states = planned
  logits = network.outputs(plan, owned, net.calib)[-1]
  off = network.activated(states, False)
  assert float(network.mean_kl(plan, owned, off, net.calib, logits)) < 1e-6
  on = network.activated(states, True)
  rounded = network.quantized_logits(plan, owned, on, net.calib)
  p, q = (
    np.asarray(jax.nn.log_softmax(y), np.float64) for y in (logits, rounded)
  )
  expected = np.mean(np.sum(np.exp(p) * (p - q), axis=1))
  found = network.mean_kl(plan, owned, on, net.calib, logits)
  np.testing.assert_allclose(found, expected, rtol=1e-3)
  assert expected > 1e-4


def test_costs_of_a_site():
  conv = Site('', 'conv', 12, 6, (3, 3), groups=2)
  assert network.macs(conv, 10) == 10 * 9 * 6 * 6
  # Blocks of 4: two levels of butterflies on 12 channels.
  assert network.hadamard_adds(conv) == 24
  assert network.hadamard_adds(Site('', 'dense', 7, 2)) == 0
  assert operators.num_places(Site('', 'dense', 7, 2), (5, 4, 7)) == (4,)
