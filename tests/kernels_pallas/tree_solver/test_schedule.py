"""Schedules against exhaustive search, the lower bound and known trees."""

import functools
import itertools
import time

import numpy as np
import pytest

from kernels_pallas.tree_solver import schedule as scheduling
from kernels_pallas.tree_solver.schedule import (
  ScheduleError,
  TreeSchedule,
  best_k,
  make_schedule,
  schedule_stats,
  steps_lower_bound,
)

SERIAL_KINDS = ('hines', 'level', 'dhs')


def trees(n):
  """All parents of n nodes with one root."""
  return itertools.product((-1,), *(range(i) for i in range(1, n)))


def random_tree(n, seed=0, reach=None):
  rng = np.random.default_rng(seed)
  low = [0 if reach is None else max(0, i - reach) for i in range(n)]
  return np.array([-1, *(rng.integers(low[i], i) for i in range(1, n))])


def caterpillar(length, legs):
  """A spine of which each node carries `legs` leaves."""
  spine = [-1, *range(length - 1)]
  return spine + [node for node in range(length) for _ in range(legs)]


def fewest_steps(parent, k):
  """Shortest order of all, by search over the sets of done nodes."""
  n = len(parent)
  children = [0] * n
  for node, p in enumerate(parent):
    if p >= 0:
      children[p] |= 1 << node

  @functools.cache
  def remaining(done):
    if done == (1 << n) - 1:
      return 0
    ready = [
      i for i in range(n) if not done >> i & 1 and children[i] & ~done == 0
    ]
    # A step with an idle thread can take another ready node at no loss.
    return 1 + min(
      remaining(done | sum(1 << i for i in step))
      for step in itertools.combinations(ready, min(k, len(ready)))
    )

  return remaining(0)


def assert_valid(schedule):
  """Every node once, at most k in a step, children in earlier steps."""
  step_of = {}
  for number, step in enumerate(schedule.order):
    assert 1 <= len(step) <= schedule.k
    for node in step:
      assert node not in step_of
      step_of[node] = number
  assert sorted(step_of) == list(range(schedule.n))
  for node, p in enumerate(schedule.parent):
    assert p < 0 or step_of[node] < step_of[p]


@pytest.mark.parametrize(
  'n', [*range(1, 9), pytest.param(9, marks=pytest.mark.slow)]
)
def test_dhs_needs_the_fewest_steps_for_all_trees(n):
  for parent in trees(n):
    for k in (1, 2, 3):
      schedule = make_schedule(parent, 'dhs', k)
      assert_valid(schedule)
      steps = len(schedule.order)
      assert steps == fewest_steps(parent, k) == steps_lower_bound(parent, k)


def test_dhs_needs_the_fewest_steps_for_sampled_trees():
  for seed in range(50):
    parent = random_tree(9, seed).tolist()
    for k in (2, 3):
      steps = len(make_schedule(parent, 'dhs', k).order)
      assert steps == fewest_steps(parent, k)


@pytest.mark.parametrize('k', [1, 2, 3, 5, 16])
def test_steps_equal_the_bound_on_large_trees_and_forests(k):
  for seed, reach in itertools.product(range(3), (None, 4, 40)):
    parent = random_tree(300, seed, reach)
    parent[[100, 200]] = -1
    schedule = make_schedule(parent, 'dhs', k)
    assert_valid(schedule)
    assert len(schedule.order) == steps_lower_bound(parent, k)


def test_bound_by_its_formula():
  parent = caterpillar(6, 3)
  depth = [0, 1, 2, 3, 4, 5, *(d + 1 for d in range(6) for _ in range(3))]
  for k in (1, 2, 3, 7):
    by_hand = max(
      L + -(-sum(d >= L for d in depth) // k) for L in range(max(depth) + 1)
    )
    assert steps_lower_bound(parent, k) == by_hand
  assert steps_lower_bound(parent, 1000) == 7
  assert steps_lower_bound(parent, 1) == len(parent)


@pytest.mark.parametrize('k', [2, 3, 4])
def test_caterpillars_tell_dhs_from_level_order(k):
  """Leaves of the spine's top can fill the idle threads of its bottom."""
  parent = caterpillar(12, k)
  levels = make_schedule(parent, 'level').order
  cut = sum(-(-len(level) // k) for level in levels)
  steps = len(make_schedule(parent, 'dhs', k).order)
  assert steps == steps_lower_bound(parent, k) < cut


def test_the_deepest_candidates_go_first():
  parent = [-1, 0, 0, 0, 0, 1, 5, 6]  # leaves 2, 3, 4 and, at depth 4, 7
  order = make_schedule(parent, 'dhs', 1).order
  assert order[:4] == ((7,), (6,), (5,), (1,))
  assert make_schedule(parent, 'dhs', 2).order[0] == (7, 2)


def test_published_tree_of_fifteen_nodes():
  """Zhang et al. 2023, figure 2: 14 steps become 5 with four threads."""
  parent = [-1, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10]
  assert len(make_schedule(parent, 'hines').order) - 1 == 14
  assert len(make_schedule(parent, 'dhs', 4).order) - 1 == 5


def test_simple_kinds():
  parent = [-1, 0, 0, 1, 1]
  assert make_schedule(parent, 'hines').order == ((4,), (3,), (2,), (1,), (0,))
  level = make_schedule(parent, 'level')
  assert level.order == ((3, 4), (1, 2), (0,)) and level.k == 2
  for kind in SERIAL_KINDS:
    assert_valid(make_schedule(random_tree(50), kind, 3))


def test_auto_takes_no_more_threads_than_pay():
  assert make_schedule(range(-1, 29)).kind == 'hines'
  bush = make_schedule(caterpillar(10, 6))
  assert bush.kind == 'dhs' and bush.k == 8
  assert make_schedule([-1] + [0] * 999).k == 16
  assert make_schedule(caterpillar(10, 6), k=2).k == 2


def test_best_k_is_the_smallest_within_a_tenth():
  parent = random_tree(400, 1, reach=20)
  k = best_k(parent)
  goal = 1.1 * steps_lower_bound(parent, 400)
  assert steps_lower_bound(parent, k) <= goal
  assert steps_lower_bound(parent, k - 1) > goal


@pytest.mark.parametrize('kind', ['hines', 'level', 'dhs', 'contract'])
def test_lanes_and_tables_hold_every_node_once(kind):
  parent = random_tree(80, 3, reach=6)
  parent[40] = -1
  schedule = make_schedule(parent, kind, 8)
  tables = schedule.tables
  n, (steps, width) = schedule.n, tables.nodes.shape
  assert width & (width - 1) == 0
  real = tables.nodes[tables.nodes < n]
  np.testing.assert_array_equal(np.sort(real), np.arange(n))
  assert sorted(schedule.permutation) == list(range(n))
  pulled = {}
  for s in range(steps):
    for row in tables.children[tables.first[s] : tables.first[s + 1]]:
      for lane in np.flatnonzero(row < n):
        pulled[int(row[lane])] = int(tables.nodes[s, lane])
  assert pulled == {i: p for i, p in enumerate(schedule.parent) if p >= 0}
  above = np.where(np.array(schedule.parent) < 0, n, schedule.parent)
  filled = tables.nodes < n
  assert (tables.parents[filled] == above[tables.nodes[filled]]).all()
  assert (tables.parents[~filled] == n).all()


def test_a_chain_keeps_its_lane_and_steps_lie_together():
  arms = [-1, 0, 0, 0, *range(1, 25)]  # three chains of nine nodes
  schedule = make_schedule(arms, 'dhs', 4)
  lanes = schedule.lanes
  for arm in (1, 2, 3):
    assert len({int(lanes[node]) for node in range(arm, 28, 3)}) == 1
  by_step = [set(step) for step in schedule.order]
  place = iter(schedule.permutation.tolist())
  assert [{next(place) for _ in step} for step in by_step] == by_step


def test_stats_count_places():
  stats = schedule_stats(make_schedule([-1, 0, 0, 0, 1], 'dhs', 2))
  assert (stats.steps, stats.padding, stats.height) == (3, 1, 2)
  assert stats.utilisation == pytest.approx(5 / 6)
  assert stats.bound == 3 and stats.bytes > 0


def test_equal_by_content_and_frozen():
  one, two = (make_schedule([-1, 0, 1], 'dhs', 2) for _ in range(2))
  assert one == two and hash(one) == hash(two) and one is not two
  assert one != make_schedule([-1, 0, 0], 'dhs', 2)
  with pytest.raises(AttributeError):
    one.k = 3
  with pytest.raises(ValueError, match='read-only'):
    one.tables.nodes[0] = 0


def test_contraction_rounds_are_independent_and_few():
  for n, reach in ((500, None), (500, 1), (500, 5)):
    schedule = make_schedule(random_tree(n, 2, reach), 'contract')
    assert len(schedule.order) <= 2 * np.log2(n)
    nodes = [node for step in schedule.order for node in step]
    assert sorted(nodes) == list(range(n))
    for step in schedule.order:  # of neighbours in the tree at most one goes
      assert not {schedule.parent[node] for node in step} & set(step)


def test_large_trees_are_scheduled_quickly():
  parent = random_tree(20_000, 4, reach=50)
  start = time.process_time()
  schedule = make_schedule(parent, 'dhs', 16)
  assert schedule.tables.nodes.shape[1] == 16
  assert time.process_time() - start < 1


@pytest.mark.parametrize(
  ('parent', 'k', 'words'),
  [
    ([], 2, ['parent', '(0,)']),
    ([[-1]], 2, ['parent', '(1, 1)']),
    ([-1, 0.5], 2, ['parent[1]', '0.5']),
    (['a'], 2, ['parent[0]', "'a'"]),
    ([-1, 2, 1], 2, ['parent[1]', '2']),
    ([0, 0], 2, ['parent[0] = 0']),
    ([-1, 0, -2], 2, ['parent[2]', '-2']),
    ([-1, 0], 0, ['k = 0']),
    ([-1, 0], 1.5, ['k = 1.5']),
    ([-1, 0], True, ['k = True']),
  ],
)
def test_bad_input_is_named(parent, k, words):
  with pytest.raises(ScheduleError) as error:
    make_schedule(parent, 'dhs', k)
  assert all(word in str(error.value) for word in words)
  assert '\n' not in str(error.value)


def test_unknown_kind():
  with pytest.raises(ScheduleError, match=r"kind = 'best'.*dhs"):
    make_schedule([-1], 'best')


@pytest.mark.parametrize(
  ('order', 'words'),
  [
    ([[0], [1, 2]], 'node 0 .step 0. before its child 1'),
    ([[1, 2]], 'lacks node 0'),
    ([[1, 1], [2], [0]], r'order\[0\] holds 1'),
    ([[1, 2, 0]], 'before its child'),
    ([[3], [1, 2], [0]], 'holds 3'),
  ],
)
def test_a_given_order_is_checked(order, words):
  with pytest.raises(ScheduleError, match=words):
    TreeSchedule.from_order([-1, 0, 0], order)
  with pytest.raises(ScheduleError, match='k = 1'):
    TreeSchedule.from_order([-1, 0, 0], [[1, 2], [0]], k=1)


def test_gpu_tables_want_a_power_of_two():
  schedule = make_schedule(random_tree(30), 'dhs', 3)
  assert schedule.order
  with pytest.raises(ScheduleError, match=r'k = 3.*k=4'):
    _ = schedule.gpu_tables
  assert scheduling.make_schedule(random_tree(30), 'level').gpu_tables
