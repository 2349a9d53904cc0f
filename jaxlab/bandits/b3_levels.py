"""Box Thirding level by level: the same runs as `b3`, as one array program.

The schedule says which arrivals of a box meet in which operation, so all
operations of a box are done at once: reshape to triples, one compare-exchange
network, and a permutation that puts the lifted arms in their order of arrival
at the next level. The depth of the program is the number of boxes, whatever
the number of arms.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.bandits import envs, randomness, ranking
from jaxlab.bandits.schedule import Box, Schedule
from jaxlab.bandits.types import Recommendation


class Arms(NamedTuple):
  """Arms at one level.

  Attributes:
    index: `[...]` int32 order of entry.
    total: `[...]` float: sum of the rewards that count at this level.
    pulled: `[...]` int32: all pulls of the arm so far; None where the level
      alone determines them.
  """

  index: jax.Array
  total: jax.Array
  pulled: jax.Array | None


class PassOne(NamedTuple):
  """All that happened in pass 1.

  Attributes:
    boxes: for each box, all its arrivals in order: `Arms` of `[n]`.
    discarded: for each box, the arms it discarded, in order.
  """

  boxes: dict[Box, Arms]
  discarded: dict[Box, Arms]


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
  numbers = jnp.arange(plan.num_process, dtype=jnp.int32)
  orders = jax.vmap(lambda i: randomness.tie_priorities(keys[0], i))(numbers)
  index = jnp.arange(plan.entered, dtype=jnp.int32)
  arrivals = pull(reward_key, env, plan, 0, Arms(index, None, None))  # type: ignore[arg-type]
  boxes: dict[Box, Arms] = {}
  discarded: dict[Box, Arms] = {}
  for level in range(plan.num_levels):
    box, lifted, lifted_by = arrivals, [], []
    for shift in range(plan.max_shifts):
      boxes[level, shift] = box
      numbers_here = plan.process_numbers.get((level, shift))
      if numbers_here is None:
        break
      triples = jax.tree.map(
        lambda x, n=len(numbers_here): x[: 3 * n].reshape(n, 3), box
      )
      if shift and not plan.reuse_shift:
        triples = _pull_afresh(reward_key, env, plan, level, triples)
      means = triples.total / int(plan.quotas[level])
      best, box, worst = ranking.sort_three(
        means, orders[numbers_here], triples
      )
      lifted.append(best)
      lifted_by.append(numbers_here)
      discarded[level, shift] = worst
    else:
      # The median of the last box of a level is discarded as well.
      discarded[level, plan.max_shifts] = box
    if not lifted:
      break
    by_arrival = np.argsort(np.concatenate(lifted_by))
    arrivals = jax.tree.map(
      lambda *parts: jnp.concatenate(parts)[by_arrival],  # noqa: B023
      *lifted,
    )
    arrivals = pull(reward_key, env, plan, level + 1, arrivals)
  return PassOne(boxes, discarded)


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
  start = plan.pulls_before(level)
  if arms.pulled is not None:
    start = arms.pulled
  total, _ = env.sample(reward_key, arms.index, new, level=level, start=start)
  if plan.reuse and level > 0:
    total = arms.total + total
  pulled = jnp.broadcast_to(start + new, arms.index.shape) if tracked else None
  return Arms(arms.index, total, pulled)


def _pull_afresh(reward_key, env, plan: Schedule, level: int, arms: Arms):
  """Replaces the means of shifted arms by fresh ones (an ablation)."""
  quota = int(plan.quotas[level])
  total, _ = env.sample(
    reward_key, arms.index, quota, level=level, start=arms.pulled
  )
  return Arms(arms.index, total, arms.pulled + quota)


def entry_arms(order_key: jax.Array, num_arms: int, entered: int) -> jax.Array:
  """The first arms of the random order of entry."""
  if num_arms == envs.UNBOUNDED:
    return jnp.arange(entered, dtype=jnp.int32)
  return randomness.random_order(order_key, num_arms)[:entered]


def waiting_places(plan: Schedule, done: int) -> dict[Box, range]:
  """The places (in order of arrival) that wait after `done` operations."""
  emptied = plan.num_emptied(done)
  result = {}
  for level in range(plan.num_levels):
    if level == 0:
      arrived = done - sum(emptied.values())
    else:
      arrived = sum(n for (l, _), n in emptied.items() if l == level - 1)
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
      rows = slice(found.start, found.stop)
      parts.append(jax.tree.map(lambda x, r=rows: x[r], played.boxes[box]))
      quotas.append(np.full(len(found), plan.quotas[box[0]]))
  if rule == 'mean_all':
    emptied = plan.num_emptied(done)
    for (box_level, shift), arms in played.discarded.items():
      last = min(shift, plan.max_shifts - 1)
      rows = slice(0, int(emptied.get((box_level, last), 0)))
      parts.append(jax.tree.map(lambda x, r=rows: x[r], arms))
      quotas.append(np.full(rows.stop, plan.quotas[box_level]))
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
    [jnp.pad(g.index, pad) for g, pad in zip(groups, pads, strict=True)]
  )
  total = jnp.stack(
    [jnp.pad(g.total, pad) for g, pad in zip(groups, pads, strict=True)]
  )
  means = total / pulls.astype(total.dtype)
  # An exhausted table gives nan: it goes to the top, where it is seen.
  means = jnp.where(jnp.isnan(means), jnp.inf, means)
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
