"""Where the batches of a training run come from, and how far it has read."""

import functools
import json
from collections.abc import Callable, Iterator
from typing import Any

import grain
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding

from jaxlab import errors
from jaxlab.harness import placement

_GRAIN = (
  grain.DataLoader,
  grain.DataLoaderIterator,
  grain.DatasetIterator,
  grain.IterDataset,
  grain.MapDataset,
)


class Drawn:
  """Batches that a pure function draws inside the compiled step."""

  def __init__(self, draw: Callable[[jax.Array], Any]):
    """Takes `draw(key) -> batch`."""
    self.draw = draw

  def read(self, step: int) -> None:
    """Nothing comes from the host."""

  def positions(self) -> list[str]:
    """The key and the step say all."""
    return []

  def seek(self, positions: list[str]) -> None:
    """The key and the step say all."""


class Arrays:
  """Shuffled rows of arrays in memory: a function of (key, step) alone.

  Rows that do not fill a batch at an epoch's end open the next epoch's first
  batch.
  """

  draw = None

  def __init__(
    self,
    arrays: Any,
    batch_size: int | None,
    keys: jax.Array,
    where: placement.Placement,
  ):
    """Checks the sizes.

    Args:
      arrays: tree of arrays `[n, ...]`.
      batch_size: rows in a batch, over all processes.
      keys: key of the order, or `[P]` for one order a member.
      where: how a batch is spread.

    Raises:
      UserError: if the arrays or the batch size do not fit.
    """
    self._arrays = jax.tree.map(np.asarray, arrays)
    leaves = jax.tree.leaves(self._arrays)
    lengths = {len(array) if array.ndim else 0 for array in leaves}
    if len(lengths) != 1 or 0 in lengths:
      raise errors.UserError(
        'arrays must have one common first axis with rows, got shapes'
        f' {[array.shape for array in leaves]}.'
      )
    self._num_rows = lengths.pop()
    if batch_size is None or not 1 <= batch_size <= self._num_rows:
      raise errors.UserError(
        f'batch_size={batch_size} must be from 1 to the {self._num_rows} rows'
        ' there are.'
      )
    self._size = batch_size
    words = np.asarray(jax.random.key_data(keys))
    self._seeds = [tuple(map(int, w)) for w in np.atleast_2d(words)]
    self._per_member = keys.ndim > 0
    self._where = where
    # The epoch that ends and the one that begins, of every member.
    self._order = functools.lru_cache(2 * len(self._seeds))(self._shuffle)
    self._where.check_batch(self._rows(0))

  def read(self, step: int) -> Any:
    """Returns the batch of this step, as the compiled update takes it."""
    rows = self._rows(step)
    if jax.process_count() == 1:
      return jax.tree.map(lambda array: array[rows], self._arrays)
    sharding = self._where.batch

    def make(array):
      def part(index: Any) -> np.ndarray:
        return array[rows[index[: rows.ndim]]]

      shape = rows.shape + array.shape[1:]
      return jax.make_array_from_callback(shape, sharding, part)

    return jax.tree.map(make, self._arrays)

  def positions(self) -> list[str]:
    """The key and the step say all."""
    return []

  def seek(self, positions: list[str]) -> None:
    """The key and the step say all."""

  def _rows(self, step: int) -> np.ndarray:
    """Returns `[B]` or `[P, B]` row numbers."""
    start = step * self._size
    first, last = (
      position // self._num_rows for position in (start, start + self._size - 1)
    )
    rows = [
      np.concatenate([self._order(s, e) for e in range(first, last + 1)])
      for s in self._seeds
    ]
    offset = start - first * self._num_rows
    chosen = np.stack(rows)[:, offset : offset + self._size]
    return chosen if self._per_member else chosen[0]

  def _shuffle(self, seed: tuple[int, ...], epoch: int) -> np.ndarray:
    return np.random.default_rng([*seed, epoch]).permutation(self._num_rows)


class Grain:
  """Batches of a grain pipeline; each process reads its own share."""

  draw = None

  def __init__(self, batches: Any, where: placement.Placement):
    """Starts reading."""
    if isinstance(batches, grain.MapDataset):
      batches = batches.to_iter_dataset()
    self._iterator: Iterator[Any] = iter(batches)
    self._where = where

  def read(self, step: int) -> Any:
    """Returns the next batch, as the compiled update takes it.

    Raises:
      UserError: if there is none.
    """
    try:
      batch = next(self._iterator)
    except StopIteration:
      raise errors.UserError(
        f'the batches ended after step {step}; repeat them (epochs=None), or'
        ' lower num_steps.'
      ) from None
    if jax.process_count() == 1:
      self._where.check_batch(batch)
      return batch
    sharding = self._where.batch
    return jax.tree.map(
      lambda rows: jax.make_array_from_process_local_data(sharding, rows), batch
    )

  def positions(self) -> list[str]:
    """Returns the position of every process, as text."""
    state = self._iterator.get_state()  # type: ignore[attr-defined]
    text = state.decode() if isinstance(state, bytes) else json.dumps(state)
    return _from_all(text)

  def seek(self, positions: list[str]) -> None:
    """Goes on where the processes of a checkpoint were.

    Args:
      positions: what `positions` returned, maybe on other processes.

    Raises:
      UserError: if the number of processes differs and the positions are not
        the same on all.
    """
    if len(positions) == jax.process_count():
      text = positions[jax.process_index()]
    elif len(set(positions)) == 1:
      text = positions[0]
    else:
      raise errors.UserError(
        f'the checkpoint has positions in the data for {len(positions)}'
        f' processes, this run has {jax.process_count()}; run on as many, or'
        ' read through jaxlab.data.pipeline, whose position is common to all.'
      )
    binary = not isinstance(self._iterator, grain.DatasetIterator)
    state = text.encode() if binary else json.loads(text)
    self._iterator.set_state(state)  # type: ignore[attr-defined]


Source = Drawn | Arrays | Grain


def source(
  batches: Any,
  batch_size: int | None,
  keys: jax.Array,
  where: placement.Placement,
) -> Source:
  """Finds out what kind of batches these are.

  Args:
    batches: `draw(key) -> batch`, a grain pipeline, or a tree of arrays.
    batch_size: rows a step, for arrays only.
    keys: the key of the order of rows, or `[P]` keys.
    where: how a batch is spread.

  Returns:
    The source.

  Raises:
    UserError: if it is none of these.
  """
  is_grain = isinstance(batches, _GRAIN)
  leaves = jax.tree.leaves(batches)
  is_arrays = leaves and all(
    isinstance(leaf, np.ndarray | jax.Array) for leaf in leaves
  )
  if is_arrays:
    return Arrays(batches, batch_size, keys, where)
  if not is_grain and not callable(batches):
    raise errors.UserError(
      f'batches is a {type(batches).__name__}; give arrays, a grain pipeline,'
      ' or a function draw(key).'
    )
  if batch_size is not None:
    raise errors.UserError('batch_size is for arrays; leave it out.')
  return Grain(batches, where) if is_grain else Drawn(batches)


def _from_all(text: str) -> list[str]:
  """Collects a text of every process."""
  if jax.process_count() == 1:
    return [text]
  data = np.frombuffer(text.encode(), np.uint8)
  lengths = multihost_utils.process_allgather(jnp.int32(len(data)))
  padded = np.zeros(int(lengths.max()), np.uint8)
  padded[: len(data)] = data
  everyone = np.asarray(multihost_utils.process_allgather(padded))
  return [
    row[:length].tobytes().decode()
    for row, length in zip(everyone, lengths, strict=True)
  ]


def spread_drawn(batch: Any, sharding: NamedSharding) -> Any:
  """Spreads a batch that was drawn inside a compiled function."""
  return jax.lax.with_sharding_constraint(batch, sharding)


def spread_collected(batch: Any, sharding: NamedSharding) -> Any:
  """Spreads a batch that every process has."""
  if jax.process_count() == 1:
    return jax.device_put(batch, sharding)

  def make(rows):
    whole = np.asarray(rows)
    return jax.make_array_from_callback(
      whole.shape, sharding, lambda index: whole[index]
    )

  return jax.tree.map(make, batch)
