"""Runs all golden cases of the family; a kind has one check."""

import builtins
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab import bandits
from jaxlab.bandits import metrics
from jaxlab.data import caption_contest
from tests.golden import Golden

GOLDEN = Golden('box_thirding')
REPLICATIONS = 100_000
B3_OPTIONS = ('t0', 'growth', 'reuse')
ABOUT = {'kind', 'tolerance', 'how', 'note', 'source', 'monte_carlo_sigma'}


def arguments(function, case):
  """The arguments of a function that a case names."""
  names = inspect.signature(function).parameters
  return {name: case[name] for name in names if name in case}


def call(name, case):
  function = getattr(bandits, name)
  return function(**arguments(function, case))


def as_lists(value):
  """Nested lists of Python numbers."""
  if isinstance(value, tuple | list):
    return [as_lists(each) for each in value]
  return np.asarray(value).tolist()


def recommended(name, case, env, replications=REPLICATIONS):
  """`[R]` arms that an algorithm recommends when the budget is spent."""
  result = bandits.simulate(
    jax.random.key(20),
    call(name, case),
    env,
    budget=case['budget'],
    replications=replications,
  )
  assert result.arms.shape == (replications, 1)
  return np.asarray(result.arms[:, 0])


def assert_shares(arms, probability, case):
  """Shares of the arms within some standard errors of their probability."""
  p = np.asarray(probability)
  share = np.bincount(arms, minlength=p.size) / arms.size
  error = np.sqrt(np.maximum(p * (1 - p), 0) / arms.size)
  bound = case['monte_carlo_sigma'] * error + case['tolerance']
  np.testing.assert_array_less(np.abs(share - p), bound + 1e-15)


def check_quotas(case):
  found = bandits.quotas(case['t0'], case['growth'], len(case['quotas']))
  assert as_lists(found) == case['quotas']


def schedule_of(case):
  return bandits.b3_schedule(
    case['budget'],
    case['num_arms'],
    **{name: case[name] for name in B3_OPTIONS},
  )


def check_schedule(case):
  schedule = schedule_of(case)
  for field in ('complete_cost', 'entered', 'num_process'):
    assert getattr(schedule, field) == case[field], field
  assert {
    f'{level},{shift}': count
    for (level, shift), count in schedule.waiting.items()
  } == case['waiting']
  following = schedule.next_unaffordable
  assert (following and list(following)) == case['next_unaffordable']
  if 'ops' in case:
    names = ('ENTER', 'PROCESS')
    assert case['ops'] == [
      [names[kind], level, shift, cost]
      for (kind, level, shift), cost in zip(
        schedule.ops.tolist(), schedule.cost.tolist(), strict=True
      )
    ]


def check_deterministic_run(case):
  with jax.enable_x64(True):
    mu = np.asarray(case['mu'], np.float64)
    arm = check_batched_engine(case, bandits.deterministic(mu))
    regret = metrics.simple_regret(mu[[arm]], mu.max())[0]
    expected = case['expect']['simple_regret']
    assert float(regret) == pytest.approx(expected, abs=case['tolerance'])


def check_reward_table_run(case):
  with jax.enable_x64(True):
    sums = np.asarray(case['reward_sum_by_arm_and_level'], np.float64)
    check_batched_engine(case, bandits.level_table(sums))
    check_step_engine(case, bandits.level_table(sums))


def check_batched_engine(case, env):
  """Compares the state after pass 1; returns the recommended arm."""
  expect, tolerance = case['expect'], case['tolerance']
  order = jnp.asarray(case['entry_order'], jnp.int32)
  play = jax.jit(bandits.simulate_b3, static_argnums=2)
  result = play(jax.random.key(0), env, schedule_of(case), entry_order=order)
  arm = int(result.arms[-1])
  assert arm == expect['recommend']
  assert float(result.means[-1]) == pytest.approx(expect['mean'], abs=tolerance)
  assert int(result.pulls[-1]) == expect['pulls']
  assert int(result.levels[-1]) == expect['top_level']
  assert sorted(as_lists(result.discarded)) == sorted(expect['discarded'])
  assert {
    f'{level},{shift}': sorted(as_lists(arms))
    for (level, shift), arms in result.waiting.items()
  } == {box: sorted(arms) for box, arms in expect['waiting'].items()}
  assert int(result.spent) == expect['spent_by_complete_ops']
  if 'champion_after_drain' in expect:
    assert int(result.champion) == expect['champion_after_drain']
  return arm


def check_step_engine(case, env):
  """Asks and tells up to the end of pass 1, in one program."""
  expect = case['expect']
  algorithm = bandits.box_thirding(**{n: case[n] for n in B3_OPTIONS})
  stop = expect['spent_by_complete_ops']
  quotas = jnp.asarray(bandits.quotas(case['t0'], case['growth'], 40))

  def step(carry):
    state, spent, pulls = carry
    arm, n = algorithm.ask(state)
    held = pulls[arm]
    level = jnp.searchsorted(quotas, n + held if case['reuse'] else n)
    sums = env.sample(jax.random.key(1), arm, n, level=level, start=held)
    state = algorithm.tell(state, arm, sums[0], n, sums[1])
    return state, spent + n, pulls.at[arm].add(n)

  def unfinished(carry):
    return (carry[1] < stop) & (algorithm.ask(carry[0])[1] > 0)

  @jax.jit
  def play(order):
    state = algorithm.init(jax.random.key(0), order.size, entry_order=order)
    start = (state, jnp.int32(0), jnp.zeros_like(order))
    state, spent, _ = jax.lax.while_loop(unfinished, step, start)
    return algorithm.recommend(state), spent

  best, spent = play(jnp.asarray(case['entry_order'], jnp.int32))
  assert int(spent) == stop
  assert int(best.arm) == expect['recommend']
  assert float(best.mean) == pytest.approx(
    expect['mean'], abs=case['tolerance']
  )
  assert int(best.pulls) == expect['pulls']


def check_plan(case):
  plan = call(case['kind'], case)
  taken = inspect.signature(getattr(bandits, case['kind'])).parameters
  expected = {name: case[name] for name in set(case) - ABOUT - set(taken)}
  assert expected
  assert {n: as_lists(getattr(plan, n)) for n in expected} == expected


def check_growth_constants(case):
  found = bandits.growth_constants()
  assert pytest.approx(case['r_star'], abs=case['tolerance']) == bandits.R_STAR
  for name in set(case) - ABOUT - {'equation'}:
    expected, value = case[name], found[name]
    if isinstance(expected, dict):
      value = {shifts: value[int(shifts)] for shifts in expected}
    assert value == pytest.approx(expected, abs=case['tolerance']), name


def check_noninclusion(case):
  found = bandits.noninclusion_probability(case['N'], case['N_eps'], case['c0'])
  assert found == pytest.approx(case['prob'], abs=case['tolerance'])


def check_exact_distribution(case):
  env = bandits.bernoulli(case['mu'])
  assert_shares(recommended(case['algorithm'], case, env), case['prob'], case)


def check_two_arm_gaussian_error(case):
  env = bandits.gaussian(case['mu'], case['sigma'])
  # `sigma` describes the arms here, it is no setting of the algorithm.
  setting = {name: case[name] for name in set(case) - {'mu', 'sigma'}}
  arms = recommended(case['algorithm'], setting, env)
  wrong = (arms != np.argmax(case['mu'])).astype(int)
  assert_shares(wrong, [1 - case['error'], case['error']], case)


def check_ties_uniform(case):
  num, replications = case['num_arms'], case['replications']
  env = bandits.bernoulli(np.full(num, case['mu']))
  setting = {name: case[name] for name in set(case) - {'num_arms', 'mu'}}
  expected = replications / num
  for name in case['algorithms']:
    arms = recommended(name, setting, env, replications)
    counts = np.bincount(arms, minlength=num)
    chi_square = np.sum((counts - expected) ** 2 / expected)
    assert chi_square < case['chi_square_max'], (name, counts)


def check_caption_contest(case):
  folder = GOLDEN.data_folder(case['file'])
  stem = case['file'].removesuffix('.csv')
  contest, algorithm = stem.split('_summary_')

  def load(**options):
    return caption_contest.load_caption_contest(
      folder, contest, algorithm, **options
    )

  arms, mu = load(), load().mu
  found = {
    'num_arms': len(arms.captions),
    'total_votes': int(arms.counts.sum()),
    'min_count': int(arms.counts.min()),
    'max_count': int(arms.counts.max()),
    'num_within_0p05': int(np.sum(mu >= mu.max() - 0.05)),
    'suspect_rows': list(arms.suspect_rows),
  }
  assert found == {name: case[name] for name in found}
  regret = {
    pulls: metrics.uniform_deterministic_regret(mu, int(pulls))
    for pulls in case['uniform_sigma0_expected_regret']
  }
  close = {
    'best_mu': mu.max(),
    'mean_mu': mu.mean(),
    'best_mu_without_suspect': load(drop_suspect=True).mu.max(),
  }
  for name, value in close.items():
    assert value == pytest.approx(case[name], abs=case['tolerance']), name
  assert regret == pytest.approx(
    case['uniform_sigma0_expected_regret'], abs=case['tolerance']
  )


def check_bad_input(case):
  name = case['function']
  rooms = (bandits, caption_contest)
  function = next(getattr(room, name) for room in rooms if hasattr(room, name))
  with pytest.raises(getattr(builtins, case['raises'])) as caught:
    function(**case['args'])
  missing = [text for text in case['match'] if text not in str(caught.value)]
  assert not missing, str(caught.value)


CHECKS = {
  'quotas': check_quotas,
  'schedule': check_schedule,
  'deterministic_run': check_deterministic_run,
  'reward_table_run': check_reward_table_run,
  'sequential_halving_plan': check_plan,
  'successive_rejects_plan': check_plan,
  'hyperband_plan': check_plan,
  'growth_constants': check_growth_constants,
  'noninclusion': check_noninclusion,
  'exact_distribution': check_exact_distribution,
  'two_arm_gaussian_error': check_two_arm_gaussian_error,
  'ties_uniform': check_ties_uniform,
  'caption_contest': check_caption_contest,
  'bad_input': check_bad_input,
}


@pytest.mark.filterwarnings('ignore:.*suspect|.*stuffed|.*dropped')
@pytest.mark.parametrize('case', GOLDEN.parameters())
def test_case(case):
  check = CHECKS.get(case['kind'])
  assert check is not None, f'no check for cases of kind {case["kind"]!r}'
  check(case)
