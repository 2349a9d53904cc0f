"""The schedule of Box Thirding: integer identities and limits."""

import math

import numpy as np
import pytest

from jaxlab import bandits
from jaxlab.bandits import schedule
from tests.bandits import reference

GRID = [
  (budget, num_arms, t0, growth, reuse)
  for budget in (1, 2, 3, 7, 40, 333, 5000)
  for num_arms in (1, 2, 3, 10, 100, 10**6)
  for t0, growth in ((1, bandits.R_STAR), (2, 1.5), (5, 1.01), (3, 1.99))
  for reuse in (True, False)
]


def arrivals(plan):
  """How many arms have arrived at each level."""
  processes = plan.ops[plan.ops[:, 0] == schedule.PROCESS]
  lifted = np.bincount(processes[:, 1], minlength=plan.num_levels)
  return [plan.entered, *lifted[: plan.num_levels - 1].tolist()]


@pytest.mark.parametrize('reuse_shift', [True, False])
def test_identities(reuse_shift):
  for budget, num_arms, t0, growth, reuse in GRID:
    plan = bandits.b3_schedule(
      budget,
      num_arms,
      t0=t0,
      growth=growth,
      reuse=reuse,
      reuse_shift=reuse_shift,
    )
    assert plan.complete_cost <= budget
    if plan.next_unaffordable is None:
      assert plan.entered == num_arms
      assert max(plan.waiting.values()) <= 2
    else:
      assert plan.complete_cost + plan.next_unaffordable.cost > budget
    # Each PROCESS takes three arms, lifts one, shifts one and discards one.
    assert plan.entered == sum(plan.waiting.values()) + plan.num_process
    assert len(plan.ops) == plan.entered + plan.num_process
    cost = plan.entered * t0
    for kind, level, shift in plan.ops.tolist():
      if kind == schedule.PROCESS:
        cost += plan.new_pulls(level + 1)
        if shift and not reuse_shift:
          cost += 3 * int(plan.quotas[level])
    assert cost == plan.complete_cost


def test_against_the_sequential_rules():
  for budget, num_arms, t0, growth, reuse in GRID:
    if num_arms > 100 or budget > 333:
      continue
    plan = bandits.b3_schedule(
      budget, num_arms, t0=t0, growth=growth, reuse=reuse
    )
    if num_arms == 1:
      continue
    machine = reference.SequentialB3(
      num_arms, t0=t0, growth=growth, reuse=reuse, drain=False
    )
    chance = reference.Given([range(num_arms)], lambda *_: 0.0)
    machine.advance(budget, chance)
    found = [
      (schedule.OPERATION_NAMES[kind], level, shift, cost)
      for (kind, level, shift), cost in zip(
        plan.ops.tolist(), plan.cost.tolist(), strict=True
      )
    ]
    assert found == [tuple(op[:4]) for op in machine.ops]
    assert {b: len(arms) for b, arms in machine.boxes.items()} == plan.waiting


def test_arrivals_halve_from_level_to_level():
  plan = bandits.b3_schedule(30_000, 10**6)
  assert arrivals(plan)[:9] == [5049, 2521, 1258, 625, 309, 152, 72, 34, 15]


def test_arms_are_lifted_in_equal_shares_whatever_the_box():
  """Of the arms of a level a share 3^-j is lifted from box j - 1."""
  plan = bandits.b3_schedule(400_000, 10**7)
  emptied = plan.num_emptied(len(plan.ops))
  for shift in range(5):
    share = emptied[0, shift] / plan.entered
    assert share == pytest.approx(3.0 ** -(shift + 1), rel=0.01)


@pytest.mark.parametrize('max_shifts', [1, 2, 3])
def test_few_shifts_lift_less(max_shifts):
  plan = bandits.b3_schedule(100_000, 10**7, max_shifts=max_shifts)
  assert max(shift for _, shift in plan.waiting) < max_shifts
  share = arrivals(plan)[1] / plan.entered
  expected = sum(3.0**-j for j in range(1, max_shifts + 1))
  assert share == pytest.approx(expected, rel=0.002)
  dropped = sum(
    count
    for (_, shift), count in plan.num_emptied(len(plan.ops)).items()
    if shift == max_shifts - 1
  )
  left = sum(plan.waiting.values()) + plan.num_process + dropped
  assert plan.entered == left


@pytest.mark.parametrize('reuse,limit', [(True, 3.679), (False, 7.357)])
def test_cost_per_entered_arm_approaches_its_limit(reuse, limit):
  """The excess over T / limit falls like the share of the deepest level.

  At level l there are n / 2^l arms with r^l pulls each, so the levels that
  are not filled yet are worth a share (r / 2)^log2(n) = n^(log2(r) - 1).
  """
  r, t0 = bandits.R_STAR, 16
  cost = (1 + (r - 1) / (2 - r)) if reuse else 1 / (1 - r / 2)
  name = 'reuse' if reuse else 'fresh'
  constants = bandits.growth_constants()
  assert constants[f'cost_per_arm_{name}_t0_1'] == pytest.approx(cost)
  assert cost == pytest.approx(limit, abs=1e-3)
  budgets = np.asarray([10**5, 10**6, 10**7])
  entered = [
    bandits.b3_schedule(int(T), 10**8, t0=t0, reuse=reuse).entered
    for T in budgets
  ]
  excess = np.asarray(entered) * cost * t0 / budgets - 1
  assert np.all(excess > 0)
  slope = np.log(excess[-1] / excess[0]) / np.log(budgets[-1] / budgets[0])
  assert slope == pytest.approx(math.log2(r) - 1, abs=0.05)


def test_best_growth_is_the_stationary_point():
  """Of the exponent t0 (1 - r^-1/2)^4 where t0 / (1 - r / 2) is held fixed."""
  r = np.linspace(1.01, 1.99, 98_001)
  exponent = (1 - r / 2) * (1 - r**-0.5) ** 4
  assert r[exponent.argmax()] == pytest.approx(bandits.R_STAR, abs=2e-5)


@pytest.mark.parametrize('budget', [10, 100, 1000])
def test_a_longer_schedule_begins_with_the_shorter_one(budget):
  short = bandits.b3_schedule(budget, 10**4)
  long = bandits.b3_schedule(7 * budget + 3, 10**4)
  assert short.ops.tolist() == long.ops[: len(short.ops)].tolist()
  assert long.num_done(budget) == len(short.ops)


def test_quotas_grow_by_one_at_least():
  for t0, growth in [(1, 1.001), (1, 1.5), (7, 1.1), (2, 1.5)]:
    found = bandits.quotas(t0, growth, 12).tolist()
    assert found == [reference.quota(t0, growth, k) for k in range(12)]
    assert np.all(np.diff(found) >= 1)


def test_a_budget_of_one_and_a_single_arm():
  plan = bandits.b3_schedule(1, 5, t0=1)
  assert (plan.entered, plan.complete_cost) == (1, 1)
  plan = bandits.b3_schedule(3, 5, t0=4)
  assert (plan.entered, plan.next_unaffordable.cost) == (0, 4)
  assert plan.waiting == {}


@pytest.mark.parametrize(
  'arguments,words',
  [
    ({'budget': 0}, ['budget', '0']),
    ({'budget': 2**31}, ['budget', '2147483648']),
    ({'budget': 10.5}, ['budget', '10.5']),
    ({'num_arms': 0}, ['num_arms', '0']),
    ({'num_arms': 2.5}, ['num_arms', '2.5']),
    ({'t0': 0}, ['t0', '0']),
    ({'t0': 1.5}, ['t0', '1.5']),
    ({'t0': math.nan}, ['t0', 'nan']),
    ({'t0': math.inf}, ['t0', 'inf']),
    ({'growth': 1.0}, ['growth', '1.0']),
    ({'growth': 2.0}, ['growth', '2.0']),
    ({'growth': math.nan}, ['growth', 'nan']),
    ({'max_shifts': 0}, ['max_shifts', '0']),
  ],
)
def test_bad_input(arguments, words):
  with pytest.raises(ValueError) as caught:
    bandits.b3_schedule(**{'budget': 10, 'num_arms': 5} | arguments)
  assert all(word in str(caught.value) for word in words), str(caught.value)
