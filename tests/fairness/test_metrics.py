"""Rates of rules against counts by hand and scikit-learn."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

from jaxlab.errors import UserError
from jaxlab.fairness import metrics
from jaxlab.fairness.types import INFEASIBLE, GroupScores

RATES = ('ppv', 'for_', 'tpr', 'fpr', 'selection_rate')


def rows(seed=0, n=400, num_groups=3):
  rng = np.random.default_rng(seed)
  return (
    rng.integers(0, 2, n),
    rng.integers(0, 2, n),
    rng.integers(0, num_groups, n),
    rng.integers(0, 4, n).astype(float),
  )


def two_groups():
  return GroupScores(
    jnp.array([[0.8, 0.25, 0.25], [0.85, 0.4, 0.1]]),
    jnp.array([[0.5, 0.5, 0.0], [0.3, 0.4, 0.3]]),
    jnp.array([0.5, 0.5]),
    jnp.array([2, 3]),
  )


class GroupMetricsTest(chex.TestCase):
  @chex.all_variants(with_pmap=False)
  def test_weighted_counts(self):
    y, r, group, w = rows()
    found = self.variant(
      lambda *args: metrics.group_metrics(*args[:3], 3, args[3])
    )(y, r, group, w)
    for k in range(3):
      here = group == k
      tn, fp, fn, tp = confusion_matrix(
        y[here], r[here], sample_weight=w[here]
      ).ravel()
      expected = {
        'ppv': tp / (tp + fp),
        'for_': fn / (fn + tn),
        'tpr': tp / (tp + fn),
        'fpr': fp / (fp + tn),
        'selection_rate': (tp + fp) / (tp + fp + fn + tn),
        'n': w[here].sum(),
      }
      for name, value in expected.items():
        np.testing.assert_allclose(
          getattr(found, name)[k], value, rtol=1e-6, err_msg=name
        )


def test_undefined_rates_are_nan_with_their_counts():
  found = metrics.group_metrics([1, 0, 1], [1, 1, 0], [0, 0, 1], 3)
  np.testing.assert_array_equal(found.n, [2, 1, 0])
  np.testing.assert_array_equal(found.ppv, [0.5, np.nan, np.nan])
  np.testing.assert_array_equal(found.for_, [np.nan, 1, np.nan])
  np.testing.assert_array_equal(found.tpr, [1, 0, np.nan])
  np.testing.assert_array_equal(found.fpr, [1, np.nan, np.nan])


def test_probabilities_count_as_expected_decisions():
  y, _, group, w = rows(1)
  chance = np.random.default_rng(2).random(len(y))
  found = metrics.group_metrics(y, chance, group, 3, w)
  # Each row as two rows: a positive and a negative decision.
  twice = [np.tile(x, 2) for x in (y, group)]
  decisions = np.repeat([1, 0], len(y))
  split = np.concatenate([w * chance, w * (1 - chance)])
  expected = metrics.group_metrics(twice[0], decisions, twice[1], 3, split)
  for name in RATES:
    np.testing.assert_allclose(
      getattr(found, name), getattr(expected, name), rtol=1e-5
    )


@pytest.mark.parametrize(
  ('change', 'words'),
  [
    ({'y': [0, 1]}, r'\(2,\), \(3,\)'),
    ({'y': [0, 2, 1]}, 'y must be 0 or 1, got 2 in row 1'),
    ({'r_prob': [0, 1, 2]}, r'r_prob must be in \[0, 1\], got 2 in row 2'),
    ({'groups': [0, -1, 0]}, 'groups must be at least 0, got -1 in row 1'),
    ({'groups': [0, 0.5, 0]}, 'groups must be integers .* got 0.5'),
    ({'weight': [1, -1, 1]}, 'weight must be .* got -1 in row 1'),
    ({'num_groups': 0}, 'num_groups must be at least 1, got 0'),
  ],
)
def test_bad_rows_are_named(change, words):
  rows = {'y': [0, 1, 1], 'r_prob': [0, 1, 1], 'groups': [0, 0, 0]}
  with pytest.raises(UserError, match=words):
    metrics.group_metrics(**({'num_groups': 1} | rows | change))


def test_rule_metrics_integrate_the_atoms():
  with jax.enable_x64(True):
    gs = two_groups()
    rho = jnp.array([[1.0, 0.5, 0.3], [1.0, 0.25, 0.0]])
    found = metrics.rule_metrics(gs, rho)
    # By hand: accepted .5 + .25 with .4 + .0625 positive; .3 + .1 with .295.
    np.testing.assert_allclose(found.selection_rate, [0.75, 0.4], rtol=1e-14)
    np.testing.assert_allclose(found.ppv, [0.4625 / 0.75, 0.295 / 0.4])
    np.testing.assert_allclose(found.for_, [0.25, 0.15 / 0.6])
    np.testing.assert_allclose(found.tpr, [0.4625 / 0.525, 0.295 / 0.445])
    np.testing.assert_allclose(found.fpr, [0.2875 / 0.475, 0.105 / 0.555])
    # The same as weighted rows of both labels.
    s, w = gs.scores, gs.mass * gs.weight[:, None]
    weight = jnp.stack([w * (1 - s), w * s]).ravel()
    labels = jnp.repeat(jnp.arange(2), s.size)
    groups = jnp.tile(jnp.repeat(jnp.arange(2), 3), 2)
    counted = metrics.group_metrics(
      labels, jnp.tile(rho.ravel(), 2), groups, 2, weight
    )
    for name in (*RATES, 'n'):
      np.testing.assert_allclose(
        getattr(found, name), getattr(counted, name), rtol=1e-13
      )


def test_solution_of_a_rule():
  with jax.enable_x64(True):
    gs = two_groups()
    rho = jnp.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    solution = metrics.rule_solution(gs, rho, 1.0, 2.0)
    # False positives .1 and .045, false negatives .125 and .19 by group.
    assert float(solution.loss) == pytest.approx(0.0725 + 2 * 0.1575, abs=1e-14)
    assert float(solution.tpr_gap) == pytest.approx(
      0.4 / 0.525 - 0.255 / 0.445, abs=1e-14
    )
    assert float(solution.fpr_gap) == pytest.approx(
      0.1 / 0.475 - 0.045 / 0.555, abs=1e-14
    )
    assert not solution.degenerate and int(solution.active_group) == -1
    everybody = metrics.rule_solution(gs, jnp.ones((2, 3)))
    assert everybody.degenerate and np.isnan(everybody.for_).all()
    refused = metrics.rule_solution(gs, rho, feasible=False)
    assert int(refused.status) == INFEASIBLE and not refused.degenerate
    assert np.isnan(refused.rho).all() and np.isnan(refused.loss)


def test_batches_of_instances():
  gs = jax.tree.map(lambda x: jnp.stack([x, x]), two_groups())
  rho = jnp.stack([jnp.ones((2, 3)), jnp.full((2, 3), 0.5)])
  known = jnp.array([True, False])

  def solve(gs, rho, known):
    return metrics.rule_solution(gs, rho, feasible=known)

  batched = jax.jit(solve)(gs, rho, known)
  mapped = jax.jit(jax.vmap(solve))(gs, rho, known)
  chex.assert_trees_all_close(batched, mapped)


def test_largest_gap_leaves_out_undefined_rates():
  gaps = metrics.largest_gap(
    [[0.2, np.nan, 0.5], [np.nan] * 3, [0.1, 0.1, 0.1]]
  )
  np.testing.assert_allclose(gaps, [0.3, np.nan, 0.0], rtol=1e-6)
