"""Branch and bound decides, and agrees with exact minima."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.certified import bounds, branch_and_bound, leaf
from jaxlab.certified.beta_crown import bound, pose
from jaxlab.certified.branch_and_bound import Limits, minimum_margin, verify
from jaxlab.certified.domains import enlarge, insert, pop, vacant
from jaxlab.errors import UserError
from tests.certified import nets

_WIDTHS = (4, 8, 8, 3)
_LIMITS = Limits(batch=8, nodes=4000)


def _problem(seed, eps=0.25):
  params = nets.dense_params(seed, _WIDTHS, scale=1.5)
  x = np.random.default_rng(seed).random(4).astype('float32')
  label = int(np.argmax(nets.dense_net(params, x[None])))
  return nets.dense_net, params, x, label, eps


@pytest.fixture(scope='module')
def solved():
  """Problems with their exact margins by MILP; some robust, some not."""
  return [
    (_problem(seed, eps), verify(*_problem(seed, eps), milp=True))
    for seed in range(8)
    for eps in (0.08, 0.25)
  ]


def test_the_problems_are_of_both_kinds(solved):
  status = [exact.status for _, exact in solved]
  assert status.count('verified') >= 3 and status.count('falsified') >= 3


@pytest.mark.parametrize('batch', [1, 8])
def test_verdicts_agree_with_milp(solved, batch):
  for problem, exact in solved:
    found = verify(*problem, limits=Limits(batch=batch, nodes=4000))
    assert found.status == exact.status
    assert np.all(found.lower <= exact.lower + 1e-5)
    assert np.all(found.upper >= exact.lower - 1e-5)


def test_counterexamples_are_in_the_ball_and_misclassified(solved):
  for problem, _ in solved:
    net, params, x, label, eps = problem
    found = verify(*problem, limits=_LIMITS)
    assert (found.counterexample is None) == (found.status != 'falsified')
    if found.counterexample is not None:
      point = found.counterexample
      assert np.all(np.abs(point - x) <= eps + 1e-6)
      assert np.all((point >= 0) & (point <= 1))
      logits = net(params, point[None])[0]
      assert logits[label] <= np.max(np.delete(logits, label)) + 1e-6


def test_minimum_margins_are_exact(solved):
  nodes = 0
  for problem, exact in solved:
    found = minimum_margin(*problem, tol=1e-4, limits=_LIMITS)
    np.testing.assert_allclose(found.lower, exact.lower, atol=1.1e-4)
    np.testing.assert_allclose(found.upper, exact.lower, atol=1.1e-4)
    assert np.all(found.upper - found.lower <= 1e-4 + 1e-6)
    assert np.all(found.lower <= exact.lower + 1e-5)
    nodes += found.nodes
  assert nodes > 200


def test_verified_balls_resist_random_corners(solved):
  checked = 0
  for problem, _ in solved:
    net, params, x, label, eps = problem
    found = verify(*problem, limits=_LIMITS)
    if found.status == 'verified':
      checked += 1
      box = bounds.input_box(x[None], eps)
      C = np.asarray(bounds.margin_matrix(label, 3))
      sampled = nets.sampled_minimum(net, params, box, C)
      assert np.all(sampled > 0) and np.all(found.lower <= sampled)
  assert checked >= 3


def test_limits_answer_unknown(solved):
  asked = []
  hard = max(
    (problem for problem, exact in solved if exact.status == 'verified'),
    key=lambda problem: minimum_margin(*problem, limits=_LIMITS).nodes,
  )

  def stop():
    asked.append(True)
    return True

  few = minimum_margin(*hard, limits=Limits(batch=8, nodes=1))
  stopped = minimum_margin(*hard, limits=Limits(batch=8, should_stop=stop))
  assert few.nodes == stopped.nodes == 2 and len(asked) == 1
  assert np.all(few.lower <= few.upper)
  assert np.max(few.upper - few.lower) > 1e-3


def test_the_frontier_grows_and_says_when_it_may_not(solved, monkeypatch):
  monkeypatch.setattr(branch_and_bound, '_FIRST_PLACES', 1)
  many = max(
    (problem for problem, _ in solved),
    key=lambda problem: minimum_margin(*problem, limits=_LIMITS).nodes,
  )
  grown = minimum_margin(*many, limits=Limits(batch=1))
  narrow = minimum_margin(*many, limits=Limits(batch=1, places=1))
  assert narrow.nodes < grown.nodes
  assert np.all(narrow.lower <= grown.lower + 1e-5)
  assert np.max(grown.upper - grown.lower) <= 1.1e-4
  assert np.max(narrow.upper - narrow.lower) > 1e-4


def test_convolutions_with_max_pooling():
  net, params = nets.pooled_conv, nets.pooled_conv_params(0)
  x = jax.random.uniform(jax.random.key(4), (4, 4, 1))
  label = int(jnp.argmax(net(params, x[None])))
  for eps in (0.05, 0.1):
    exact = verify(net, params, x, label, eps, milp=True)
    found = minimum_margin(net, params, x, label, eps, limits=_LIMITS, tol=1e-3)
    np.testing.assert_allclose(found.lower, exact.lower, atol=1.1e-3)
    np.testing.assert_allclose(found.upper, exact.lower, atol=1.1e-3)


def test_box_in_place_of_a_radius():
  net, params, x, label, _ = _problem(0)
  box = bounds.Interval(jnp.zeros(4), jnp.ones(4))
  whole = minimum_margin(net, params, x, label, box, limits=_LIMITS)
  ball = minimum_margin(net, params, x, label, 1.0, limits=_LIMITS)
  np.testing.assert_allclose(whole.lower, ball.lower, atol=2e-4)


def test_children_are_bounded_soundly_and_leaves_are_exact():
  """Both signs of the first neuron; the lower of both exact parts is exact."""
  net, params, x, label, eps = _problem(1)
  box = bounds.input_box(x[None], eps)
  C = bounds.margin_matrix(label, 3)
  problem, roots = pose(net, params, box, C)
  settings = {'steps': 10, 'learning_rate': 0.1, 'decay': 0.95}
  roots, _ = bound(net, problem, enlarge(roots, 16), **settings)
  _, children = pop(roots, jnp.zeros(2), batch=8)
  split, _ = bound(net, problem, children, **settings)
  live = np.flatnonzero(split.lower < np.inf)
  assert len(live) == 4 and np.all(np.abs(split.signs[live]).sum(1) == 1)
  rng = np.random.default_rng(0)
  points = np.asarray(box.lower + rng.random((4000, 4)) * (box[1] - box[0]))
  z1 = points @ params[0][0] + params[0][1]
  z2 = np.maximum(z1, 0) @ params[1][0] + params[1][1]
  z = np.concatenate([z1, z2], axis=1)
  margins = net(params, points) @ C.T
  for lane in live:
    row = split.row[lane]
    inside = np.all(z * np.asarray(split.signs[lane]) >= 0, axis=1)
    sampled = np.min(margins[inside, row], initial=np.inf)
    assert roots.lower[row] <= split.lower[lane] <= sampled + 1e-5
  pattern = np.where(z[0] > 0, 1, -1).astype('int8')
  minimum, point = leaf.solve(net, problem, 0, pattern)
  assert minimum <= margins[0, 0] + 1e-5
  attained = net(params, point[None].astype('float32')) @ C[0]
  np.testing.assert_allclose(minimum, attained[0], atol=1e-4)


def test_domains_come_back_worst_first():
  domains = vacant(8, 3, jnp.float32)
  more = vacant(4, 3, jnp.float32)._replace(
    lower=jnp.array([0.5, -2.0, jnp.inf, -1.0]),
    row=jnp.array([0, 1, 0, 2]),
    branch=jnp.array([0, 1, 0, 2]),
  )
  domains = insert(insert(domains, more), more)
  assert int(jnp.sum(domains.lower < jnp.inf)) == 6
  rest, children = pop(enlarge(domains, 16), jnp.zeros(3), batch=4)
  np.testing.assert_array_equal(children.lower, np.tile([-2, -2, -1, -1], 2))
  np.testing.assert_array_equal(children.row, np.tile([1, 1, 2, 2], 2))
  np.testing.assert_array_equal(children.signs[0], [0, 1, 0])
  np.testing.assert_array_equal(children.signs[4], [0, -1, 0])
  assert sorted(rest.lower)[:3] == [0.5, 0.5, np.inf]
  _, children = pop(domains, jnp.array([9.0, 0, 0]), batch=2)
  np.testing.assert_array_equal(children.row, [0, 0, 0, 0])


def test_refusals():
  net, params, x, label, eps = _problem(0)
  with pytest.raises(UserError, match='label 3'):
    verify(net, params, x, 3, eps)
  with pytest.raises(UserError, match='eps is -1'):
    verify(net, params, x, label, -1.0)
  with pytest.raises(UserError, match='batch is 0'):
    verify(net, params, x, label, eps, limits=Limits(batch=0))
  with pytest.raises(UserError, match='tol is 0'):
    minimum_margin(net, params, x, label, eps, tol=0.0)
  params[0][0][0, 0] = np.nan
  with pytest.raises(UserError, match='NaN'):
    verify(net, params, x, label, eps, limits=_LIMITS)
