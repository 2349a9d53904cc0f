"""Box Thirding, one operation at a time: for live experiments and any budget.

The state has a fixed size, so the algorithm can be stepped inside `jit`,
mapped over replications and saved between two answers of a slow experiment.

Reference: Hwang and Park, "Box Thirding: Anytime Best Arm Identification under
Insufficient Sampling", arXiv 2602.18186.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.bandits import randomness, ranking, schedule
from jaxlab.bandits.types import Recommendation

# What the pending pulls are for; the last two need none.
_ENTER, _LIFT, _REPULL, _DRAIN, _END, _STOP = range(6)
_MAX_PASSES = 28


class Settings(NamedTuple):
  """What fixes the behaviour of Box Thirding; all static.

  Attributes:
    t0: pulls of an arm that enters; doubles with each pass.
    growth: r in (1, 2).
    reuse: a lifted arm keeps its old pulls.
    reuse_shift: a shifted arm keeps its mean.
    recommend: 'top', 'lcb' or 'mean_all'.
    sigma: standard deviation of a reward; for 'lcb' only.
    max_levels: L, the size of the state.
    max_shifts: J, the number of boxes per level.
    max_passes: stop after so many passes through the pool.
  """

  t0: int
  growth: float
  reuse: bool
  reuse_shift: bool
  recommend: str
  sigma: float
  max_levels: int
  max_shifts: int
  max_passes: int


class B3State(NamedTuple):
  """The state of Box Thirding; arms are known by their order of entry.

  Attributes:
    keys: `[2]` keys: ties inside boxes, ties between recommendations.
    order: `[N]` int32: the arm that entered k-th in pass 1.
    entry: `[N]` int32: order of entry in this pass.
    entered: int32: how many have entered in this pass.
    sums: `[N]` float: sum of the rewards that count.
    counts: `[N]` int32: their number.
    boxes: `[L, J, 3]` int32 arms; places from `fill` on are meaningless.
    fill: `[L, J]` int32.
    processed: int32: PROCESS operations so far, over all passes.
    done: int32: operations so far.
    pass_number: int32.
    champion: the arm left by the last finished pass, and its mean and pulls.
    champion_quota: int32: pulls of its top level; 0 before.
    drain_level: int32: the level being drained, -1 before the drain.
    queue: `[D]` int32: arms to be lifted from it, best first; -1 is none.
    lifted: `[D]` int32: arms already lifted from it; -1 is none.
    action: int32: what the pending pulls are for.
    pending: int32 arm to be pulled.
    pulls: int32 number of its pulls.
    place: `[2]` int32: the box being processed.
    ranks: `[3]` int32: its places by rank, best first.
    repulled: int32: how many of its arms were pulled afresh.
  """

  keys: jax.Array
  order: jax.Array
  entry: jax.Array
  entered: jax.Array
  sums: jax.Array
  counts: jax.Array
  boxes: jax.Array
  fill: jax.Array
  processed: jax.Array
  done: jax.Array
  pass_number: jax.Array
  champion: Recommendation
  champion_quota: jax.Array
  drain_level: jax.Array
  queue: jax.Array
  lifted: jax.Array
  action: jax.Array
  pending: jax.Array
  pulls: jax.Array
  place: jax.Array
  ranks: jax.Array
  repulled: jax.Array


def algorithm_keys(key: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Splits the key of a run: the order of entry, and the two tie keys."""
  order_key, tie_key = jax.random.split(key)
  return order_key, jax.random.split(tie_key)


@functools.lru_cache(maxsize=None, typed=True)
def _quota_table(t0: int, growth: float, num_levels: int) -> np.ndarray:
  """`[P, L+1]` int32: the quotas of each pass."""
  passes = [
    schedule.quotas(min(t0 * 2**p, 2**31 - 1), growth, num_levels + 1)
    for p in range(_MAX_PASSES)
  ]
  return np.asarray(passes, np.int32)


def _quota(settings: Settings, state: B3State, level) -> jax.Array:
  table = _quota_table(settings.t0, settings.growth, settings.max_levels)
  return jnp.asarray(table)[state.pass_number, level]


def init(
  key: jax.Array,
  num_arms: int,
  settings: Settings,
  entry_order=None,
) -> B3State:
  """Starts a run on `num_arms` arms, in a random order unless one is given."""
  if num_arms < 1:
    raise ValueError(f'num_arms must be >= 1, got {num_arms}.')
  order_key, keys = algorithm_keys(key)
  if entry_order is None:
    entry_order = randomness.random_order(order_key, num_arms)
  levels, shifts = settings.max_levels, settings.max_shifts
  zero = jnp.zeros((), jnp.int32)
  none = jnp.full(_queue_size(settings), -1, jnp.int32)
  state = B3State(
    keys=keys,
    order=jnp.asarray(entry_order, jnp.int32),
    entry=jnp.arange(num_arms, dtype=jnp.int32),
    entered=zero,
    sums=jnp.zeros(num_arms),
    counts=jnp.zeros(num_arms, jnp.int32),
    boxes=jnp.zeros((levels, shifts, 3), jnp.int32),
    fill=jnp.zeros((levels, shifts), jnp.int32),
    processed=zero,
    done=zero,
    pass_number=zero,
    champion=Recommendation(zero, jnp.nan * jnp.zeros(()), zero),
    champion_quota=zero,
    drain_level=zero - 1,
    queue=none,
    lifted=none,
    action=zero,
    pending=zero,
    pulls=zero,
    place=jnp.zeros(2, jnp.int32),
    ranks=jnp.zeros(3, jnp.int32),
    repulled=zero,
  )
  if num_arms == 1:
    return state._replace(action=jnp.int32(_STOP))
  return _choose_entry(state, settings)


def ask(state: B3State) -> tuple[jax.Array, jax.Array]:
  """Returns the arm to pull next and how often; 0 pulls: finished."""
  return state.order[state.pending], state.pulls


def tell(
  state: B3State, arm, total, n, total_squares=None, *, settings: Settings
) -> B3State:
  """Takes the sum of the rewards that were asked for, and moves on."""
  del arm, total_squares
  state = _apply(state, total, n, settings)
  return _advance(state, settings)


def recommend(state: B3State, *, settings: Settings) -> Recommendation:
  """Returns the best arm so far, by the rule of the settings."""
  arms, levels, valid = _waiting(state, settings)
  priority = ranking.priorities(state.keys[1], state.done, arms)
  means = _mean(state, arms)
  top = jnp.max(jnp.where(valid, levels, -1))
  if settings.recommend == 'mean_all':
    everyone = jnp.arange(state.order.shape[0], dtype=jnp.int32)
    priority = ranking.priorities(state.keys[1], state.done, everyone)
    known = state.counts > 0
    best = ranking.argbest(_mean(state, everyone), priority, known)
    return _describe(state, best)
  if settings.recommend == 'lcb':
    spread = jnp.sqrt(
      2 * jnp.log1p(jnp.sum(valid)) / jnp.maximum(state.counts[arms], 1)
    )
    means = means - settings.sigma * spread
    chosen = arms[ranking.argbest(means, priority, valid)]
  else:
    chosen = arms[ranking.argbest(means, priority, valid & (levels == top))]
  # An arm that has merely entered the next pass has won nothing yet.
  quota = _quota(settings, state, jnp.maximum(top, 0))
  older = (top < 1) | (quota <= state.champion_quota)
  use_champion = older & (state.champion_quota > 0)
  return jax.tree.map(
    lambda a, b: jnp.where(use_champion, a, b),
    state.champion,
    _describe(state, chosen),
  )


def _describe(state: B3State, chosen: jax.Array) -> Recommendation:
  """The recommendation of an arm; of the first one if none was pulled."""
  nothing = jnp.all(state.counts == 0)
  chosen = jnp.where(nothing, 0, chosen)
  mean = jnp.where(nothing, jnp.nan, _mean(state, chosen))
  return Recommendation(state.order[chosen], mean, state.counts[chosen])


def _mean(state: B3State, arms: jax.Array) -> jax.Array:
  counts = jnp.maximum(state.counts[arms], 1)
  mean = state.sums[arms] / counts.astype(state.sums.dtype)
  # An exhausted table gives nan: it goes to the top, where it is seen.
  return jnp.where(jnp.isnan(mean), jnp.inf, mean)


def _queue_size(settings: Settings) -> int:
  """At most two arms wait in a box, and half of those below join them."""
  return 4 * settings.max_shifts + 2


def _waiting(state: B3State, settings: Settings):
  """The waiting arms `[W]`, their levels, and which places hold one."""
  levels, shifts = settings.max_levels, settings.max_shifts
  level_of_box = np.repeat(np.arange(levels), shifts * 3)
  in_box = (jnp.arange(3) < state.fill[..., None]).ravel()
  size = state.queue.shape[0]
  arms = jnp.concatenate([state.boxes.ravel(), state.queue, state.lifted])
  drained = jnp.full(size, 1, jnp.int32) * state.drain_level
  level = jnp.concatenate([jnp.asarray(level_of_box), drained, drained + 1])
  valid = jnp.concatenate([in_box, state.queue >= 0, state.lifted >= 0])
  return jnp.maximum(arms, 0), level, valid


def _needed(state: B3State, arm, target, settings: Settings) -> jax.Array:
  """Pulls that bring an arm to its quota."""
  if settings.reuse:
    return jnp.maximum(target - state.counts[arm], 0)
  return target


def _advance(state: B3State, settings: Settings) -> B3State:
  """Finds the next pulls to make; applies operations that need none."""

  def free(state):
    return (state.pulls == 0) & (state.action != _STOP)

  def step(state):
    # `pulls == 0` with a chosen action is an operation that costs nothing.
    zero = jnp.zeros((), state.sums.dtype)
    return _choose(_apply(state, zero, 0, settings), settings)

  return jax.lax.while_loop(free, step, _choose(state, settings))


def _apply(state: B3State, total, n, settings: Settings) -> B3State:
  """Books the pending pulls and carries out what they were for."""
  arm = state.pending
  add = settings.reuse & (state.action != _REPULL)
  total = jnp.asarray(total, state.sums.dtype) + jnp.where(
    add, state.sums[arm], 0
  )
  count = jnp.asarray(n, jnp.int32) + jnp.where(add, state.counts[arm], 0)
  pulled = jnp.asarray(n) > 0
  state = state._replace(
    sums=state.sums.at[arm].set(jnp.where(pulled, total, state.sums[arm])),
    counts=state.counts.at[arm].set(
      jnp.where(pulled, count, state.counts[arm])
    ),
  )
  return jax.lax.switch(
    state.action,
    [_enter, _lift, _repull, _drain, lambda s: s, lambda s: s],
    state,
  )


def _put(state: B3State, arm, level, shift) -> B3State:
  place = state.fill[level, shift]
  return state._replace(
    boxes=state.boxes.at[level, shift, place].set(arm, mode='drop'),
    fill=state.fill.at[level, shift].add(1, mode='drop'),
  )


def _enter(state: B3State) -> B3State:
  state = state._replace(entered=state.entered + 1, done=state.done + 1)
  return _put(state, state.pending, 0, 0)


def _lift(state: B3State) -> B3State:
  level, shift = state.place
  best, median, _ = state.boxes[level, shift][state.ranks]
  state = state._replace(
    fill=state.fill.at[level, shift].set(0),
    processed=state.processed + 1,
    done=state.done + 1,
    repulled=jnp.zeros((), jnp.int32),
  )
  return _put(_put(state, best, level + 1, 0), median, level, shift + 1)


def _repull(state: B3State) -> B3State:
  return state._replace(repulled=state.repulled + 1)


def _drain(state: B3State) -> B3State:
  place = state.place[1]
  return state._replace(
    lifted=state.lifted.at[place].set(state.queue[place]),
    queue=state.queue.at[place].set(-1),
    done=state.done + 1,
  )


def _choose(state: B3State, settings: Settings) -> B3State:
  """Chooses the next operation: deepest full box, new arm, or drain."""
  flat = state.fill.ravel()
  places = jnp.arange(flat.size, dtype=jnp.int32)
  deepest = jnp.max(jnp.where(flat == 3, places, -1))
  pool_left = state.entered < state.order.shape[0]
  case = jnp.where(deepest >= 0, 0, jnp.where(pool_left, 1, 2))
  return jax.lax.switch(
    case,
    [
      lambda s: _choose_process(s, deepest, settings),
      lambda s: _choose_entry(s, settings),
      lambda s: _choose_drain(s, settings),
    ],
    state,
  )


def _choose_entry(state: B3State, settings: Settings) -> B3State:
  arm = state.entry[state.entered]
  need = _needed(state, arm, _quota(settings, state, 0), settings)
  return state._replace(
    action=jnp.int32(_ENTER), pending=arm, pulls=need.astype(jnp.int32)
  )


def _choose_process(state, deepest, settings: Settings) -> B3State:
  level, shift = jnp.divmod(deepest, settings.max_shifts)
  arms = state.boxes[level, shift]
  # Arms with equally many pulls are compared by their exact sums.
  counts, sums = state.counts[arms], state.sums[arms]
  equal = jnp.all(counts == counts[0]) & ~jnp.any(jnp.isnan(sums))
  first, second, third = jnp.where(equal, sums, _mean(state, arms))
  word = randomness.words(state.keys[0], state.processed)[0]
  one, two, three = jnp.arange(3, dtype=jnp.int32)
  best, median, worst = ranking.sort_three(
    (first, second, third), word, (one, two, three)
  )
  target = _quota(settings, state, level + 1)
  need = _needed(state, arms[best], target, settings)
  has_room = level + 1 < settings.max_levels
  state = state._replace(
    action=jnp.where(has_room, _LIFT, _STOP).astype(jnp.int32),
    pending=arms[best],
    pulls=jnp.where(has_room, need, 0).astype(jnp.int32),
    place=jnp.stack([level, shift]).astype(jnp.int32),
    ranks=jnp.stack([best, median, worst]),
  )
  if settings.reuse_shift:
    return state
  again = (shift > 0) & (state.repulled < 3)
  return state._replace(
    action=jnp.where(again, _REPULL, _LIFT).astype(jnp.int32),
    pending=jnp.where(again, arms[state.repulled % 3], state.pending),
    pulls=jnp.where(again, _quota(settings, state, level), state.pulls),
  )


def _choose_drain(state: B3State, settings: Settings) -> B3State:
  """The next lift of the drain, or the end of the pass."""
  level_done = jnp.all(state.queue < 0)
  last = level_done & (_num_waiting(state) <= 1)
  state = jax.tree.map(
    lambda a, b: jnp.where(level_done & ~last, a, b),
    _next_drain_level(state, settings),
    state,
  )
  place = jnp.argmax(state.queue >= 0)
  arm = jnp.maximum(state.queue[place], 0)
  target = _quota(settings, state, state.drain_level + 1)
  lift = state._replace(
    action=jnp.int32(_DRAIN),
    pending=arm,
    pulls=_needed(state, arm, target, settings).astype(jnp.int32),
    place=jnp.stack([state.drain_level, place]).astype(jnp.int32),
  )
  finished = _end_pass(state, settings)
  return jax.tree.map(lambda a, b: jnp.where(last, a, b), finished, lift)


def _num_waiting(state: B3State) -> jax.Array:
  return (
    jnp.sum(state.fill) + jnp.sum(state.queue >= 0) + jnp.sum(state.lifted >= 0)
  )


def _next_drain_level(state: B3State, settings: Settings) -> B3State:
  """Queues the better half of the lowest level that holds an arm."""
  size = state.queue.shape[0]
  in_box = jnp.any(state.fill > 0, -1)
  first = jnp.where(jnp.any(in_box), jnp.argmax(in_box), settings.max_levels)
  holds = jnp.any(state.lifted >= 0)
  level = jnp.where(holds, state.drain_level + 1, first).astype(jnp.int32)
  inside = jnp.arange(3) < state.fill[level][:, None]
  boxed = jnp.where(inside, state.boxes[level], -1).ravel()
  arms = jnp.concatenate([boxed, state.lifted])
  valid = arms >= 0
  arms = jnp.maximum(arms, 0)
  count = jnp.sum(valid)
  kept = jnp.where(count >= 2, (count + 1) // 2, count)
  priority = drain_priorities(state.keys[1], state.pass_number, level, arms)
  means = jnp.where(valid, _mean(state, arms), -jnp.inf)
  order = jnp.lexsort((~priority, -means, ~valid))[:size]
  chosen = jnp.where(jnp.arange(size) < kept, arms[order], -1)
  return state._replace(
    queue=chosen.astype(jnp.int32),
    lifted=jnp.full(size, -1, jnp.int32),
    fill=state.fill.at[level].set(0),
    drain_level=level,
  )


def drain_priorities(key, pass_number, level, arms) -> jax.Array:
  """Random numbers that order equal means when a level is drained."""
  drain_key = jax.random.fold_in(jax.random.fold_in(key, 2**30), pass_number)
  return ranking.priorities(drain_key, level, arms)


def _end_pass(state: B3State, settings: Settings) -> B3State:
  """Crowns the last waiting arm and lets all arms enter again."""
  arms, levels, valid = _waiting(state, settings)
  champion = arms[jnp.argmax(valid)]
  top = jnp.max(jnp.where(valid, levels, 0))
  next_pass = state.pass_number + 1
  entry_key = jax.random.fold_in(
    jax.random.fold_in(state.keys[1], 2**30 + 1), next_pass
  )
  last = (next_pass >= settings.max_passes) | (next_pass >= _MAX_PASSES)
  size = state.queue.shape[0]
  return state._replace(
    champion=_describe(state, champion),
    champion_quota=_quota(settings, state, top),
    pass_number=jnp.where(last, state.pass_number, next_pass),
    entry=randomness.random_order(entry_key, state.order.shape[0]),
    entered=jnp.zeros((), jnp.int32),
    fill=jnp.zeros_like(state.fill),
    drain_level=jnp.int32(-1),
    queue=jnp.full(size, -1, jnp.int32),
    lifted=jnp.full(size, -1, jnp.int32),
    pulls=jnp.int32(0),
    action=jnp.where(last, _STOP, _END).astype(jnp.int32),
  )
