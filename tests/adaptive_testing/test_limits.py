"""Tests that end early, and areas of content."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.adaptive_testing import (
  content,
  stopping,
)
from jaxlab.errors import UserError
from tests.adaptive_testing import reference
from tests.adaptive_testing.small import (
  A,
  B,
  C,
  E,
  N,
  T,
  Y,
  play,
)


def test_a_test_without_items_ends_where_nothing_could_be_checked(bank):
  few = np.zeros((E, N))
  few[:, [2, 5, 6]] = 1
  few[3, [5, 6]] = 0
  few[4] = 0
  found = jax.jit(lambda few: play(bank, responses=Y, available=few))(few)
  lengths = np.full(E, 3)
  lengths[[3, 4]] = [1, 0]
  np.testing.assert_array_equal(found.lengths, lengths)
  assert np.all(np.asarray(found.items[3:]) == -1)
  assert found.items[:, 3].tolist() == [2, -1, -1, -1, -1, -1]
  np.testing.assert_array_equal(found.theta[5], found.theta[2])
  np.testing.assert_array_equal(found.theta[:, 4], np.zeros(T))
  np.testing.assert_allclose(found.se[:, 4], np.ones(T), rtol=1e-4)
  np.testing.assert_array_equal(found.asked.sum(1), lengths)
  assert np.all(np.asarray(found.asked) <= (few > 0))


def test_a_stopped_test_is_frozen(bank, trace):
  limit = float(np.median(trace.se[3]))
  stop = stopping.AnyOf(
    (stopping.StandardError(limit), stopping.FixedLength(T - 1))
  )
  found = play(bank, stop=stop)
  se = np.asarray(trace.se)
  lengths = np.minimum(np.argmax(se <= limit, axis=0) + 1, T - 1)
  lengths[np.all(se > limit, axis=0)] = T - 1
  np.testing.assert_array_equal(found.lengths, lengths)
  assert len(set(lengths.tolist())) > 2
  turn = np.arange(T)[:, None]
  on = turn < lengths
  np.testing.assert_array_equal(found.items, np.where(on, trace.items, -1))
  last = np.minimum(turn, lengths - 1)
  for part in ('theta', 'se'):
    wanted = np.take_along_axis(np.asarray(getattr(trace, part)), last, 0)
    np.testing.assert_allclose(getattr(found, part), wanted, atol=1e-5)


def test_least_length_comes_before_precision():
  stop = stopping.StandardError(0.5, min_length=3)
  se = jnp.asarray([0.4, 0.4, 0.6])
  found = [stop(jnp.full(3, t), se).tolist() for t in (2, 3)]
  assert found == [[False] * 3, [True, True, False]]
  wide = jnp.asarray([[0.1, 0.6], [0.1, 0.5]])
  assert stop(jnp.full(2, 3), wide).tolist() == [False, True]


def test_content_areas_get_their_shares(bank):
  areas = np.arange(N) % 3
  balance = content.content_balance(areas, [6, 4, 2])
  found = play(bank, responses=Y, available=None, content=balance)
  own = areas[np.asarray(found.items)]
  counts = [(own == area).sum(0) for area in range(3)]
  np.testing.assert_array_equal(counts, np.full((3, E), 1) * [[3], [2], [1]])
  # In each area the most informative items come first.
  first = np.argmax(np.where(areas == 0, reference.information(A, B, C, 0), -1))
  assert np.all(np.asarray(found.items[0]) == first)


def test_an_empty_area_does_not_end_a_test(bank):
  areas = np.where(np.arange(N) < 2, 0, 2)
  balance = content.content_balance(areas, [0.8, 0.1, 0.1])
  found = play(bank, responses=Y, available=None, content=balance)
  own = areas[np.asarray(found.items)]
  np.testing.assert_array_equal((own == 0).sum(0), np.full(E, 2))
  np.testing.assert_array_equal(found.lengths, np.full(E, T))


@pytest.mark.parametrize(
  ('areas', 'shares', 'words'),
  [
    ([0, 1, 2], [1, 1], r'areas\[2\] = 2'),
    ([0.5, 1], [1, 1], 'one integer'),
    ([0, 1], [0, 0], 'not all 0'),
    ([0, 1], [-1, 2], '>= 0'),
  ],
)
def test_bad_areas(areas, shares, words):
  with pytest.raises(UserError, match=words):
    content.content_balance(areas, shares)
