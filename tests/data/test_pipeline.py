import itertools

import numpy as np
import pytest

from jaxlab import errors
from jaxlab.data import pipeline

ARRAYS = {'x': np.arange(20.0).reshape(10, 2), 'y': np.arange(10)}


def rows(number, **options):
  dataset = pipeline.batches(ARRAYS, **{'seed': 0, **options})
  return [batch['y'] for batch in itertools.islice(dataset, number)]


def test_an_epoch_shows_every_row_once_and_keeps_rows_together():
  batches = list(pipeline.batches(ARRAYS, 5, seed=0, epochs=1))
  assert len(batches) == 2
  order = np.concatenate([batch['y'] for batch in batches])
  assert sorted(order) == list(range(10))
  np.testing.assert_array_equal(
    np.concatenate([batch['x'] for batch in batches]), ARRAYS['x'][order]
  )


def test_epochs_differ_and_cross_batches():
  order = np.concatenate(rows(None, batch_size=4, epochs=4))
  epochs = order.reshape(4, 10)
  assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
  assert len({tuple(epoch) for epoch in epochs}) == 4


def test_no_shuffle_keeps_the_order_and_drops_the_rest():
  got = rows(None, batch_size=4, epochs=1, shuffle=False)
  np.testing.assert_array_equal(got, [[0, 1, 2, 3], [4, 5, 6, 7]])


def test_order_depends_on_the_seed_alone():
  first, again = rows(7, batch_size=4), rows(7, batch_size=4)
  np.testing.assert_array_equal(first, again)
  assert (np.array(first) != rows(7, batch_size=4, seed=1)).any()


@pytest.mark.parametrize('count', [2, 3])
def test_shards_make_up_the_whole_batch(count):
  whole = rows(9, batch_size=6)
  parts = [rows(9, batch_size=6, shard=(i, count)) for i in range(count)]
  np.testing.assert_array_equal(whole, np.concatenate(parts, axis=1))


@pytest.mark.parametrize('taken', [0, 1, 4, 7])
def test_resume_continues_with_the_next_batch(taken):
  whole = rows(12, batch_size=4)
  iterator = iter(pipeline.batches(ARRAYS, 4, seed=0))
  for _ in range(taken):
    next(iterator)
  state = iterator.get_state()
  fresh = iter(pipeline.batches(ARRAYS, 4, seed=0))
  fresh.set_state(state)
  rest = [next(fresh)['y'] for _ in range(12 - taken)]
  np.testing.assert_array_equal(rest, whole[taken:])


@pytest.mark.parametrize(
  ('options', 'named'),
  [
    ({'batch_size': 0}, 'batch_size=0'),
    ({'batch_size': 11, 'epochs': 1}, 'batch_size=11'),
    ({'batch_size': 5, 'shard': (0, 2)}, 'batch_size=5'),
    ({'batch_size': 4, 'shard': (2, 2)}, 'shard'),
    ({'batch_size': 4, 'epochs': 0}, 'epochs=0'),
  ],
)
def test_bad_sizes(options, named):
  with pytest.raises(errors.UserError, match=named):
    pipeline.batches(ARRAYS, **{'seed': 0, **options})


def test_unequal_lengths():
  arrays = {'x': np.zeros(3), 'y': np.zeros(4)}
  with pytest.raises(errors.UserError, match="'y': 4"):
    pipeline.batches(arrays, 2, seed=0)


def test_orbax_restores_the_position(tmp_path):
  import grain
  import orbax.checkpoint as ocp

  iterator = iter(pipeline.batches(ARRAYS, 4, seed=0))
  next(iterator)
  with ocp.CheckpointManager(tmp_path) as manager:
    manager.save(0, args=grain.checkpoint.CheckpointSave(iterator))
    manager.wait_until_finished()
    expected = next(iterator)['y']
    fresh = iter(pipeline.batches(ARRAYS, 4, seed=0))
    manager.restore(0, args=grain.checkpoint.CheckpointRestore(fresh))
  np.testing.assert_array_equal(next(fresh)['y'], expected)
