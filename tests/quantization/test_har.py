"""The choice of transforms, against a network run in NumPy."""

import functools
import math

import jax
import numpy as np
import pytest

from jaxlab.quantization import fit, har, network, operators
from jaxlab.quantization.types import Site
from tests.quantization import small
from tests.quantization.closeness import assert_normwise

BLOCK = 1  # the first one of low bits
RULE = fit.Rule('minmax', 'minmax')


@functools.cache
def prepared():
  net = small.dense()
  plan, owned, states = small.rounded(net, small.W2A2)
  states = network.activated(states, False)
  (data,) = (
    network.collect(plan, owned, net.calib[:32], jax.random.key(0))[BLOCK]
  ).values()
  (site,) = plan.sites[BLOCK]
  names = har.names_of(site)
  found = har.fit_candidates(site, names, data, RULE, jax.random.key(1))
  return net, plan, owned, states, site, data, found


def chosen(score, audit=None):
  net, plan, owned, states, site, data, found = prepared()
  logits = network.outputs(plan, owned, net.calib)[-1]
  return har.choose(
    plan,
    owned,
    BLOCK,
    site,
    data,
    found,
    states,
    (net.calib[32:], logits[32:]),
    audit,
    score=score,
  )


def softmax(x):
  e = np.exp(x - x.max(axis=1, keepdims=True))
  return e / e.sum(axis=1, keepdims=True)


def run_by_hand(state=None):
  """Float64 logits of the second half; with a state, its block rounded."""
  net = prepared()[0]
  x = np.asarray(net.calib[32:], np.float64)
  for i, name in enumerate(block.name for block in net.blocks):
    layer = {
      k: np.asarray(v, np.float64) for k, v in net.params[name]['dense'].items()
    }
    if i == BLOCK and state is not None:
      x = by_hand(state, x)
    else:
      x = x @ layer['kernel'] + layer.get('bias', 0)
    x = np.maximum(x, 0) if name != 'last' else x
  return x


def by_hand(state, x):
  """What a 2-bit layer gives in float64."""
  state = jax.tree.map(np.asarray, state)
  t = state.transform
  x = (x - t.shift) / t.scale
  if t.rotate:
    h2 = np.array([[1, 1], [1, -1]])
    x = (x * t.signs) @ np.kron(np.kron(h2, h2), h2) / math.sqrt(8)
  r = np.sqrt(np.mean(x**2, axis=1, keepdims=True))
  r = np.maximum(r, 1e-6) if t.per_token else 1
  codes = np.clip(np.round((x / r - state.act.offset) / state.act.scale), 0, 3)
  values = state.act.scale * codes + state.act.offset
  weights = np.where(state.soft >= 0, state.high, state.low)
  return r * (values @ weights) + state.bias


def test_the_identity_is_always_tried():
  sites = (
    Site('', 'dense', 8, 4),
    Site('', 'dense', 7, 4),
    Site('', 'conv', 8, 4, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    Site('', 'conv', 8, 8, (3,), (1,), ((2, 0),), (1,), 8),
  )
  counts = []
  for site in sites:
    names = har.names_of(site)
    assert names[0] == 'identity' and len(set(names)) == len(names)
    counts.append(len(names))
    assert any('Hadamard' in n for n in names) == (
      site.groups == 1 and site.channels % 2 == 0
    )
  assert len(har.names_of(sites[0], by_token=False)) == 9
  # Dense: nine, and each with a scale for tokens; 7 has no power of two.
  assert counts == [18, 12, 9, 6]


def test_candidates_are_what_their_names_say():
  *_, site, data, (names, tried, fitted) = prepared()
  rows = np.asarray(data.values[:, 0], np.float64)
  rms = np.sqrt(np.mean(rows**2, axis=0))
  of_w = np.sqrt(np.mean(np.asarray(data.weights, np.float64) ** 2, axis=1))
  ratio = np.sqrt(rms / of_w)
  ratio /= np.exp(np.mean(np.log(ratio)))
  at = names.index('D(0.5)')
  assert_normwise(tried.scale[at], np.clip(ratio, 0.1, 10), 1e-4)
  shifted = names.index('shift')
  assert_normwise(tried.shift[shifted], rows.mean(axis=0), 1e-5)
  for i, name in enumerate(names):
    assert bool(tried.rotate[i]) == ('Hadamard' in name)
    assert bool(tried.per_token[i]) == ('per token' in name)
  first = jax.tree.map(lambda x: x[0], fitted)
  plain = operators.identity(site)
  np.testing.assert_array_equal(first.transform.scale, plain.scale)
  np.testing.assert_array_equal(first.transform.shift, plain.shift)


def test_kl_is_that_of_the_site_alone():
  _, choice = chosen('kl')
  fitted = prepared()[-1].states
  p = softmax(run_by_hand())
  for i, loss in enumerate(choice.losses):
    state = jax.tree.map(lambda x, i=i: x[i], fitted)
    q = softmax(run_by_hand(state))
    expected = np.mean(np.sum(p * (np.log(p) - np.log(q)), axis=1))
    np.testing.assert_allclose(loss, expected, rtol=1e-2, atol=1e-6)


@pytest.mark.parametrize('score', ['kl', 'ell'])
def test_the_smallest_loss_is_chosen(score):
  state, choice = chosen(score)
  assert choice.losses[choice.chosen] == min(choice.losses)
  assert choice.losses[choice.chosen] <= choice.losses[0]
  fitted = prepared()[-1].states
  np.testing.assert_array_equal(state.scale, fitted.scale[choice.chosen])
  assert not bool(state.active)


def test_ell_is_the_error_of_the_layer():
  _, choice = chosen('ell')
  *_, data, (_, _, fitted) = prepared()
  rows = np.asarray(data.values[:, 0], np.float64)
  exact = rows @ np.asarray(data.weights) + np.asarray(data.bias)
  for i, loss in enumerate(choice.losses):
    state = jax.tree.map(lambda x, i=i: x[i], fitted)
    gap = by_hand(state, rows) - exact
    expected = np.mean(np.sum(gap**2, axis=1))
    np.testing.assert_allclose(loss, expected, rtol=1e-2)


def test_the_gain_is_audited_on_other_inputs():
  _, plan, owned, *_ = prepared()
  other = small.inputs(32, 6, seed=9)
  logits = network.outputs(plan, owned, other)[-1]
  _, choice = chosen('kl', (other, logits))
  assert all(math.isfinite(x) and x > 0 for x in choice.audit)
  assert choice.audit[0] != choice.losses[0]


def test_spectra_are_those_of_the_second_moment():
  _, choice = chosen('kl')
  data = prepared()[5]
  rows = np.asarray(data.values[:, 0], np.float64)
  gram = rows.T @ rows / len(rows)
  values = np.linalg.eigvalsh(gram)
  np.testing.assert_allclose(
    choice.sharpness[0], values[-1] / values.mean(), rtol=1e-3
  )
  mixing = 1 - np.sum(np.diag(gram) ** 2) / np.sum(gram**2)
  np.testing.assert_allclose(choice.mixing[0], mixing, rtol=1e-3)


def test_losses_that_are_not_finite_lose(monkeypatch):
  fake = iter([1.0, math.nan, math.inf] + [2.0] * 15)
  monkeypatch.setattr(network, 'mean_kl', lambda *_: next(fake))
  _, choice = chosen('kl')
  assert choice.chosen == 0
