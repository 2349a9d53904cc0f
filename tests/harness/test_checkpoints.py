"""Checkpoints that are whole, damaged, of another model or not written."""

import gc
import resource
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.errors import UserError
from jaxlab.harness import checkpoints

# Reading damaged files leaves errors of orbax's threads to the collector.
pytestmark = pytest.mark.filterwarnings(
  'ignore::pytest.PytestUnraisableExceptionWarning'
)


def make_tree(seed):
  """Arrays of many kinds; the first is too large to be stored inline."""
  rng = np.random.default_rng(seed)
  return {
    'large': jnp.asarray(rng.normal(size=(96, 64)), jnp.float32),
    'zeros': jnp.zeros((512,)),
    'half': jnp.asarray(rng.normal(size=3), jnp.bfloat16),
    'count': jnp.int32(seed),
    'flags': jnp.asarray([True, False]),
    'nested': ({'key': jax.random.key(seed)}, None),
  }


def assert_equal(tree, other):
  for a, b in zip(jax.tree.leaves(tree), jax.tree.leaves(other), strict=True):
    assert a.dtype == b.dtype
    is_key = jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key)
    np.testing.assert_array_equal(
      *(jax.random.key_data(x) if is_key else x for x in (a, b))
    )


@pytest.fixture(scope='module')
def two_steps(tmp_path_factory):
  folder = tmp_path_factory.mktemp('checkpoints')
  with checkpoints.Checkpoints(folder, best_mode='max') as store:
    for step in (1, 2):
      store.save(step, make_tree(step), {'position': step}, score=step)
  return folder


def restore(folder, like=None, **options):
  with checkpoints.Checkpoints(folder, best_mode='max') as store:
    return store.restore(make_tree(0) if like is None else like, **options)


def test_round_trip(two_steps):
  found = restore(two_steps)
  assert found.step == 2
  assert found.notes == {'position': 2}
  assert_equal(found.tree, make_tree(2))


def test_empty_folder(tmp_path):
  assert restore(tmp_path) is None


def files_of(step):
  return sorted(p.relative_to(step) for p in step.rglob('*') if p.is_file())


def cut(path):
  path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
  content = bytearray(path.read_bytes())
  content[len(content) // 2] ^= 8
  path.write_bytes(bytes(content))


@pytest.mark.parametrize('damage', ['cut', 'empty', 'flip', 'unlink'])
def test_no_damaged_file_gives_other_numbers(
  two_steps, tmp_path, capsys, damage
):
  damages = {
    'cut': cut,
    'empty': lambda path: path.write_bytes(b''),
    'flip': flip,
    'unlink': lambda path: path.unlink(),
  }
  fell_back = []
  for index, name in enumerate(files_of(two_steps / '2')):
    folder = tmp_path / str(index)
    shutil.copytree(two_steps, folder)
    damages[damage](folder / '2' / name)
    found = restore(folder)
    # Some files, such as the time of the commit, are not needed.
    assert found is not None, name
    assert_equal(found.tree, make_tree(found.step))
    assert found.notes == {'position': found.step}
    if found.step == 1:
      fell_back.append(name.parts[0])
      assert 'damaged' in capsys.readouterr().err
      assert not (folder / '2').exists()
    # The run goes on: the damaged step can be written again.
    if index % 5 == 0:
      with checkpoints.Checkpoints(folder, best_mode='max') as store:
        store.save(3, make_tree(3), {})
      assert restore(folder).step == 3
  gc.collect()
  assert 'arrays' in fell_back
  assert 'notes' in fell_back


def test_nothing_whole_is_nothing(two_steps, tmp_path, capsys):
  folder = tmp_path / 'copy'
  shutil.copytree(two_steps, folder)
  for step in '12':
    shutil.rmtree(folder / step / 'arrays')
  assert restore(folder) is None
  err = capsys.readouterr().err
  assert err.count('is damaged') == 2
  assert 'no checkpoint in' in err
  assert (folder / 'damaged-1').exists()


def test_write_that_never_ended_is_cleared(two_steps, tmp_path):
  folder = tmp_path / 'copy'
  shutil.copytree(two_steps, folder)
  for name in ('commit_success.txt', '_CHECKPOINT_METADATA'):
    (folder / '2' / name).unlink(missing_ok=True)
  (folder / '3.orbax-checkpoint-tmp').mkdir()
  found = restore(folder)
  assert_equal(found.tree, make_tree(found.step))


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    (
      {'large': jnp.zeros((96, 65))},
      r'large is float32\[96, 64\] there and float32\[96, 65\] here',
    ),
    ({'half': jnp.zeros(3)}, r'half is bfloat16\[3\] there and float32\[3\]'),
    ({'count': None}, r'count is int32\[\] there and absent here'),
    ({'more': jnp.zeros(2)}, r'more is absent there and float32\[2\] here'),
    ({'nested': ({'key': jnp.zeros(3)}, None)}, r'nested.0.key is uint32\[2\]'),
  ],
)
def test_another_model_names_the_leaf(two_steps, change, message):
  with pytest.raises(UserError, match=f'checkpoint of step 2.*{message}'):
    restore(two_steps, {**make_tree(0), **change})
  assert (two_steps / '2').exists()


def test_keeps_last_and_best(tmp_path):
  scores = [0.3, 0.9, float('nan'), 0.5, 0.9, 0.1, 0.2]
  with checkpoints.Checkpoints(tmp_path, 2, 'max') as store:
    news = []
    for step, score in enumerate(scores):
      news.append(store.is_best(score))
      store.save(step, {'x': jnp.float32(step)}, {}, score)
  assert news == [True, True, False, False, False, False, False]
  assert sorted(p.name for p in tmp_path.iterdir()) == ['4', '5', '6']
  with checkpoints.Checkpoints(tmp_path, 2, 'max') as store:
    like = {'x': jnp.float32(0)}
    assert store.restore(like).step == 6
    assert store.restore(like, best=True).step == 4
    assert store.is_best(0.95)
    assert not store.is_best(0.9)


def test_best_of_least(tmp_path):
  with checkpoints.Checkpoints(tmp_path, 1, 'min') as store:
    for step, score in enumerate([0.3, 0.1, 0.2, 0.4]):
      store.save(step, {'x': jnp.float32(step)}, {}, score)
  assert sorted(p.name for p in tmp_path.iterdir()) == ['1', '3']


def test_full_disk_leaves_the_one_before(tmp_path):
  """A limit on the size of files stands for a disk without room."""
  before = resource.getrlimit(resource.RLIMIT_FSIZE)
  store = checkpoints.Checkpoints(tmp_path, 1)
  store.save(1, make_tree(1), {})
  store.wait()
  try:
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    with pytest.raises(
      UserError,
      match=r'cannot write a checkpoint in.*: File too large; those',
    ):
      store.save(2, make_tree(2), {})
      store.wait()
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
  found = restore(tmp_path)
  assert found.step == 1
  assert_equal(found.tree, make_tree(1))


def test_donated_arrays_are_saved_as_they_were(tmp_path):
  add = jax.jit(lambda x: x + 1, donate_argnums=0)
  x = add(jnp.zeros(100_000))
  with checkpoints.Checkpoints(tmp_path) as store:
    store.save(1, {'x': x}, {})
    for _ in range(50):
      x = add(x)
    found = store.restore({'x': x})
  np.testing.assert_array_equal(found.tree['x'], np.ones(100_000))


def test_lack_of_memory_is_no_damage(two_steps, monkeypatch):
  def fail(arrays):
    raise jax.errors.JaxRuntimeError('RESOURCE_EXHAUSTED: Out of memory')

  monkeypatch.setattr(checkpoints.digests, 'of_all', fail)
  with pytest.raises(jax.errors.JaxRuntimeError, match='Out of memory'):
    restore(two_steps)
  assert (two_steps / '2').exists()


@pytest.mark.parametrize(
  ('options', 'message'),
  [((0,), 'keep_last=0'), ((1, 'largest'), "mode 'largest'")],
)
def test_bad_options(tmp_path, options, message):
  with pytest.raises(UserError, match=message):
    checkpoints.Checkpoints(tmp_path, *options)


def test_folder_that_cannot_be_made(tmp_path):
  (tmp_path / 'file').write_text('')
  with pytest.raises(UserError, match='cannot write a checkpoint in'):
    checkpoints.Checkpoints(tmp_path / 'file' / 'train')
