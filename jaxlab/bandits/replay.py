"""Environments that replay recorded rewards instead of drawing them."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.bandits import envs, randomness


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Table:
  """Recorded rewards, replayed in a random order without replacement.

  A run that asks for more pulls of an arm than were recorded gets nan sums,
  or, with `recycle`, goes through the record again in the same order (after
  a whole round the mean is exact).

  Attributes:
    rewards: `[M, H]` recorded rewards; places from `lengths` on are never read.
    rows: `[N]` int32: the row of each arm.
    lengths: `[N]` int32: how many rewards an arm has.
    recycle: `[N]` bool.
    ids: `[N]` int32: what the order of an arm is keyed by.
  """

  shared: ClassVar[tuple[str, ...]] = ('rewards',)

  rewards: jax.Array
  rows: jax.Array
  lengths: jax.Array
  recycle: jax.Array
  ids: jax.Array

  @property
  def num_arms(self) -> int:
    return self.rows.shape[-1]

  def sample(self, key, arm, n, level=0, start=0) -> envs.Totals:
    del level

    def one(arm, n, start):
      row, length = self.rows[arm], self.lengths[arm]
      place_of = _replay_order(
        key, self.ids[arm], length, self.rewards.shape[-1]
      )

      def pull(j):
        place = place_of(j % length)
        reward = envs.as_float(self.rewards[row, place])
        reward = jnp.where(self.recycle[arm] | (j < length), reward, jnp.nan)
        return jnp.stack([reward, reward**2])

      return tuple(envs.sum_pulls(pull, start, n))

    return envs.per_arm(one, arm, n, start)

  def take(self, arms: jax.Array) -> 'Table':
    return Table(
      self.rewards,
      self.rows[arms],
      self.lengths[arms],
      self.recycle[arms],
      self.ids[arms],
    )

  def mean(self, key, arm) -> jax.Array:
    del key
    rewards = envs.as_float(self.rewards[self.rows[arm]])
    length = self.lengths[arm][..., None]
    used = jnp.arange(rewards.shape[-1]) < length
    return jnp.sum(jnp.where(used, rewards / length, 0), -1)

  def best_mean(self) -> jax.Array:
    if self.ids.ndim > 1:
      return jax.vmap(Table.best_mean)(self)
    return jnp.max(self.mean(None, jnp.arange(self.num_arms)))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LevelTable:
  """Given sums per arm and level, for replays and tests.

  Attributes:
    sums: `[N, L]`: the sum of the new pulls of arm i on arriving at level l.
    ids: `[N]` int32 arm index.
  """

  shared: ClassVar[tuple[str, ...]] = ()
  sums: jax.Array
  ids: jax.Array

  @property
  def num_arms(self) -> int:
    return self.sums.shape[-2]

  def sample(self, key, arm, n, level=0, start=0) -> envs.Totals:
    del key, start
    arm, level = jnp.broadcast_arrays(jnp.asarray(arm), jnp.asarray(level))
    total = self.sums[arm, level]
    return total, total**2 / jnp.maximum(jnp.asarray(n), 1)

  def take(self, arms: jax.Array) -> 'LevelTable':
    return LevelTable(self.sums[arms], self.ids[arms])

  def mean(self, key, arm) -> jax.Array:
    del key
    return jnp.full(jnp.shape(arm), jnp.nan, self.sums.dtype)

  def best_mean(self) -> jax.Array:
    return jnp.full(self.sums.shape[:-2], jnp.nan, self.sums.dtype)


def table(rewards, lengths=None, *, recycle: bool = False) -> Table:
  """Replays recorded rewards without replacement.

  Args:
    rewards: `[N, H]` rewards, any numeric dtype.
    lengths: `[N]` how many of the H places of each arm are filled; all by
      default.
    recycle: whether an exhausted arm starts its record again; otherwise its
      sums are nan and `simulate` raises.

  Raises:
    ValueError: if an arm has no reward, or one that is not finite.
  """
  rewards = jnp.asarray(rewards)
  if rewards.ndim < 2:
    raise ValueError(f'rewards needs axes [N, H], got shape {rewards.shape}.')
  if lengths is None:
    lengths = jnp.full(rewards.shape[:-1], rewards.shape[-1], jnp.int32)
  lengths = jnp.asarray(lengths, jnp.int32)
  if lengths.shape != rewards.shape[:-1]:
    raise ValueError(
      f'lengths needs shape {rewards.shape[:-1]}, got {lengths.shape}.'
    )
  _check_record(rewards, lengths)
  ids = envs.arm_ids(rewards.shape[:-2], rewards.shape[-2])
  return Table(rewards, ids, lengths, jnp.full(lengths.shape, recycle), ids)


def _check_record(rewards, lengths) -> None:
  """Raises for a length out of range or a reward that is not finite."""
  if isinstance(lengths, jax.core.Tracer):
    return
  counts, most = np.asarray(lengths), rewards.shape[-1]
  if np.any((counts < 1) | (counts > most)):
    place = tuple(np.argwhere((counts < 1) | (counts > most))[0])
    raise ValueError(
      f'lengths{[int(i) for i in place]} is {counts[place]}; an arm needs 1 '
      f'to {most} rewards: drop arms that have none.'
    )
  if isinstance(rewards, jax.core.Tracer):
    return
  used = np.arange(most) < counts[..., None]
  wrong = used & ~np.isfinite(np.asarray(rewards))
  if wrong.any():
    place = tuple(np.argwhere(wrong)[0])
    raise ValueError(
      f'rewards{[int(i) for i in place]} is {np.asarray(rewards)[place]}; '
      'give finite rewards.'
    )


def level_table(sums) -> LevelTable:
  """Returns the given sum `sums[i, l]` when arm i arrives at level l."""
  sums = envs.as_float(sums)
  return LevelTable(sums, envs.arm_ids(sums.shape[:-2], sums.shape[-2]))


def _replay_order(key, arm_id, length, max_length: int):
  """Returns `j -> place`: a random order of the `length` recorded rewards."""
  if max_length > randomness.SORTED_ORDER_MAX:
    word = randomness.words(key, arm_id)
    num_bits = (max_length - 1).bit_length()
    return lambda j: randomness.replay_position(word, j, length, num_bits)
  # A bijection of few bits is far from uniform over all orders: sort instead.
  places = jnp.arange(max_length, dtype=jnp.int32)
  bits = jax.vmap(lambda i: randomness.words(key, arm_id, i)[0] >> 1)(places)
  order = jnp.argsort(jnp.where(places < length, bits, jnp.uint32(2**32 - 1)))
  return lambda j: order[j]
