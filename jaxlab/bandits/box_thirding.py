"""Box Thirding (B3) as an `Algorithm`: anytime best-arm identification.

Reference: Hwang and Park, "Box Thirding: Anytime Best Arm Identification under
Insufficient Sampling", arXiv 2602.18186.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.bandits import b3, b3_drain, b3_levels, schedule
from jaxlab.bandits.stepping import play_steps
from jaxlab.bandits.types import Algorithm, Engine, RunResult

RULES = ('top', 'lcb', 'mean_all')


@functools.lru_cache(maxsize=None, typed=True)
def box_thirding(
  t0: int = 2,
  growth: float = schedule.R_STAR,
  reuse: bool = True,
  reuse_shift: bool = True,
  recommend: str = 'top',
  max_levels: int = 40,
  max_shifts: int = schedule.MAX_SHIFTS,
  *,
  sigma: float = 1.0,
  max_passes: int = 28,
) -> Algorithm:
  """Box Thirding: of three arms lift the best, keep the median, drop the worst.

  Args:
    t0: pulls of an arm that enters.
    growth: an arm at level l has about t0 growth^l pulls; in (1, 2).
    reuse: a lifted arm keeps its old pulls.
    reuse_shift: a shifted arm keeps its mean; False is an ablation.
    recommend: 'top': the largest mean at the highest level that holds an arm;
      'lcb': the largest lower confidence bound of all waiting arms;
      'mean_all': the largest mean of all arms, an ablation.
    max_levels: size of the state; 40 is enough for every budget below 2^31.
    max_shifts: boxes per level.
    sigma: standard deviation of a reward, used by 'lcb'.
    max_passes: how often the pool is gone through, with doubled t0; after
      the last pass the rest of the budget stays unspent.

  Returns:
    An `Algorithm`; the same object for the same arguments. `init` also takes
    an `entry_order`.

  Raises:
    ValueError: naming the argument that is out of range.
  """
  schedule.quotas(t0, growth, 1)
  if recommend not in RULES:
    raise ValueError(f'recommend must be one of {RULES}, got {recommend!r}.')
  for name, value in [
    ('max_levels', max_levels),
    ('max_shifts', max_shifts),
    ('max_passes', max_passes),
  ]:
    if value < 1:
      raise ValueError(f'{name} must be >= 1, got {value}.')
  if sigma < 0:
    raise ValueError(f'sigma must be >= 0, got {sigma}.')
  settings = b3.Settings(
    int(t0),
    float(growth),
    reuse,
    reuse_shift,
    recommend,
    sigma,
    max_levels,
    max_shifts,
    max_passes,
  )
  return Algorithm(
    init=functools.partial(b3.init, settings=settings),
    ask=b3.ask,
    # Compiled once: step by step they are far too many small operations.
    tell=jax.jit(functools.partial(b3.tell, settings=settings)),
    recommend=jax.jit(functools.partial(b3.recommend, settings=settings)),
    engine=Engine(
      functools.partial(_enter, settings=settings),
      functools.partial(_play, settings=settings),
    ),
  )


def _plan(settings: b3.Settings, num_arms: int, budget: int):
  plan = schedule.b3_schedule(
    budget,
    num_arms,
    t0=settings.t0,
    growth=settings.growth,
    reuse=settings.reuse,
    reuse_shift=settings.reuse_shift,
    max_shifts=settings.max_shifts,
  )
  needed = plan.num_levels
  if plan.next_unaffordable is None:
    needed += len(b3_drain.drain_steps(plan))
  if needed > settings.max_levels:
    raise ValueError(
      f'max_levels = {settings.max_levels} is too small for budget {budget}: '
      f'needs {needed}.'
    )
  return plan


def _enter(key, num_arms: int, budget: int, *, settings: b3.Settings):
  order_key, _ = b3.algorithm_keys(key)
  entered = _plan(settings, num_arms, budget).entered
  # Before the first entry a random arm is recommended: the first to come.
  return b3_levels.entry_arms(order_key, num_arms, max(entered, 1))


def _play(
  key, reward_key, env, num_arms, budget, checkpoints, *, settings: b3.Settings
) -> RunResult:
  """Level by level as far as the schedule is known, else step by step."""
  if num_arms == 1:
    nothing = jnp.zeros(len(checkpoints), jnp.int32)
    nan = jnp.full(len(checkpoints), jnp.nan)
    return RunResult(nothing, nan, nothing, nothing, nothing)
  plan = _plan(settings, num_arms, budget)
  steps: tuple[b3_drain.DrainStep, ...] = ()
  if plan.next_unaffordable is None:
    steps = b3_drain.drain_steps(plan)
    price = sum(step.cost * step.kept for step in steps)
    rest = budget - plan.complete_cost
    if settings.recommend != 'top' or (
      settings.max_passes > 1 and rest > price
    ):
      return _play_steps(key, reward_key, env, checkpoints, settings)
  _, keys = b3.algorithm_keys(key)
  played = b3_levels.play_pass_one(keys, reward_key, env, plan)
  drained = b3_drain.progress(plan, steps, checkpoints)
  pools: list[b3_drain.Drained] = []
  if any(at is not None for at in drained):
    pools = b3_drain.drain(keys[1], reward_key, env, played, plan, steps)
  candidates, spent, pending = [], [], []
  for point, at in zip(checkpoints, drained, strict=True):
    if at is None:
      chosen = b3_levels.waiting_candidates(
        played, plan, point, rule=settings.recommend
      )
      paid = int(np.sum(plan.cost[: chosen.done]))
      open_end = True
    else:
      chosen = b3_drain.candidates(played, pools, plan, steps, at)
      paid = plan.complete_cost + at.cost
      open_end = not at.finished
    candidates.append(chosen)
    spent.append(paid)
    pending.append(point - paid if open_end else 0)
  best = b3_levels.recommend(
    keys[1], candidates, rule=settings.recommend, sigma=settings.sigma
  )
  return RunResult(
    best.arm,
    best.mean,
    best.pulls,
    jnp.asarray(spent, jnp.int32),
    jnp.asarray(pending, jnp.int32),
  )


def _play_steps(key, reward_key, env, checkpoints, settings) -> RunResult:
  """Several passes: what they cost depends on the rewards."""
  num_arms, budget = env.num_arms, checkpoints[-1]
  pulls = schedule.quotas(settings.t0, settings.growth, settings.max_levels)
  # No arm gets above the level that takes the whole budget, and every shift
  # leaves a third of the arms: a small state is a fast one.
  compact = settings._replace(
    max_levels=min(settings.max_levels, int(np.sum(pulls <= budget)) + 2),
    max_shifts=min(settings.max_shifts, int(math.log(num_arms, 3)) + 2),
  )
  in_order = functools.partial(
    b3.init,
    settings=compact,
    entry_order=jnp.arange(num_arms, dtype=jnp.int32),
  )
  stepper = box_thirding(**compact._asdict())._replace(init=in_order)
  return play_steps(stepper, key, reward_key, env, checkpoints)
