"""Box Thirding level by level: the same runs as `b3`, as one array program.

The schedule says which arrivals of a box meet in which operation, so all
operations of a box are done at once: reshape to triples, one compare-exchange
network, and a permutation that puts the lifted arms in their order of arrival
at the next level. The depth of the program is the number of boxes, whatever
the number of arms.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.bandits import envs, randomness, ranking
from jaxlab.bandits.schedule import Box, Schedule
from jaxlab.bandits.types import Recommendation

# Boxes with more arrivals stay out of the loop over the boxes of a level, which
# would pad the others to their size; with fewer one loop compiles faster.
_LOOP_MAX = 384


class Arms(NamedTuple):
  """Arms at one level.

  Attributes:
    entry: `[...]` int32 order of entry.
    total: `[...]` float: sum of the rewards that count at this level.
    pulled: `[...]` int32: all pulls of the arm so far; None where the level
      alone determines them.
  """

  entry: jax.Array
  total: jax.Array
  pulled: jax.Array | None


class PassOne(NamedTuple):
  """All that happened in pass 1.

  Attributes:
    boxes: for each box, all its arrivals: `Arms` of `[>= n]`; what lies behind
      the n arrivals is meaningless.
    discarded: for each box, the arms it discarded.
    places: where a large box keeps its arrivals, the first to come first, and
      where the box before keeps what it discards; the arms of all other boxes
      lie in order.
  """

  boxes: dict[Box, Arms]
  discarded: dict[Box, Arms]
  places: dict[Box, np.ndarray]

  def arrivals(self, box: Box, rows: range) -> Arms:
    """Some of the arrivals of a box, in the order in which they came."""
    return _rows(self.boxes[box], self.places.get(box), rows)

  def lost(self, box: Box, rows: range) -> Arms:
    """Some of the arms that a box discarded, in the order of operations."""
    after = box[0], box[1] + 1
    return _rows(self.discarded[box], self.places.get(after), rows)


def _rows(arms: Arms, places: np.ndarray | None, rows: range) -> Arms:
  chosen = slice(rows.start, rows.stop)
  index = chosen if places is None else places[chosen]
  return jax.tree.map(lambda x: x[index], arms)


def play_pass_one(
  keys: jax.Array, reward_key: jax.Array, env: envs.Environment, plan: Schedule
) -> PassOne:
  """Carries out the schedule on the entered arms.

  Args:
    keys: `[2]` keys, as `b3.algorithm_keys` gives them; the first is used.
    reward_key: key of the rewards.
    env: environment of the `plan.entered` arms in their order of entry.
    plan: the schedule.
  """
  places = [_places(plan, level) for level in range(plan.num_levels)]
  order = np.argsort(places[0][0]) if places else np.arange(plan.entered)
  index = jnp.asarray(order, jnp.int32)
  zero = jnp.zeros(plan.entered, jnp.int32)
  arrivals = Arms(index, None, None if plan.reuse_shift else zero)  # type: ignore[arg-type]
  arrivals = pull(reward_key, env, plan, 0, arrivals)
  ties = jax.vmap(lambda i: randomness.words(keys[0], i)[0])(
    jnp.arange(plan.num_process, dtype=jnp.int32)
  )
  boxes: dict[Box, Arms] = {}
  discarded: dict[Box, Arms] = {}
  for level in range(plan.num_levels):
    above = places[level + 1][0] if level + 1 < plan.num_levels else None
    played = _play_level(
      reward_key, env, plan, level, arrivals, ties, places[level], above
    )
    for shift, box in enumerate(played.boxes):
      boxes[level, shift] = box
    for shift, lost in enumerate(played.discarded):
      discarded[level, shift] = lost
    if played.lifted is not None:
      arrivals = pull(reward_key, env, plan, level + 1, played.lifted)
  kept = {
    (level, shift): place
    for level, of_level in enumerate(places)
    for shift, place in enumerate(of_level[:-1])
  }
  return PassOne(boxes, discarded, kept)


def _numbers(plan: Schedule, level: int) -> list[np.ndarray]:
  """For each box of a level, the numbers of the operations that empty it."""
  numbers: list[np.ndarray] = []
  while (level, len(numbers)) in plan.process_numbers:
    numbers.append(plan.process_numbers[level, len(numbers)])
  return numbers


def _places(plan: Schedule, level: int) -> list[np.ndarray]:
  """Where the large boxes of a level, and the one after, keep their arrivals.

  The three arms of an operation lie a block apart, so that whole blocks are
  compared, which is much faster than every third arm; the operations are
  ordered such that the medians come out as the next box keeps them.
  """
  counts = [len(here) for here in _numbers(plan, level)]
  large = sum(3 * count > _LOOP_MAX for count in counts)
  large = max(large, int(not plan.reuse_shift and len(counts) > 0))
  arrived = [_num_arrivals(plan, level), *counts]
  places = [np.arange(arrived[large])]
  for size, count in zip(
    arrived[:large][::-1], counts[:large][::-1], strict=True
  ):
    place = np.arange(size)
    triples = place[: 3 * count]
    place[: 3 * count] = triples % 3 * count + places[0][triples // 3]
    places.insert(0, place)
  return places


def _num_arrivals(plan: Schedule, level: int) -> int:
  if level == 0:
    return plan.entered
  return sum(len(here) for here in _numbers(plan, level - 1))


class _Level(NamedTuple):
  boxes: list[Arms]
  discarded: list[Arms]
  lifted: Arms | None  # in the order in which they arrive at the next level


def _play_level(
  reward_key, env, plan, level, arrivals, ties, places, above
) -> _Level:
  """Empties the boxes of one level; the arms shifted meet in the next box.

  The small boxes are steps of one loop over arrays of the size of the first of
  them.
  """
  numbers = _numbers(plan, level)
  large = len(places) - 1
  # As the large boxes order their operations.
  numbers[:large] = [
    here[np.argsort(place)]
    for here, place in zip(numbers[:large], places[1:], strict=True)
  ]
  box, boxes, lifted, lost = arrivals, [arrivals], [], []
  process = functools.partial(_process, reward_key, env, plan, level)
  for shift, here in enumerate(numbers[:large]):
    blocks = [slice(p * len(here), (p + 1) * len(here)) for p in range(3)]
    best, box, worst = process(shift > 0, box, ties[here], blocks)
    boxes.append(box)
    lifted.append(best)
    lost.append(worst)
  later = numbers[large:]
  if later:
    groups = len(later[0])
    padded = np.zeros((len(later), groups), np.int32)
    for row, here in enumerate(later):
      padded[row, : len(here)] = here
    size = 3 * groups
    every_third = [slice(p, size, 3) for p in range(3)]

    def step(box, words):
      best, median, worst = process(True, box, words, every_third)
      median = jax.tree.map(lambda x: jnp.pad(x, (0, size - groups)), median)
      return median, (median, best, worst)

    first = jax.tree.map(lambda x: x[:size], box)
    _, (medians, best, worst) = jax.lax.scan(step, first, ties[padded])
    for row, here in enumerate(later):
      boxes.append(jax.tree.map(lambda x, r=row: x[r], medians))
      cut = functools.partial(_cut, row=row, size=len(here))
      lifted.append(jax.tree.map(cut, best))
      lost.append(jax.tree.map(cut, worst))
  if len(numbers) == plan.max_shifts:
    # The median of the last box of a level is discarded as well.
    lost.append(jax.tree.map(lambda x: x[: len(numbers[-1])], boxes.pop()))
  if not numbers:
    return _Level(boxes, lost, None)
  by_arrival = np.argsort(np.concatenate(numbers))
  if above is not None:
    by_arrival = by_arrival[np.argsort(above)]
  rising = jax.tree.map(lambda x: x[by_arrival], concatenate(lifted))
  return _Level(boxes, lost, rising)


def _cut(x: jax.Array, row: int, size: int) -> jax.Array:
  return x[row, :size]


def _process(reward_key, env, plan, level, shifted, box, words, slices):
  """Empties a box: `(best, median, worst)` of each of its triples.

  The first, second and third arms of the triples lie in the three `slices`.
  """
  box = jax.tree.map(lambda x: x[: slices[2].stop], box)
  if shifted and not plan.reuse_shift:
    box = _pull_afresh(reward_key, env, plan, level, box)
  a, b, c = (jax.tree.map(lambda x, s=where: x[s], box) for where in slices)
  return ranking.sort_three((a.total, b.total, c.total), words, (a, b, c))


def pull(
  reward_key: jax.Array,
  env: envs.Environment,
  plan: Schedule,
  level: int,
  arms: Arms,
) -> Arms:
  """Makes the pulls that arms make on arriving at a level."""
  new = plan.new_pulls(level)
  tracked = not plan.reuse_shift
  start: int | jax.Array = plan.pulls_before(level)
  if arms.pulled is not None:
    start = arms.pulled
  total, _ = env.sample(reward_key, arms.entry, new, level=level, start=start)
  if plan.reuse and level > 0:
    total = arms.total + total
  total = ranking.settled(total)
  pulled = jnp.broadcast_to(start + new, arms.entry.shape) if tracked else None
  return Arms(arms.entry, total, pulled)


def _pull_afresh(reward_key, env, plan: Schedule, level: int, arms: Arms):
  """Replaces the means of shifted arms by fresh ones (an ablation)."""
  assert arms.pulled is not None  # kept wherever means are drawn afresh
  quota = int(plan.quotas[level])
  total, _ = env.sample(
    reward_key, arms.entry, quota, level=level, start=arms.pulled
  )
  return Arms(arms.entry, ranking.settled(total), arms.pulled + quota)


def entry_arms(order_key: jax.Array, num_arms: int, entered: int) -> jax.Array:
  """The first arms of the random order of entry."""
  if num_arms == envs.UNBOUNDED:
    return jnp.arange(entered, dtype=jnp.int32)
  return randomness.random_order(order_key, num_arms, entered)


def waiting_places(plan: Schedule, done: int) -> dict[Box, range]:
  """The places (in order of arrival) that wait after `done` operations."""
  emptied = plan.num_emptied(done)
  result = {}
  for level in range(plan.num_levels):
    if level == 0:
      arrived = done - sum(emptied.values())
    else:
      arrived = sum(
        n for (below, _), n in emptied.items() if below == level - 1
      )
    for shift in range(plan.max_shifts):
      gone = emptied.get((level, shift), 0)
      if arrived > 3 * gone:
        result[level, shift] = range(3 * gone, arrived)
      arrived = gone
      if not gone:
        break
  return result


class Candidates(NamedTuple):
  """The arms that may be recommended at one checkpoint.

  Attributes:
    done: number of completed operations (static).
    level: the highest level that holds an arm; -1 before the first entry.
    arms: `[n]` arms; None if there is none.
    quotas: `[n]` NumPy int: the pulls behind each total.
  """

  done: int
  level: int
  arms: Arms | None
  quotas: np.ndarray


def waiting_candidates(
  played: PassOne, plan: Schedule, checkpoint: int, *, rule: str
) -> Candidates:
  """Collects the arms that `rule` chooses from after so many pulls.

  Args:
    played: pass 1.
    plan: its schedule.
    checkpoint: number of pulls.
    rule: 'top': the arms at the highest level that holds one; 'lcb': all
      waiting arms; 'mean_all': all arms that were ever pulled.
  """
  done = plan.num_done(checkpoint)
  places = waiting_places(plan, done)
  level = max((box[0] for box in places), default=-1)
  parts, quotas = [], []
  for box, found in places.items():
    if rule != 'top' or box[0] == level:
      parts.append(played.arrivals(box, found))
      quotas.append(np.full(len(found), plan.quotas[box[0]]))
  if rule == 'mean_all':
    emptied = plan.num_emptied(done)
    for box_level, shift in played.discarded:
      last = min(shift, plan.max_shifts - 1)
      rows = range(int(emptied.get((box_level, last), 0)))
      parts.append(played.lost((box_level, shift), rows))
      quotas.append(np.full(len(rows), plan.quotas[box_level]))
  if not parts:
    return Candidates(done, level, None, np.zeros(0, np.int64))
  return Candidates(done, level, concatenate(parts), np.concatenate(quotas))


def concatenate(parts: Sequence[Arms]) -> Arms:
  """Joins groups of arms."""
  return jax.tree.map(lambda *x: jnp.concatenate(x), *parts)


def recommend(
  key: jax.Array, candidates: Sequence[Candidates], *, rule: str, sigma: float
) -> Recommendation:
  """Recommends one arm per checkpoint.

  Groups of different sizes are padded to one `[C, W]` array, so that the
  choice is one small program whatever the number of checkpoints.

  Args:
    key: the key of ties between recommendations.
    candidates: C groups.
    rule: 'lcb' ranks by `mean - sigma sqrt(2 log(1 + n) / pulls)` among n
      arms; every other rule by the mean.
    sigma: standard deviation of a reward.

  Returns:
    A recommendation with leaves `[C]`.
  """
  width = max(1, *(len(c.quotas) for c in candidates))
  pads = [(0, width - len(c.quotas)) for c in candidates]
  filled = np.stack([np.arange(width) < len(c.quotas) for c in candidates])
  pulls = np.stack(
    [
      np.pad(c.quotas, pad, constant_values=1)
      for c, pad in zip(candidates, pads, strict=True)
    ]
  )
  nobody = Arms(jnp.zeros(0, jnp.int32), jnp.zeros(0), None)
  groups = [nobody if c.arms is None else c.arms for c in candidates]
  index = jnp.stack(
    [jnp.pad(g.entry, pad) for g, pad in zip(groups, pads, strict=True)]
  )
  total = jnp.stack(
    [jnp.pad(g.total, pad) for g, pad in zip(groups, pads, strict=True)]
  )
  means = total / pulls.astype(total.dtype)
  score = means
  if rule == 'lcb':
    num = filled.sum(-1, keepdims=True)
    score = means - sigma * np.sqrt(2 * np.log1p(num) / pulls)
  done = jnp.asarray([c.done for c in candidates], jnp.int32)
  priority = jax.vmap(lambda d, i: ranking.priorities(key, d, i))(done, index)
  place = ranking.argbest(score, priority, filled)[:, None]

  def chosen(array):
    return jnp.take_along_axis(jnp.asarray(array), place, 1)[:, 0]

  sampled = filled.any(-1)
  return Recommendation(
    chosen(index),
    jnp.where(sampled, chosen(means), jnp.nan),
    jnp.where(sampled, chosen(pulls), 0).astype(jnp.int32),
  )
