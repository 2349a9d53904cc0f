"""Calibration against published tables, the package mirt, and derivatives."""

import csv
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.adaptive_testing import louis, mml, models
from jaxlab.adaptive_testing.calibrate import fit_mml
from jaxlab.adaptive_testing.types import item_bank
from jaxlab.errors import UserError
from tests.golden import Golden

GOLDEN = Golden('gpm')
# Bock & Lieberman, 1970: frequencies of the patterns 00000, 00001, ..., 11111.
COUNTS = [3, 6, 2, 11, 1, 1, 3, 4, 1, 8, 0, 16, 0, 3, 2, 15, 10, 29, 14, 81]
COUNTS += [3, 28, 15, 80, 16, 56, 21, 173, 11, 61, 28, 298]
PATTERNS = np.array([[int(x) for x in f'{i:05b}'] for i in range(32)], float)
LSAT6 = np.repeat(PATTERNS, COUNTS, axis=0)


@pytest.fixture(scope='module')
def lsat6():
  return {model: fit_mml(LSAT6, model=model) for model in ('1PL', '2PL')}


def test_common_slope_of_lsat6_with_published_errors(lsat6):
  """Rizopoulos, Journal of Statistical Software 17(5), 2006, section 3.1."""
  bank, info = lsat6['1PL']
  np.testing.assert_allclose(bank.a, [0.7551] * 5, atol=2e-4)
  published = [-3.6153, -1.3224, -0.3176, -1.7301, -2.7802]
  np.testing.assert_allclose(bank.b, published, atol=1e-3)
  np.testing.assert_allclose(info.loglik, -2466.938, atol=2e-3)
  np.testing.assert_allclose(info.se.a, [0.0694] * 5, atol=2e-4)
  errors = [0.3266, 0.1422, 0.0977, 0.1691, 0.2510]
  np.testing.assert_allclose(info.se.b, errors, atol=5e-4)
  assert np.isnan(info.se.c).all()
  assert info.converged
  assert info.n_iter < 30


def test_own_slopes_of_lsat6(lsat6):
  bank, info = lsat6['2PL']
  slopes = [0.8257, 0.7227, 0.8909, 0.6884, 0.6569]
  np.testing.assert_allclose(bank.a, slopes, atol=1e-3)
  difficulties = [-3.3588, -1.3701, -0.2797, -1.8664, -3.1259]
  np.testing.assert_allclose(bank.b, difficulties, atol=5e-3)
  np.testing.assert_allclose(info.loglik, -2466.653, atol=2e-3)
  errors = [0.2581, 0.1867, 0.2326, 0.1852, 0.2100]
  np.testing.assert_allclose(info.se.a, errors, atol=1e-3)


def test_difficulties_of_lsat6_are_about_those_of_the_shares(lsat6):
  share = LSAT6.mean(0)
  order = np.argsort(-share)
  for bank, _ in lsat6.values():
    assert (np.argsort(bank.b) == order).all()
    theta = np.random.default_rng(0).normal(size=100_000)
    p = np.asarray(models.prob(bank, theta)).mean(0)
    np.testing.assert_allclose(p, share, atol=0.005)


def test_observed_information_is_minus_the_hessian():
  rng = np.random.default_rng(0)
  with jax.enable_x64(True):
    right = jnp.asarray(rng.integers(0, 2, (40, 3)), float)
    seen = jnp.asarray(rng.random((40, 3)) < 0.8, float)
    nodes = jnp.linspace(-5, 5, 21)
    data = mml.Data(
      right * seen, seen, nodes, jax.nn.log_softmax(-(nodes**2) / 2)
    )
    priors = mml.Priors((0.2, 0.5), (5.0, 17.0))
    params = jnp.asarray(rng.normal(size=(3, 3)) * 0.3)

    def penalised(params):
      return mml.penalty(priors, params) - mml.expect(data, params)[1]

    slope = jax.jit(jax.grad(penalised))
    found = jax.jit(
      lambda params: louis.observed_information(
        data, priors, params, common=False
      )
    )(params)
    for at in np.ndindex(3, 3):
      step = jnp.zeros((3, 3)).at[at].set(1e-5)
      expected = (slope(params + step) - slope(params - step)) / 2e-5
      np.testing.assert_allclose(found[at], expected, atol=1e-6)


def simulated(model, num_examinees=3000, num_items=12):
  rng = np.random.default_rng(1)
  bank = item_bank(
    rng.lognormal(0, 0.3, num_items),
    rng.normal(size=num_items),
    rng.beta(5, 17, num_items) if model == '3PL' else 0.0,
  )
  theta = rng.normal(size=num_examinees)
  p = np.asarray(models.prob(bank, theta))
  return bank, (rng.random(p.shape) < p).astype(float)


@pytest.mark.parametrize('model', ['2PL', '3PL'])
def test_parameters_are_recovered_within_their_errors(model):
  bank, responses = simulated(model)
  found, info = fit_mml(responses, model=model)
  assert info.converged
  for name in 'ab' if model == '2PL' else 'abc':
    gap = getattr(found, name) - getattr(bank, name)
    error = getattr(info.se, name)
    assert (error > 0).all()
    # Mean squares of twelve standard normal numbers, less so with priors.
    assert 0.05 < jnp.mean((gap / error) ** 2) < 2.5, name
  at = np.array([-1.0, 0, 1])
  gap = models.prob(found, at) - models.prob(bank, at)
  assert abs(gap).max() < 0.05


def test_missing_responses_do_not_poison_or_bias():
  bank, responses = simulated('2PL')
  rng = np.random.default_rng(2)
  mask = rng.random(responses.shape) < 0.6
  dirty = np.where(mask, responses, np.nan)
  found, info = fit_mml(dirty, mask)
  again, _ = fit_mml(np.where(mask, responses, 0), mask)
  np.testing.assert_array_equal(found.a, again.a)
  np.testing.assert_allclose(found.b, bank.b, atol=0.35)
  whole = fit_mml(responses)[1]
  ratio = np.median(info.se.b / whole.se.b)
  assert 1.1 < ratio < 1.6  # 1 / sqrt(0.6) is 1.29


def test_items_and_examinees_in_another_order():
  _, responses = simulated('2PL')
  rng = np.random.default_rng(3)
  items, people = rng.permutation(12), rng.permutation(3000)
  found, info = fit_mml(responses)
  moved, again = fit_mml(responses[people][:, items])
  np.testing.assert_allclose(moved.a, found.a[items], rtol=2e-3)
  np.testing.assert_allclose(moved.b, found.b[items], atol=2e-3)
  np.testing.assert_allclose(again.loglik, info.loglik, rtol=1e-6)


@pytest.mark.slow
def test_many_data_sets_at_once():
  """A vmap over bootstrap samples is the loop over them."""
  rows = np.random.default_rng(4).integers(0, 1000, (2, 1000))
  samples = jnp.asarray(LSAT6[rows])
  several = jax.vmap(lambda x: fit_mml(x, model='1PL')[0].b)(samples)
  for sample, found in zip(samples, several, strict=True):
    alone = fit_mml(sample, model='1PL')[0].b
    np.testing.assert_allclose(found, alone, atol=2e-3)


@pytest.mark.parametrize('answer', [0, 1])
def test_a_degenerate_item_is_left_out(answer):
  responses = LSAT6.copy()
  responses[:, 2] = answer
  with pytest.warns(UserWarning, match='item 2 are equal.*-5 or 5'):
    bank, info = fit_mml(responses)
  assert bank.b[2] == (-5 if answer else 5)
  assert bank.a[2] == 1
  assert np.isnan(info.se.b).tolist() == [False, False, True, False, False]
  rest = np.array([0, 1, 3, 4])
  kept = bank._replace(a=bank.a[rest], b=bank.b[rest])
  expected = marginal(kept, responses[:, rest])
  np.testing.assert_allclose(info.loglik, expected, atol=2e-3)


def test_a_reversed_item_gets_no_slope():
  _, responses = simulated('2PL')
  responses[:, 0] = 1 - responses[:, 1]
  with warnings.catch_warnings(action='error'):
    bank, _ = fit_mml(responses)
  np.testing.assert_allclose(bank.a[0], 0.01, rtol=1e-3)
  p = np.asarray(models.prob(bank, np.zeros(1)))[0, 0]
  np.testing.assert_allclose(p, responses[:, 0].mean(), atol=0.01)


def test_a_prior_pulls_slopes():
  _, responses = simulated('2PL')
  plain, _ = fit_mml(responses)
  tight, _ = fit_mml(responses, model='3PL', prior_a=(0.5, 0.01))
  # The mode of the density of a log-normal number is exp(mean - variance).
  np.testing.assert_allclose(tight.a, np.exp(0.5 - 0.01**2), rtol=0.03)
  assert np.std(plain.a) > 0.1


def test_it_may_stop_early():
  info = fit_mml(LSAT6, max_iter=2)[1]
  assert info.n_iter == 2
  assert not info.converged


@pytest.mark.parametrize(
  ('args', 'settings', 'named'),
  [
    ([LSAT6], {'model': '4PL'}, "model = '4PL' is not one of 1PL, 2PL, 3PL"),
    ([LSAT6 * 2], {}, r'responses\[3, 4\] = 2: responses are 0 or 1'),
    ([LSAT6, LSAT6[:, :3]], {}, r'mask has the shape \(1000, 3\)'),
    ([LSAT6], {'num_quad': 1}, 'num_quad = 1: take at least 11'),
    ([LSAT6], {'prior_a': (0.0, 0.0)}, 'deviation must be above 0'),
    ([LSAT6, LSAT6 * np.nan], {}, 'mask has a NaN'),
    ([LSAT6[0]], {}, r'responses has the shape \(5,\)'),
    ([LSAT6, np.arange(5) % 2 * np.ones((1000, 1))], {}, 'item 0, 2, 4'),
  ],
)
def test_bad_input_is_named(args, settings, named):
  with pytest.raises(UserError, match=named) as caught:
    fit_mml(*args, **settings)
  assert '\n' not in str(caught.value)


def load(name):
  if name == 'lsat7':
    folder = GOLDEN.data_folder('lsat_patterns.csv')
    with (folder / 'lsat_patterns.csv').open() as stream:
      counts = [int(row['lsat7']) for row in csv.DictReader(stream)]
    return np.repeat(PATTERNS, counts, axis=0)
  folder = GOLDEN.data_folder(f'{name}.npz')
  with np.load(folder / f'{name}.npz') as content:
    return (content['raw'] == content['key']).astype(float)


@pytest.mark.parametrize(
  'name',
  ['lsat7', pytest.param('swesat22b_quant', marks=pytest.mark.slow)],
)
def test_beside_the_package_mirt(name):
  mirt = pytest.importorskip('mirt', reason='the package mirt is not here')
  responses = load(name)
  bank, info = fit_mml(responses)
  peer = mirt.fit_mirt(responses.astype(int), model='2PL', n_quadpts=41)
  theirs = peer.model.parameters
  assert abs(bank.a - theirs['discrimination'].ravel()).max() < 0.05
  assert abs(bank.b - theirs['difficulty'].ravel()).max() < 0.05
  # On 80 items its quadrature, which spares the middle, is two nats off.
  slack = 0.1 if name == 'lsat7' else 3
  assert abs(info.loglik - peer.log_likelihood) < slack


def test_real_test_of_eighty_items():
  """The log-likelihood by another quadrature, and no better one nearby."""
  responses = load('swesat22b_quant')
  bank, info = fit_mml(responses)
  assert info.converged
  best = marginal(bank, responses)
  np.testing.assert_allclose(info.loglik, best, atol=0.1)
  np.testing.assert_allclose(best, -231383.011, atol=0.02)
  rng = np.random.default_rng(0)
  for scale in (0.02, 0.1):
    other = bank._replace(
      a=bank.a * np.exp(scale * rng.normal(size=80)),
      b=bank.b + scale * rng.normal(size=80),
    )
    assert marginal(other, responses) < best - 1


def marginal(bank, responses):
  """Log-likelihood in float64 from 201 nodes on [-7, 7]."""
  nodes = np.linspace(-7, 7, 201)
  weight = -(nodes**2) / 2
  weight -= np.log(np.exp(weight).sum())
  a, b = np.asarray(bank.a, float), np.asarray(bank.b, float)
  z = a * (nodes[:, None] - b)
  joint = weight - responses @ np.log1p(np.exp(-z)).T
  joint -= (1 - responses) @ np.log1p(np.exp(z)).T
  top = joint.max(1)
  return (top + np.log(np.exp(joint - top[:, None]).sum(1))).sum()
