"""Runs an algorithm on an environment: once, or in many replications."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from jaxlab import parallel
from jaxlab.bandits import envs
from jaxlab.bandits.stepping import checked_checkpoints, play_steps
from jaxlab.bandits.types import Algorithm, RunResult

_WORKING_BYTES = 2**15  # of a replication, whatever the number of arms
_WORKING_BYTES_PER_ARM = 96  # peak of a replication, measured
_CACHE_BYTES = 2**23  # a CPU is twice as fast on what its caches hold


class SimResult(NamedTuple):
  """R replications looked at after each of C checkpoints.

  Attributes:
    arms: `[R, C]` int32 recommended arms.
    means: `[R, C]` float: their estimated means.
    pulls: `[R, C]` int32: the pulls behind the estimates.
    spent: `[R, C]` int32: pulls of completed operations.
    pending: `[R, C]` int32: pulls of an operation that did not fit any more.
    true_means: `[R, C]` float: the true means of the arms.
    best_mean: `[]` float (`[R]` for a batch of environments): the largest
      true mean of the whole pool.
    checkpoints: `[C]` int.
  """

  arms: np.ndarray
  means: np.ndarray
  pulls: np.ndarray
  spent: np.ndarray
  pending: np.ndarray
  true_means: np.ndarray
  best_mean: np.ndarray
  checkpoints: np.ndarray


def run(
  key: jax.Array,
  algorithm: Algorithm,
  env: envs.Environment,
  budget: int,
  checkpoints: Sequence[int] | None = None,
) -> RunResult:
  """Runs ask and tell until the budget is spent.

  A batch of pulls that the rest of the budget cannot pay for is not told to
  the algorithm; it is counted in `pending`. Compiled, vmappable over `key`
  and `env`.

  Args:
    key: PRNG key; one half drives the algorithm, the other the rewards.
    algorithm: its `ask`, `tell` and `recommend` are used.
    env: the environment, of N arms.
    budget: number of single pulls (static).
    checkpoints: increasing budgets at which to recommend; `(budget,)` if
      not given (static).

  Returns:
    `RunResult` with leaves `[C]`.
  """
  points = checked_checkpoints(budget, checkpoints)
  algorithm_key, reward_key = jax.random.split(key)
  return play_steps(algorithm, algorithm_key, reward_key, env, points)


def simulate(
  key: jax.Array,
  algorithm: Algorithm,
  env: envs.Environment,
  *,
  budget: int,
  replications: int,
  checkpoints: Sequence[int] | None = None,
  devices: Sequence[jax.Device] | None = None,
  chunk: int | None = None,
  max_bytes: int = 2**30,
  progress: Callable[[int], None] | None = None,
) -> SimResult:
  """Runs many independent replications, spread over all devices.

  Replication r is a function of `(key, r)` alone: the results are the same
  whatever the chunk size and the number of devices.

  Args:
    key: PRNG key.
    algorithm: its engine is used where it has one, `run` otherwise. Pass the
      same object again to reuse the compiled program.
    env: one environment, or a batch of `replications` of them (leading axis).
    budget: number of single pulls of each replication.
    replications: R.
    checkpoints: increasing budgets at which to recommend; `(budget,)` if not
      given.
    devices: all by default.
    chunk: replications run at once on each device; by default as many as
      `max_bytes` allows.
    max_bytes: rough bound of the working memory in bytes.
    progress: called with the number of finished replications.

  Raises:
    ValueError: on a bad budget or bad checkpoints, or if a table of recorded
      rewards was exhausted.
  """
  points = checked_checkpoints(budget, checkpoints)
  if replications < 1:
    raise ValueError(f'replications must be >= 1, got {replications}.')
  batched = _is_batched(env)
  if batched and env.ids.shape[0] != replications:
    raise ValueError(
      f'env is a batch of {env.ids.shape[0]} environments but replications is '
      f'{replications}: give as many.'
    )
  mesh = parallel.mesh(('rep',), devices=devices)
  entered = _num_entering(algorithm, env.num_arms, budget)
  if chunk is not None and chunk < 1:
    raise ValueError(f'chunk must be >= 1, got {chunk}.')
  size = _WORKING_BYTES + _bytes_per_arm(env) * entered
  if chunk is None:
    chunk = max(1, max_bytes // size)
  chunk = min(chunk, replications)
  is_cpu = mesh.devices.flat[0].platform == 'cpu'
  at_once = max(1, _CACHE_BYTES // size) if is_cpu else None
  pool = min(env.num_arms, entered + 1)
  play = _play_program(algorithm, pool, budget, points, mesh, batched, at_once)
  enter = _enter_program(algorithm, env.num_arms, budget, mesh, batched)
  keys = parallel.replication_keys(key, replications)
  parts = []
  for first in range(0, replications, chunk):
    rows = np.minimum(np.arange(first, first + chunk), replications - 1)
    part_env = jax.tree.map(lambda leaf: leaf[rows], env) if batched else env  # noqa: B023
    if enter is None:
      result = play(keys[rows], part_env)
    else:
      shared = {name: getattr(part_env, name) for name in env.shared}
      arms, entered_env = enter(keys[rows], part_env)
      result = play(keys[rows], arms, entered_env, shared)
    kept = min(chunk, replications - first)
    parts.append(jax.tree.map(lambda x: x[:kept], parallel.gather(result)))  # noqa: B023
    if progress is not None:
      progress(first + kept)
  run_result, true_means = jax.tree.map(lambda *x: np.concatenate(x), *parts)
  if _is_exhausted(run_result):
    raise ValueError(
      'a table of recorded rewards was exhausted within the budget '
      f'{budget}: lower the budget or build it with recycle=True.'
    )
  best = np.asarray(parallel.gather(env.best_mean()))
  return SimResult(
    **run_result._asdict(),
    true_means=true_means,
    best_mean=best,
    checkpoints=np.asarray(points),
  )


@functools.cache
def _enter_program(algorithm, num_arms, budget, mesh, batched):
  """The program that draws the entering arms; None without an engine."""
  if algorithm.engine is None:
    return None

  def enter(key, env):
    algorithm_key, _ = jax.random.split(key)
    arms = algorithm.engine.enter(algorithm_key, num_arms, budget)
    taken = env.take(arms)
    return arms, dataclasses.replace(taken, **dict.fromkeys(env.shared))

  return parallel.sharded_vmap(
    enter, in_axes=(0, 0 if batched else None), mesh=mesh
  )


@functools.cache
def _play_program(algorithm, pool, budget, points, mesh, batched, at_once):
  """The program that plays the replications, after the arms have entered.

  It depends on the size of the pool only as far as the pool can run empty, so
  environments of different sizes share one compiled program.
  """

  def play_engine(key, arms, env, shared):
    env = dataclasses.replace(env, **shared)
    algorithm_key, reward_key = jax.random.split(key)
    result = algorithm.engine.play(
      algorithm_key, reward_key, env, pool, budget, points
    )
    true_means = env.mean(reward_key, result.arms)
    return result._replace(arms=arms[result.arms]), true_means

  def play_steps(key, env):
    result = run(key, algorithm, env, budget, points)
    _, reward_key = jax.random.split(key)
    return result, env.mean(reward_key, result.arms)

  if algorithm.engine is None:
    return parallel.sharded_vmap(
      play_steps, in_axes=(0, 0 if batched else None), mesh=mesh, chunk=at_once
    )
  return parallel.sharded_vmap(
    play_engine,
    in_axes=(0, 0, 0, 0 if batched else None),
    mesh=mesh,
    chunk=at_once,
  )


def _num_entering(algorithm: Algorithm, num_arms: int, budget: int) -> int:
  if algorithm.engine is None:
    return num_arms
  enter = algorithm.engine.enter
  arms = jax.eval_shape(lambda k: enter(k, num_arms, budget), jax.random.key(0))
  return arms.shape[0]


def _bytes_per_arm(env: envs.Environment) -> int:
  own = sum(
    getattr(env, f.name).nbytes
    for f in dataclasses.fields(env)  # type: ignore[arg-type]
    if f.name not in env.shared and not f.metadata.get('static')
  )
  own //= max(env.ids.size, 1)
  return own + _WORKING_BYTES_PER_ARM


def _is_batched(env: envs.Environment) -> bool:
  return env.ids.ndim > 1


def _is_exhausted(result: RunResult) -> bool:
  return bool(np.any(~np.isfinite(result.means) & (result.pulls > 0)))
