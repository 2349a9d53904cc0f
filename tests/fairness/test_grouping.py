"""Rows of scores to atoms and masses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.errors import UserError
from jaxlab.fairness import check_groups, make_groups


def test_merges_sorts_and_pads(x64):
  gs = make_groups(
    [0.3, 0.8, 0.3, 0.8, 0.5, 0.9, 0.1],
    [0, 0, 0, 0, 1, 0, 1],
    [1, 2, 1, 0, 1, 0, 3],
    max_atoms=4,
  )
  np.testing.assert_array_equal(
    gs.scores, [[0.8, 0.3, 0.3, 0.3], [0.5, 0.1, 0.1, 0.1]]
  )
  np.testing.assert_array_equal(gs.mass, [[0.5, 0.5, 0, 0], [0.25, 0.75, 0, 0]])
  np.testing.assert_array_equal(gs.weight, [0.5, 0.5])
  np.testing.assert_array_equal(gs.n_atoms, [2, 2])
  assert gs.scores.dtype == jnp.float64


def test_float32_merges_what_float32_cannot_tell_apart():
  gs = make_groups([0.3, 0.3 + 1e-12, 0.6], [0, 0, 0])
  assert gs.scores.dtype == jnp.float32
  assert int(gs.n_atoms[0]) == 2
  with jax.enable_x64(True):
    assert int(make_groups([0.3, 0.3 + 1e-12], [0, 0]).n_atoms[0]) == 2


def test_counts_against_unique(x64):
  rng = np.random.default_rng(0)
  scores, groups = rng.integers(0, 9, 500) / 8, rng.integers(0, 3, 500)
  gs = make_groups(scores, groups)
  for k in range(3):
    value, count = np.unique(scores[groups == k], return_counts=True)
    n = int(gs.n_atoms[k])
    np.testing.assert_array_equal(gs.scores[k, :n], value[::-1])
    np.testing.assert_allclose(gs.mass[k, :n], count[::-1] / count.sum())


@pytest.mark.parametrize(
  ('change', 'words'),
  [
    ({'scores': [0.1, np.nan, 0.2]}, ['scores', 'nan', 'row 1']),
    ({'scores': [0.1, -0.5, 0.2]}, ['scores', '-0.5']),
    ({'scores': []}, ['scores', 'at least one']),
    ({'groups': [0, 1]}, ['groups', '(2,)', '(3,)']),
    ({'groups': [0, 2, 2]}, ['group 1', 'no rows']),
    ({'groups': [0, -1, 1]}, ['groups', '-1']),
    ({'groups': [0, 0.5, 1]}, ['groups', 'integers']),
    ({'groups': ['a', 'b', 'a']}, ['groups', "'a'"]),
    ({'num_groups': 0}, ['num_groups', '0']),
    ({'num_groups': 1}, ['groups', '0..0', 'row 1']),
    ({'num_groups': 3}, ['group 2', 'no rows']),
    ({'sample_weight': [1, 0, 1]}, ['group 1', 'no rows']),
    ({'sample_weight': [0, 0, 0]}, ['sample_weight', '0']),
    ({'sample_weight': [1, np.inf, 1]}, ['sample_weight', 'inf']),
    ({'max_atoms': 1}, ['group 0', 'max_atoms=1']),
    ({'max_atoms': 2.5}, ['max_atoms', 'integer', '2.5']),
    ({'num_groups': '2'}, ['num_groups', 'integer', "'2'"]),
    ({'num_groups': 10**9}, ['group 2', 'no rows']),
    ({'groups': [0, 10**9, 1]}, ['group 2', 'no rows']),
    ({'scores': ['0.1', '0.4', '0.2']}, ['scores', 'numbers', "'0.1'"]),
    ({'scores': [0.1, None, 0.2]}, ['scores', 'numbers', 'None']),
    ({'scores': [0.1, 0.4j, 0.2]}, ['scores', 'numbers', 'complex']),
    ({'scores': [[0.1], [0.4, 0.2]]}, ['scores', 'lengths']),
    ({'groups': np.array([0, 'b', 0], object)}, ['groups', "'b'"]),
    ({'groups': [0, np.nan, 0]}, ['groups', 'nan', 'row 1']),
    ({'sample_weight': list('121')}, ['sample_weight', 'numbers', "'1'"]),
  ],
)
def test_names_what_is_wrong(change, words):
  rows = {'scores': [0.1, 0.4, 0.2], 'groups': [0, 1, 0]}
  with pytest.raises(UserError) as error:
    make_groups(**(rows | change))
  assert '\n' not in str(error.value)
  for word in words:
    assert word in str(error.value)


def test_takes_objects_that_are_numbers_and_huge_weights(x64):
  rows = np.array([1, 0, 1], object)
  gs = make_groups(np.array([0, 1, 0.5], object), rows, [1e308] * 3)
  np.testing.assert_array_equal(gs.scores, [[1, 1], [0.5, 0]])
  np.testing.assert_array_equal(gs.mass, [[1, 0], [0.5, 0.5]])
  np.testing.assert_allclose(gs.weight, [1 / 3, 2 / 3])


@pytest.mark.parametrize(
  ('change', 'words'),
  [
    ({'scores': [[0.2, 0.7], [0.5, 0.1]]}, 'scores that fall'),
    ({'scores': [[1.2, 0.7], [0.5, 0.1]]}, 'scores in'),
    ({'mass': [[0.5, 0.4], [0.5, 0.5]]}, 'masses that sum to 1'),
    ({'n_atoms': [2, 1]}, 'no mass from n_atoms on'),
    ({'weight': [0.5, 0.6]}, 'weights that sum to 1'),
  ],
)
def test_groups_by_hand_are_checked(change, words):
  gs = make_groups([0.7, 0.2, 0.5, 0.1], [0, 0, 1, 1])
  assert check_groups(gs) is gs
  with pytest.raises(UserError, match=words):
    check_groups(gs._replace(**{k: jnp.array(v) for k, v in change.items()}))
