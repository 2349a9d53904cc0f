"""Plays a plan of elimination rounds as one array program."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.bandits import elimination_plan as plans
from jaxlab.bandits import envs, ranking
from jaxlab.bandits.elimination_plan import Plan, Round
from jaxlab.bandits.types import Recommendation, RunResult

_WIDTH_RATIO = 8
_SMALLEST_WIDTH = 16


class _Spent(NamedTuple):
  """Where a plan stands at a checkpoint; all plain ints.

  Attributes:
    rounds: finished rounds.
    first: arms pulled in the first round.
    pulls: pulls so far.
    pending: pulls left over for an operation that did not fit.
  """

  rounds: int
  first: int
  pulls: int
  pending: int


def _position(plan: Plan, checkpoint: int) -> _Spent:
  spent, first = 0, 0
  for index, r in enumerate(plan):
    asks = min((checkpoint - spent) // r.pulls, r.arms)
    spent += asks * r.pulls
    first = asks if index == 0 else first
    if asks < r.arms:
      return _Spent(index, first, spent, checkpoint - spent)
  return _Spent(len(plan), first, spent, 0)


class Course(NamedTuple):
  """A plan to play, and when to look at it.

  Attributes:
    plan: at least one round more than the last checkpoint pays for, unless
      the plan ends there.
    capacity: the number of participating arms.
    checkpoints: increasing budgets.
  """

  plan: Plan
  capacity: int
  checkpoints: tuple[int, ...]

  @property
  def positions(self) -> list[_Spent]:
    return [_position(self.plan, point) for point in self.checkpoints]

  @property
  def finished(self) -> Plan:
    """The rounds that have finished and matter in the end."""
    rounds = self.plan[: self.positions[-1].rounds]
    while rounds and rounds[-1].rank == 0:
      rounds = rounds[:-1]
    return rounds


def play_courses(
  courses: Sequence[Course],
  key: jax.Array,
  reward_key: jax.Array,
  env: envs.Environment,
  *,
  pooled: bool = False,
) -> RunResult:
  """Plays plans one after the other, in one array program.

  Args:
    courses: each starts anew, from the first arms of `env`; of several, each
      has one stage.
    key: PRNG key of the run, the same for all courses.
    reward_key: PRNG key of the rewards.
    env: the entered arms only, stage by stage; an arm may enter in several.
    pooled: whether rounds rank by all pulls of their stage.

  Returns:
    `RunResult` with leaves `[C]` over the checkpoints of all courses; arms
    are places in `env`.
  """
  _, tie_key = plans.run_keys(key)
  arena = _Arena(tie_key, reward_key, env, pooled)
  parts = [_best_of_first(course, arena) for course in courses]
  best = jax.tree.map(lambda *x: jnp.concatenate(x), *parts)
  positions = [p for course in courses for p in course.positions]
  courses = [c for c in courses if c.positions[-1].rounds]
  if any(course.finished for course in courses):
    better = _best_of_finished(courses, arena)
    later = np.flatnonzero([p.rounds > 0 for p in positions])
    kept = np.flatnonzero(
      [p.rounds > 0 for course in courses for p in course.positions]
    )
    best = jax.tree.map(lambda a, b: a.at[later].set(b[kept]), best, better)
  return RunResult(
    best.arm,
    best.mean,
    best.pulls,
    jnp.asarray([p.pulls for p in positions], jnp.int32),
    jnp.asarray([p.pending for p in positions], jnp.int32),
  )


class _Arena(NamedTuple):
  """What the rounds of one run share."""

  tie_key: jax.Array
  reward_key: jax.Array
  env: envs.Environment
  pooled: bool

  @property
  def dtype(self):
    one = jnp.zeros(1, jnp.int32)
    return jax.eval_shape(lambda: self.pull(one, 1, 0)).dtype

  def pull(self, arms, n, start) -> jax.Array:
    return self.env.sample(self.reward_key, arms, n, start=start)[0]


def _best_of_first(course: Course, arena: _Arena) -> Recommendation:
  """The largest mean within the first round; nothing after it."""
  firsts = [0 if p.rounds else p.first for p in course.positions]
  counts = np.asarray(firsts)
  if not counts.any():
    zero = jnp.zeros(counts.shape, jnp.int32)
    unknown = jnp.full(counts.shape, jnp.nan, arena.dtype)
    return Recommendation(zero, unknown, zero)
  r = course.plan[0]
  arms = jnp.arange(counts.max(), dtype=jnp.int32)
  totals = arena.pull(arms, r.pulls, 0)
  priority = ranking.priorities(arena.tie_key, 0, arms)
  place = plans.best_so_far(totals, priority, counts)
  pulls = jnp.asarray(np.where(counts > 0, r.pulls, 0), jnp.int32)
  return Recommendation(place, plans.mean(totals[place], pulls), pulls)


def _best_of_finished(
  courses: Sequence[Course], arena: _Arena
) -> Recommendation:
  """The leader of the highest rank among the rounds that have finished."""
  finished = [course.finished for course in courses]
  rounds = [r for plan in finished for r in plan]
  numbers = [number for plan in finished for number in range(len(plan))]
  counted = jnp.asarray([r.counted for r in rounds], jnp.int32)
  candidates = []
  first = 0
  for course, plan in zip(courses, finished, strict=True):
    ranks = np.asarray([r.rank for r in plan])
    for position in course.positions:
      done = ranks[: max(position.rounds, 1)]
      row = np.zeros(len(rounds), bool)
      row[first : first + done.size] = done == done.max()
      candidates.append(row)
    first += len(plan)
  arms, totals = _leaders(courses, arena)
  priority = jax.vmap(functools.partial(plans.round_priority, arena.tie_key))(
    np.asarray(numbers)
  )
  best = ranking.argbest(plans.visible(totals), priority, np.stack(candidates))
  pulls = counted[best]
  return Recommendation(arms[best], plans.mean(totals[best], pulls), pulls)


class _Survivors(NamedTuple):
  """The arms that are left in a stage.

  Attributes:
    arms: `[W]` int32 places, best first.
    totals: `[W]` float.
    seen: `[S]` int32: pulls of the arm at a place by the end of the stage of
      that place, or so far; None in a plan of one stage.
  """

  arms: jax.Array
  totals: jax.Array
  seen: jax.Array | None


class _Steps(NamedTuple):
  """The rounds of all courses as arrays `[G]`.

  Attributes:
    number: index of the round in its course.
    arms: as in `Round`.
    pulls: as in `Round`.
    stage: as in `Round`.
    opens: whether the round is the first of its stage.
    entered: arms of the course that have entered before its stage.
    done: pulls of each arm in earlier rounds of the stage.
    width: index of the array width that the round is played in.
    capacity: of its course.
  """

  number: np.ndarray
  arms: np.ndarray
  pulls: np.ndarray
  stage: np.ndarray
  opens: np.ndarray
  entered: np.ndarray
  done: np.ndarray
  width: np.ndarray
  capacity: np.ndarray


def _steps(courses: Sequence[Course], widths: Sequence[int]) -> _Steps:
  rows = []
  for course in courses:
    entered = done = 0
    before = course.plan[0]._replace(arms=0, stage=-1)
    for number, r in enumerate(course.finished):
      opens = r.stage != before.stage
      if opens:
        entered, done, before = entered + before.arms, 0, r
      width = sum(r.arms <= w for w in widths) - 1
      own = (number, r.arms, r.pulls, r.stage, opens, entered, done)
      rows.append((*own, width, course.capacity))
      done += r.pulls
  return _Steps(*np.asarray(rows, np.int32).T)


def _widths(rounds: Sequence[Round]) -> list[int]:
  """Array widths, each an eighth of the one before.

  A program for every number of arms would take long to compile, one for all
  would waste pulls.
  """
  widths = [max(r.arms for r in rounds)]
  smallest = min(r.arms for r in rounds)
  while widths[-1] > max(smallest, _SMALLEST_WIDTH):
    widths.append(-(-widths[-1] // _WIDTH_RATIO))
  return widths


def _leaders(
  courses: Sequence[Course], arena: _Arena
) -> tuple[jax.Array, jax.Array]:
  """Plays all rounds; returns `[G]` places and totals of their leaders."""
  widths = _widths([r for course in courses for r in course.finished])
  steps = _steps(courses, widths)
  largest = max(course.capacity for course in courses)
  several = bool(np.any(steps.stage > 0))
  num_places = arena.env.num_arms
  opening = np.flatnonzero(steps.opens)
  places = np.arange(num_places)
  stages = np.searchsorted(steps.entered[opening], places, side='right') - 1
  previous = _previous_places(arena.env) if several else None
  slots = jnp.arange(widths[0], dtype=jnp.int32)

  def open_stage(left: _Survivors, step: _Steps) -> _Survivors:
    arms = jnp.minimum(step.entered + slots, num_places - 1)
    seen = left.seen
    if seen is not None and previous is not None:
      earlier = jnp.where(previous >= 0, seen[previous], 0)
      seen = jnp.where(stages == step.stage, earlier, seen)
    return _Survivors(arms, jnp.zeros_like(left.totals), seen)

  def play(left: _Survivors, step: _Steps):
    left = jax.lax.cond(step.opens > 0, open_stage, lambda x, _: x, left, step)
    branches = [
      functools.partial(_play_round, arena, largest, w) for w in widths
    ]
    left = jax.lax.switch(step.width, branches, left, step)
    return left, (left.arms[0], left.totals[0])

  seen = jnp.zeros(num_places, jnp.int32) if several else None
  left = _Survivors(slots, jnp.zeros(widths[0], arena.dtype), seen)
  _, leaders = jax.lax.scan(play, left, jax.tree.map(jnp.asarray, steps))
  return leaders


def _previous_places(env) -> jax.Array:
  """For each place, the last one before it with the same arm, or -1."""
  places = jnp.arange(env.num_arms, dtype=jnp.int32)
  ids, places = jax.lax.sort((env.ids, places), num_keys=2)
  repeated = jnp.concatenate([jnp.zeros(1, bool), ids[1:] == ids[:-1]])
  before = jnp.where(repeated, jnp.roll(places, 1), -1)
  return jnp.zeros_like(places).at[places].set(before)


def _play_round(
  arena: _Arena, largest: int, width: int, left: _Survivors, step: _Steps
) -> _Survivors:
  """Pulls the first `step.arms` of `width` arms; orders them, best first."""
  arms, totals, seen = left.arms[:width], left.totals[:width], left.seen
  start = step.done if seen is None else seen[arms]
  new = arena.pull(arms, step.pulls, start)
  totals = totals + new if arena.pooled else new
  if seen is not None:
    active = jnp.arange(width) < step.arms
    seen = seen.at[arms].add(jnp.where(active, step.pulls, 0))
  order = plans.ranked(
    arena.tie_key,
    step.number,
    totals,
    step.arms,
    capacity=step.capacity,
    largest=largest,
  )
  return _Survivors(
    left.arms.at[:width].set(arms[order]),
    left.totals.at[:width].set(totals[order]),
    seen,
  )
