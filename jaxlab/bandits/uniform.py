"""Uniform allocation: every arm is pulled equally often."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.bandits import elimination_plan as plans
from jaxlab.bandits import envs, ranking
from jaxlab.bandits.subset import random_arms, refuse_live
from jaxlab.bandits.types import Algorithm, Engine, Recommendation, RunResult


class State(NamedTuple):
  """State of uniform allocation on S arms.

  Attributes:
    tie_key: PRNG key of the comparisons.
    order: `[S]` int32: the arms in the order of their pulls.
    visited: int32: arms that have been pulled.
    best: the largest mean so far.
    priority: uint32 random number of the best arm, against equal means.
  """

  tie_key: jax.Array
  order: jax.Array
  visited: jax.Array
  best: Recommendation
  priority: jax.Array


@functools.lru_cache(maxsize=None, typed=True)
def uniform(budget: int | None) -> Algorithm:
  """Uniform allocation of a known budget T.

  With T < N, T random arms are pulled once. Otherwise each arm is pulled
  floor(T / N) times, and the first T mod N arms of a random order once more.
  Each arm gets all its pulls at once. The largest mean is recommended; before
  the budget is spent, the largest among the arms that have been pulled.

  Args:
    budget: number of single pulls; None, in simulations: each checkpoint is
      the budget of a separate run of the same replication.

  Raises:
    ValueError: if the budget is below 1.
  """
  if budget is not None:
    plans.check_positive('budget', budget)
  return Algorithm(
    refuse_live if budget is None else functools.partial(_init, budget),
    functools.partial(_ask, budget or 0),
    _tell,
    lambda state: state.best,
    Engine(functools.partial(_enter, budget), functools.partial(_play, budget)),
  )


def _enter(
  planned: int | None, key: jax.Array, num_arms: int, budget: int
) -> jax.Array:
  plans.check_positive('num_arms', num_arms)
  size = min(planned or budget, num_arms)
  return random_arms(plans.run_keys(key)[0], num_arms, size)


def _init(budget: int, key: jax.Array, num_arms: int) -> State:
  order = _enter(budget, key, num_arms, budget)
  _, tie_key = plans.run_keys(key)
  zero = jnp.zeros((), jnp.int32)
  nobody = Recommendation(order[0], jnp.full((), jnp.nan), zero)
  return State(tie_key, order, zero, nobody, zero.astype(jnp.uint32))


def _ask(budget: int, state: State) -> tuple[jax.Array, jax.Array]:
  size = state.order.shape[0]
  each, extra = divmod(budget, size)
  n = each + (state.visited < extra)
  n = jnp.where(state.visited < size, n, 0).astype(jnp.int32)
  return state.order[state.visited], n


def _tell(state: State, arm, total, n, total_squares=None) -> State:
  del total_squares
  n = jnp.asarray(n, jnp.int32)
  mean = plans.mean(jnp.asarray(total, state.best.mean.dtype), n)
  priority = ranking.priorities(state.tie_key, 0, state.visited)
  wins = (state.visited == 0) | plans.beats(
    mean, priority, state.best.mean, state.priority
  )
  new = Recommendation(jnp.asarray(arm, jnp.int32), mean, n)
  best, priority = jax.tree.map(
    lambda a, b: jnp.where(wins, a, b),
    (new, priority),
    (state.best, state.priority),
  )
  return state._replace(visited=state.visited + 1, best=best, priority=priority)


def _visits(budget: int, size: int, checkpoint: int) -> tuple[int, int, int]:
  """Arms that are pulled by a checkpoint, their pulls, and pulls left over."""
  each, extra = divmod(budget, size)
  visits = min(checkpoint // (each + 1), extra)
  if visits == extra:
    rest = checkpoint - extra * (each + 1)
    visits += min(rest // each, size - extra)
  spent = visits * each + min(visits, extra)
  return visits, spent, checkpoint - spent if visits < size else 0


def _play(
  planned: int | None,
  key: jax.Array,
  reward_key: jax.Array,
  env: envs.Environment,
  num_arms: int,
  budget: int,
  checkpoints: tuple[int, ...],
) -> RunResult:
  del num_arms, budget
  plans_made = (planned,) if planned else checkpoints
  looks = [checkpoints] if planned else [(point,) for point in checkpoints]
  rows = []
  for total, points in zip(plans_made, looks, strict=True):
    size = min(total, env.num_arms)
    each, extra = divmod(total, size)
    positions = [_visits(total, size, point) for point in points]
    rows.append((each, extra, positions))
  # `[runs]`, `[runs]` and `[3, runs, checkpoints of a run]`.
  each, extra = np.asarray([row[:2] for row in rows], np.int32).T
  visits, spent, pending = np.asarray([row[2] for row in rows], np.int32).T
  play = functools.partial(_best_visited, key, reward_key, env, visits.max())
  best = jax.lax.map(
    lambda row: play(*row),
    jax.tree.map(jnp.asarray, (each, extra, visits.T)),
  )
  best = jax.tree.map(jnp.ravel, best)
  return RunResult(
    best.arm,
    best.mean,
    best.pulls,
    jnp.asarray(spent.T.ravel()),
    jnp.asarray(pending.T.ravel()),
  )


def _best_visited(
  key, reward_key, env: envs.Environment, most: int, each, extra, visits
) -> Recommendation:
  """The best of the first `visits` arms, at most `most`, for each count."""
  if most == 0:
    unknown = jnp.full(visits.shape, jnp.nan)
    return Recommendation(visits, unknown, visits)
  arms = jnp.arange(most, dtype=jnp.int32)
  pulls = jnp.where(arms < visits.max(), each + (arms < extra), 0)
  totals, _ = env.sample(reward_key, arms, pulls)
  means = plans.mean(totals, pulls)
  priority = ranking.priorities(plans.run_keys(key)[1], 0, arms)
  best = plans.best_so_far(means, priority, visits)
  none = visits == 0
  return Recommendation(
    best,
    jnp.where(none, jnp.nan, means[best]),
    jnp.where(none, 0, pulls[best]),
  )
