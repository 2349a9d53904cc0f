"""The oracles of this folder, against golden values and closed forms."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

from tests.bandits import enumeration, reference
from tests.golden import Golden

GOLDEN = Golden('box_thirding')
OPTIONS = ('t0', 'growth', 'reuse')
R_STAR = 1.7281632013323833


def fractions(values):
  return [Fraction(str(value)) for value in values]


def boxes(machine, content=list):
  items = sorted(machine.boxes.items())
  return {f'{level},{j}': content(arms) for (level, j), arms in items}


def machine_of(case, **more):
  options = {name: case[name] for name in OPTIONS}
  return reference.SequentialB3(case['num_arms'], **options, **more)


def reward_of(case):
  """The rewards of a case: sums by arm and level, or means without noise."""
  if 'mu' in case:
    return lambda arm, level, n: n * case['mu'][arm]
  sums = case['reward_sum_by_arm_and_level']
  return lambda arm, level, n: sums[arm][level]


@pytest.mark.parametrize('case', GOLDEN.parameters('quotas'))
def test_quotas(case):
  found = [
    reference.quota(case['t0'], case['growth'], level)
    for level in range(len(case['quotas']))
  ]
  assert found == case['quotas']


@pytest.mark.parametrize('case', GOLDEN.parameters('schedule'))
def test_schedule(case):
  machine = machine_of(case, drain=False)
  chance = reference.Given([range(case['num_arms'])], lambda *_: 0.0)
  machine.advance(case['budget'], chance)
  assert machine.spent == case['complete_cost']
  assert boxes(machine, len) == case['waiting']
  ops = [list(op[:4]) for op in machine.ops]
  assert sum(op[0] == 'ENTER' for op in ops) == case['entered']
  assert sum(op[0] == 'PROCESS' for op in ops) == case['num_process']
  assert ops == case.get('ops', ops)
  following = machine.next and list(machine.next[:4])
  assert following == case['next_unaffordable']


@pytest.mark.parametrize(
  'case', GOLDEN.parameters('deterministic_run', 'reward_table_run')
)
def test_run(case):
  expect = case['expect']
  machine = machine_of(case, drain=False)
  chance = reference.Given([case['entry_order']], reward_of(case))
  machine.advance(case['budget'], chance)
  arm = machine.recommend(chance)
  assert arm == expect['recommend']
  assert machine.mean(arm) == pytest.approx(expect['mean'], abs=1e-9)
  assert machine.pulls[arm] == expect['pulls']
  assert machine.top_level == expect['top_level']
  assert sorted(machine.discarded) == sorted(expect['discarded'])
  found = {box: sorted(arms) for box, arms in boxes(machine).items()}
  assert found == {b: sorted(arms) for b, arms in expect['waiting'].items()}
  assert machine.spent == expect['spent_by_complete_ops']
  if 'champion_after_drain' in expect:
    machine.drain = True
    while not machine.champions:
      assert machine.step(10**9, chance)
    assert machine.champions[0][0] == expect['champion_after_drain']


@pytest.mark.parametrize('case', GOLDEN.parameters('exact_distribution'))
def test_exact_distribution(case):
  options = {n: case[n] for n in (*OPTIONS, 'samples') if n in case}
  method = getattr(enumeration, case['algorithm'], None)
  if method is None:
    pytest.skip(f'{case["algorithm"]} is not enumerated')
  found = method(fractions(case['mu']), case['budget'], **options)
  assert sum(found) == 1
  np.testing.assert_allclose(
    np.asarray(found, float), case['prob'], atol=case['tolerance']
  )


def test_two_arms_have_a_binomial_closed_form():
  n, p, q = 6, Fraction(3, 10), Fraction(4, 5)
  first, second = (scipy.stats.binom(n, float(x)).pmf for x in (p, q))
  joint = np.outer(first(range(n + 1)), second(range(n + 1)))
  wins = np.triu(joint, 1).sum() + np.trace(joint) / 2
  for method in (enumeration.uniform, enumeration.sequential_halving):
    assert float(method([p, q], 2 * n)[1]) == pytest.approx(wins, abs=1e-14)
  # One phase of ceil((14 - 2) / 2) pulls each.
  found = enumeration.successive_rejects([p, q], 2 * n + 2)
  assert float(found[1]) == pytest.approx(wins, abs=1e-14)


@pytest.mark.parametrize('reuse', [True, False])
@pytest.mark.parametrize('budget', [1, 4, 9, 12])
def test_equal_arms_are_equally_likely(budget, reuse):
  mu = fractions([0.3] * 4)
  found = enumeration.box_thirding(mu, budget, t0=1, growth=R_STAR, reuse=reuse)
  assert found == [Fraction(1, 4)] * 4


def test_drain_and_passes_find_the_best_arm_without_noise():
  rng = np.random.default_rng(0)
  for num in (2, 3, 7, 20):
    mu = rng.permutation(num)
    for reuse in (True, False):
      orders = (rng.permutation(num) for _ in range(100))
      chance = reference.Given(orders, lambda arm, level, n, mu=mu: n * mu[arm])
      machine = reference.SequentialB3(num, t0=1, growth=1.6, reuse=reuse)
      for done in (1, 2, 3):
        while len(machine.champions) < done:
          assert machine.step(10**9, chance)
        assert machine.champions[-1][0] == mu.argmax()
        assert machine.recommend(chance) == mu.argmax()
      pulls = [pulls for _, pulls in machine.champions]
      assert pulls == sorted(pulls)


def test_a_longer_run_begins_with_the_shorter_one():
  rng = np.random.default_rng(1)
  rewards = rng.normal(size=(30, 40))

  def run(budget):
    machine = reference.SequentialB3(30, t0=2, growth=1.5, reuse=False)
    chance = reference.Given(
      [range(30)] * 9, lambda arm, level, n: rewards[arm, level]
    )
    return machine.advance(budget, chance)

  short, long = run(60), run(400)
  assert len(long.champions) >= 1
  assert long.ops[: len(short.ops)] == short.ops


def test_pulling_shifted_arms_afresh_costs_three_quotas_more():
  options = {'t0': 2, 'growth': R_STAR, 'reuse': True, 'drain': False}
  drawn = []

  def reward(arm, level, n):
    drawn.append((level, n))
    return n * arm

  machine = reference.SequentialB3(9, reuse_shift=False, **options)
  machine.advance(10**6, reference.Given([range(9)], reward))
  plain = reference.SequentialB3(9, **options)
  plain.advance(10**6, reference.Given([range(9)], reward))
  (shifted,) = [op for op in machine.ops if op.shift]
  assert (shifted.level, shifted.cost) == (0, 3 * 2 + 2)
  assert machine.spent == plain.spent + 3 * 2
  assert machine.ops != plain.ops
  assert drawn.count((0, 2)) == 9 + 3 + 9


def test_fast_sequential_form_is_box_thirding():
  """Its shares of recommended arms against the slow form's, by chi-square."""
  mu, sigma, budget, runs = np.arange(12) / 4, 1.0, 45, 1500
  rng = np.random.default_rng(2)

  def reward(arm, level, n):
    return n * mu[arm] + sigma * np.sqrt(n) * rng.normal()

  counts = np.zeros((2, 12))
  for _ in range(runs):
    arm = reference.numpy_b3(rng, mu, sigma, budget, 1, R_STAR)
    counts[0, arm] += 1
    machine = reference.SequentialB3(
      12, t0=1, growth=R_STAR, reuse=True, drain=False
    )
    chance = reference.Given([rng.permutation(12)], reward, rng)
    counts[1, machine.advance(budget, chance).recommend(chance)] += 1
  seen = counts[:, counts.sum(0) > 20]
  assert scipy.stats.chi2_contingency(seen).pvalue > 1e-4
  assert reference.numpy_b3(rng, mu, 0.0, 10**6, 1, R_STAR) == 11
