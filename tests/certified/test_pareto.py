"""Fronts against enumeration, definitions and other libraries."""

import sys

import numpy as np
import pytest

from jaxlab.certified import pareto
from jaxlab.errors import UserError

pytest.importorskip('moocore')


@pytest.fixture(scope='module')
def points():
  # Rounded, so that some coincide.
  return np.random.default_rng(0).uniform(size=(60, 2)).round(1)


def _dominates(a, b):
  return np.all(a >= b) and np.any(a > b)


def test_front_is_what_nobody_dominates(points):
  found = pareto.front(points)
  want = {tuple(p) for p in points if not any(_dominates(q, p) for q in points)}
  assert {tuple(p) for p in found} == want
  assert len(found) == len(want)
  assert np.all(np.diff(found[:, 0]) > 0)


def test_front_does_not_depend_on_the_order(points):
  shuffled = np.random.default_rng(1).permutation(points)
  np.testing.assert_array_equal(pareto.front(shuffled), pareto.front(points))


def test_hypervolume_counts_cells(points):
  # On a grid of tenths the dominated area is a number of cells.
  corners = (np.arange(10)[:, None] + 1) / 10
  dominated = (points[:, 0] >= corners - 1e-9)[:, None] & (
    points[:, 1] >= corners - 1e-9
  )
  want = dominated.any(axis=-1).sum() / 100
  found = pareto.hypervolume(points, (0, 0))
  np.testing.assert_allclose(found, want, atol=1e-12)


def test_hypervolume_agrees_with_optuna(points):
  optuna = pytest.importorskip('optuna._hypervolume')
  corner = np.array([0.15, 0.25])
  want = optuna.compute_hypervolume(-np.maximum(points, corner), -corner)
  found = pareto.hypervolume(points, corner)
  np.testing.assert_allclose(found, want, atol=1e-12)


def test_points_below_the_reference_add_nothing():
  assert pareto.hypervolume([[0.2, 0.9], [0.9, 0.2]], (0.3, 0.3)) == 0
  assert pareto.hypervolume(np.empty((0, 2)), (0, 0)) == 0
  value = pareto.hypervolume([[0.5, 0.5], [0.2, 0.9]], (0.3, 0.3))
  np.testing.assert_allclose(value, 0.04)


def test_attainment_by_hand():
  runs = [[[0.2, 0.8], [0.6, 0.4]], [[0.5, 0.5]], [[0.3, 0.7], [0.7, 0.1]]]
  found = pareto.attainment(runs, (1, 50, 100))
  np.testing.assert_allclose(
    found[1],
    [[0.2, 0.8], [0.3, 0.7], [0.5, 0.5], [0.6, 0.4], [0.7, 0.1]],
  )
  # Two of three runs reach each corner, and no corner beyond.
  np.testing.assert_allclose(
    found[50], [[0.2, 0.7], [0.3, 0.5], [0.5, 0.4], [0.6, 0.1]]
  )
  np.testing.assert_allclose(found[100], [[0.2, 0.5], [0.3, 0.4], [0.5, 0.1]])


def test_attainment_of_equal_runs_is_their_front(points):
  found = pareto.attainment([points] * 3, (5, 50, 100))
  for surface in found.values():
    np.testing.assert_array_equal(surface, pareto.front(points))


def test_epsilon_is_the_least_shift(points):
  first, second = points[:20], points[20:40]
  want = max(
    min(np.max(target - point) for point in first) for target in second
  )
  np.testing.assert_allclose(pareto.epsilon_indicator(first, second), want)
  assert pareto.epsilon_indicator(points, second) <= 0


def test_complementarity_counts_a_shared_point_for_both():
  methods = {
    'a': [[0.8, 0.2], [0.5, 0.5]],
    'b': [[0.5, 0.5]],
    'c': [[0.1, 0.1]],
    'd': np.empty((0, 2)),
  }
  found = pareto.complementarity(methods, (0, 0))
  np.testing.assert_allclose(found.joint_hypervolume, 0.16 + 0.15)
  want = {'a': 0.06, 'b': 0, 'c': 0, 'd': 0}
  for name, value in want.items():
    np.testing.assert_allclose(found.contribution[name], value, atol=1e-12)
  assert found.share_of_front == {'a': 1.0, 'b': 0.5, 'c': 0.0, 'd': 0.0}


def test_bad_input(monkeypatch, points):
  with pytest.raises(UserError, match='shape'):
    pareto.front([0.1, 0.2])
  with pytest.raises(UserError, match='finite'):
    pareto.hypervolume([[0.1, np.nan]], (0, 0))
  with pytest.raises(UserError, match='reference'):
    pareto.hypervolume(points, (0, 0, 0))
  with pytest.raises(UserError, match='level'):
    pareto.attainment([points], (0,))
  with pytest.raises(UserError, match='at least one'):
    pareto.attainment([points, np.empty((0, 2))])
  with pytest.raises(UserError, match='empty'):
    pareto.epsilon_indicator(points, np.empty((0, 2)))
  with pytest.raises(UserError, match='at least one'):
    pareto.complementarity({'a': np.empty((0, 2))}, (0, 0))
  monkeypatch.setitem(sys.modules, 'moocore', None)
  with pytest.raises(UserError, match=r"pip install 'jaxlab\[pareto\]'"):
    pareto.front(points)
