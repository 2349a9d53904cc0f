"""Batches of arrays through grain: shuffled, sharded, resumable.

A training loop takes `iterator = iter(batches(...))`, stores
`iterator.get_state()` with its checkpoint (or hands the iterator to orbax
through `grain.checkpoint.CheckpointSave`) and continues after
`iterator.set_state(state)` with the batch that would have come next.
"""

from collections.abc import Mapping

import grain
import numpy as np

from jaxlab import errors


def batches(
  arrays: Mapping[str, np.ndarray],
  batch_size: int,
  *,
  seed: int,
  shuffle: bool = True,
  epochs: int | None = None,
  shard: tuple[int, int] = (0, 1),
) -> grain.IterDataset:
  """Builds an iterable over batches of rows.

  The order depends on `seed` and the epoch alone. A shard takes its slice of
  every batch, so that the shards of one step together are the batch that a
  single process would see, however many processes there are. Rows that do not
  fill a batch at an epoch's end open the next epoch's first batch; those left
  at the very end are dropped, so that all batches have one shape.

  Args:
    arrays: arrays `[n, ...]` with the same first axis.
    batch_size: rows a step over all shards; a multiple of the shard count.
    seed: decides the order; every epoch has its own.
    shuffle: False keeps the rows in order.
    epochs: passes over the rows; None never ends.
    shard: index of this shard and number of shards, for example
      `(jax.process_index(), jax.process_count())`.

  Returns:
    A dataset of dictionaries like `arrays` with `batch_size / count` rows.

  Raises:
    UserError: if the arrays differ in length or `batch_size`, `epochs` or
      `shard` does not fit.
  """
  num_rows = _num_rows(arrays, batch_size, epochs, shard)
  index, count = shard
  share = batch_size // count
  mine = slice(index * share, (index + 1) * share)
  order = grain.MapDataset.range(num_rows)
  if shuffle:
    order = order.shuffle(seed=seed)
  return (
    order.repeat(epochs)
    .batch(batch_size, drop_remainder=True)
    .map(lambda rows: {k: array[rows[mine]] for k, array in arrays.items()})
    # The rows are in memory: a deep read-ahead would only cost more of it.
    .to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=2))
  )


def _num_rows(
  arrays: Mapping[str, np.ndarray],
  batch_size: int,
  epochs: int | None,
  shard: tuple[int, int],
) -> int:
  """Returns the arrays' common length once all sizes are known to fit."""
  lengths = {name: len(array) for name, array in arrays.items()}
  if len(set(lengths.values())) != 1:
    raise errors.UserError(
      f'arrays must have one common length, got {lengths}.'
    )
  num_rows = next(iter(lengths.values()))
  index, count = shard
  if not 0 <= index < count:
    raise errors.UserError(f'shard={shard} is not (index, count).')
  if epochs is not None and epochs < 1:
    raise errors.UserError(f'epochs={epochs} is below 1.')
  available = num_rows if epochs is None else num_rows * epochs
  if batch_size < 1 or batch_size % count or batch_size > available:
    raise errors.UserError(
      f'batch_size={batch_size} must be a multiple of the {count} shards, from'
      f' 1 to the {available} rows there are.'
    )
  return num_rows
