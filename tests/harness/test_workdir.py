import csv
import errno
import importlib.metadata
import io
import json
import os
import socket
import struct
import subprocess
import sys
import textwrap

import ml_collections
import numpy as np
import pytest
from PIL import Image
from tensorboardX.proto import event_pb2

from jaxlab import plots
from jaxlab.errors import UserError
from jaxlab.harness import claims, files
from jaxlab.harness.workdir import Workdir

CONFIG = {'seed': 3, 'budget': 100, 'inner': {'rate': 0.5, 'limit': np.inf}}


def _open(path, config=CONFIG, **more):
  return Workdir.open(path, config=config, name='toy/experiment', **more)


def _metrics(path):
  lines = (path / 'metrics.jsonl').read_text().splitlines()
  return [json.loads(line) for line in lines]


def _events(path):
  """Reads (tag, step, value) of all event files by the record format."""
  found = []
  for file in path.glob('events.out.tfevents.*'):
    data = file.read_bytes()
    while data:
      (length,) = struct.unpack('<Q', data[:8])
      event = event_pb2.Event.FromString(data[12 : 12 + length])
      data = data[16 + length :]
      found += [
        (v.tag, event.step, v.simple_value) for v in event.summary.value
      ]
  return sorted(found)


def test_config_and_environment_are_frozen(tmp_path):
  config = ml_collections.ConfigDict(CONFIG)
  with _open(tmp_path / 'a' / 'w', config, argv=['jaxlab', 'run']) as workdir:
    record = json.loads((workdir.path / 'config.json').read_text())
  assert record['name'] == 'toy/experiment'
  assert record['config'] == {
    'seed': 3,
    'budget': 100,
    'inner': {'rate': 0.5, 'limit': 'inf'},
  }
  environment = record['environment']
  for package in ('jax', 'jaxlib', 'flax', 'numpy'):
    assert environment[package] == importlib.metadata.version(package)
  assert environment['python'] == '.'.join(map(str, sys.version_info[:3]))
  assert environment['host'] == socket.gethostname()
  assert environment['seed'] == 3
  assert environment['command'] == ['jaxlab', 'run']
  assert environment['devices'] >= 1
  assert {'device', 'processes', 'platform', 'revision', 'dirty'} <= set(
    environment
  )


def test_summary_and_done(tmp_path):
  with _open(tmp_path / 'w', title='A toy', mode='test') as workdir:
    workdir.headline('regret', np.float32(0.25), 0.125, np.nan, 'points')
    workdir.add_claim(claims.Claim('c', 'p', 1.0, 0.5, np.inf, 0.0, '>'))
    workdir.save_table('scores', [{'a': 1}], caption='All scores.')
    workdir.save_figure('curve', plots.figure()[0], caption='A curve.')
    assert not (workdir.path / 'DONE').exists()
    workdir.finish()
  assert (tmp_path / 'w' / 'DONE').exists()
  text = (tmp_path / 'w' / 'summary.json').read_text()
  summary = json.loads(text, parse_constant=pytest.fail)
  assert 0 <= summary.pop('wall_seconds') < 60
  claim = summary.pop('claims')[0]
  assert (claim['verdict'], claim['high']) == ('holds', None)
  assert summary == {
    'experiment': 'toy/experiment',
    'title': 'A toy',
    'mode': 'test',
    'seed': 3,
    'headline': [
      {
        'name': 'regret',
        'value': 0.25,
        'low': 0.125,
        'high': None,
        'unit': 'points',
      }
    ],
    'tables': [{'name': 'scores', 'caption': 'All scores.'}],
    'figures': [{'name': 'curve', 'caption': 'A curve.'}],
  }
  with _open(tmp_path / 'w') as again:
    assert again.is_done
    assert again.summary['title'] == 'A toy'


def test_tables_keep_every_digit(tmp_path):
  third = np.float64(1) / 3
  rows = [{'arm': 'a,"b"', 'mean': third}, {'arm': 'c', 'n': np.int64(2)}]
  with _open(tmp_path / 'w') as workdir:
    workdir.save_table('t', rows)
  text = (tmp_path / 'w' / 'tables' / 't.csv').read_text()
  read = list(csv.DictReader(io.StringIO(text)))
  assert read[0] == {'arm': 'a,"b"', 'mean': repr(1 / 3), 'n': ''}
  assert float(read[0]['mean']) == third
  assert read[1] == {'arm': 'c', 'mean': '', 'n': '2'}


def test_figures_have_150_dpi_and_are_closed(tmp_path):
  plt = pytest.importorskip('matplotlib.pyplot')
  figure = plt.figure(figsize=(4, 3))
  with _open(tmp_path / 'w') as workdir:
    workdir.save_figure('f', figure)
  with Image.open(tmp_path / 'w' / 'figures' / 'f.png') as image:
    assert image.size == (600, 450)
  assert figure.number not in plt.get_fignums()


@pytest.mark.parametrize(
  'value',
  [
    1.5,
    True,
    'text',
    np.float32([[1, np.nan], [np.inf, -0.0]]),
    np.arange(6, dtype=np.int8).reshape(2, 3).T,
    np.zeros((0, 3), np.complex64),
    np.array(7, '>i4'),
    np.float16([1e-7]),
  ],
  ids=str,
)
def test_cached_returns_the_same_computed_or_loaded(tmp_path, value):
  # These names would clash with arguments of np.savez.
  arrays = {'file': value, 'args': value, 'deep/name': value}
  with _open(tmp_path / 'w') as workdir:
    computed = workdir.cached('part/one', lambda: arrays)
  with _open(tmp_path / 'w') as workdir:
    loaded = workdir.cached('part/one', lambda: pytest.fail('computed twice'))
  assert loaded.keys() == computed.keys() == arrays.keys()
  for name, array in loaded.items():
    assert array.dtype == computed[name].dtype == np.asarray(value).dtype
    assert array.shape == np.shape(value)
    np.testing.assert_array_equal(array, computed[name])
    np.testing.assert_array_equal(array, value)


@pytest.mark.parametrize('damage', [b'', b'PK', None])
def test_damaged_checkpoint_is_computed_again(tmp_path, capsys, damage):
  with _open(tmp_path / 'w') as workdir:
    workdir.cached('u', lambda: {'x': np.arange(1000.0)})
    path = workdir.path / 'checkpoints' / 'u.npz'
    whole = path.read_bytes()
    flipped = bytes([*whole[:900], whole[900] ^ 1, *whole[901:]])
    path.write_bytes(flipped if damage is None else damage)
    again = workdir.cached('u', lambda: {'x': np.ones(2)})
    np.testing.assert_array_equal(again['x'], [1, 1])
    assert 'u.npz is damaged' in capsys.readouterr().err
    kept = workdir.cached('u', lambda: pytest.fail('computed again'))
  np.testing.assert_array_equal(kept['x'], [1, 1])


def test_unit_that_fails_leaves_nothing(tmp_path):
  with _open(tmp_path / 'w') as workdir:
    with pytest.raises(ZeroDivisionError):
      workdir.cached('u', lambda: {'x': 1 / 0})
    with pytest.raises(TypeError, match='bfloat16'):
      import jax.numpy as jnp

      workdir.cached('u', lambda: {'x': jnp.ones(2, jnp.bfloat16)})
    assert not (workdir.path / 'checkpoints').exists()


@pytest.mark.parametrize('name', ['', '../x', '/x', 'a//b', '.x', 'a/../b'])
def test_names_stay_inside_the_folder(tmp_path, name):
  with _open(tmp_path / 'w') as workdir:
    with pytest.raises(ValueError, match='cannot name'):
      workdir.cached(name, dict)
    with pytest.raises(ValueError, match='cannot name'):
      workdir.save_table(name or 'a/b', [])


def test_log_after_a_restart_has_neither_gaps_nor_doubles(tmp_path):
  path = tmp_path / 'w'
  with _open(path) as workdir:
    for step in range(6):
      workdir.log(step, loss=1.0 * step)
      if step < 3:
        workdir.log(step, rate=10.0 * step)
  with (path / 'metrics.jsonl').open('a') as file:
    file.write('{"step": 6, "lo')
  with _open(path) as workdir:
    for step in range(4, 8):
      workdir.log(step, loss=2.0 * step)
    workdir.log(3, rate=np.float32(np.nan))
  lines = _metrics(path)
  losses = [(m['step'], m['loss']) for m in lines if 'loss' in m]
  rates = [(m['step'], m['rate']) for m in lines if 'rate' in m]
  expected = [(s, 1.0 * s if s < 4 else 2.0 * s) for s in range(8)]
  assert losses == expected
  assert rates == [(0, 0.0), (1, 10.0), (2, 20.0), (3, None)]
  assert _events(path) == [
    *(('loss', *pair) for pair in expected),
    *(('rate', *pair) for pair in rates[:3]),
  ]


def test_config_of_another_run_is_refused(tmp_path):
  path = tmp_path / 'w'
  _open(path).__exit__()
  before = (path / 'config.json').read_text()
  other = {**CONFIG, 'inner': {'rate': 0.25, 'limit': np.inf}}
  with pytest.raises(UserError) as error:
    _open(path, other)
  message = str(error.value)
  assert 'config.inner.rate is 0.5 there and 0.25 here' in message
  assert '--workdir' in message
  assert '\n' not in message
  with pytest.raises(
    UserError, match=r'config\.budget is 100 there and 100\.0'
  ):
    _open(path, {**CONFIG, 'budget': 100.0})
  with pytest.raises(UserError, match=r'config\.extra'):
    _open(path, {**CONFIG, 'extra': None})
  assert (path / 'config.json').read_text() == before


def test_one_owner_at_a_time(tmp_path):
  with _open(tmp_path / 'w'):
    with pytest.raises(UserError) as error:
      _open(tmp_path / 'w')
    message = str(error.value)
    assert f'process {os.getpid()} on {socket.gethostname()}' in message
    assert '--workdir' in message
  with _open(tmp_path / 'w') as again:
    assert again.is_writer


def test_places_that_cannot_be_used(tmp_path):
  file = tmp_path / 'file'
  file.write_text('mine')
  foreign = tmp_path / 'foreign'
  foreign.mkdir()
  (foreign / 'thesis.tex').write_text('mine')
  for path in (file, file / 'below', foreign, '/proc/none/w', '/proc/self'):
    with pytest.raises(UserError, match='--workdir') as error:
      _open(path)
    assert str(path) in str(error.value)
  assert sorted(os.listdir(foreign)) == ['thesis.tex']
  assert file.read_text() == 'mine'


def test_full_disk_is_told_and_leaves_the_old_file(tmp_path, monkeypatch):
  path = tmp_path / 'table.csv'
  files.write(path, 'old')

  def no_space(_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

  monkeypatch.setattr(os, 'fsync', no_space)
  with pytest.raises(UserError, match=r'table\.csv: No space left on device'):
    files.write(path, 'new')
  with pytest.raises(UserError, match='No space left'):
    _open(tmp_path / 'w')
  monkeypatch.undo()
  assert path.read_text() == 'old'
  assert os.listdir(tmp_path / 'w') == ['.lock']
  with _open(tmp_path / 'w') as workdir:
    assert workdir.is_writer


def test_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
  path = tmp_path / 'summary.json'
  files.write(path, 'old')

  def interrupt(*_):
    raise KeyboardInterrupt

  monkeypatch.setattr(os, 'replace', interrupt)
  with pytest.raises(KeyboardInterrupt):
    files.write(path, 'new')
  assert path.read_text() == 'old'
  assert os.listdir(tmp_path) == ['summary.json']


def test_wall_time_adds_up(tmp_path, monkeypatch):
  clock = [100.0]
  monkeypatch.setattr('time.monotonic', lambda: clock[0])
  with _open(tmp_path / 'w') as workdir:
    clock[0] += 5
    workdir.cached('u', dict)
  clock[0] = 1000.0
  with _open(tmp_path / 'w') as workdir:
    clock[0] += 2
    assert workdir.summary['wall_seconds'] == 7


def test_two_jax_processes_share_a_folder(tmp_path):
  with _open(tmp_path / 'w') as workdir:
    workdir.cached('old', lambda: {'x': np.arange(3, dtype=np.int16)})
  with socket.socket() as free:
    free.bind(('localhost', 0))
    address = f'localhost:{free.getsockname()[1]}'
  script = textwrap.dedent(f"""
    import json, sys
    import jax, numpy as np
    rank = int(sys.argv[1])
    jax.distributed.initialize({address!r}, 2, rank)
    from jaxlab.errors import UserError
    from jaxlab.harness.workdir import Workdir
    from math import inf
    config = {CONFIG!r}
    path = {str(tmp_path / 'w')!r}
    calls = []
    def compute():
      calls.append(rank)
      return {{'x': np.ones(2)}}
    with Workdir.open(path, config=config, name='toy/experiment') as workdir:
      old = workdir.cached('old', compute)['x']
      new = workdir.cached('new', compute)['x']
      workdir.log(0, loss=1.0)
      writer = workdir.is_writer
      workdir.finish()
    try:
      Workdir.open(path, config={{**config, 'seed': 4}}, name='toy/experiment')
    except UserError as error:
      problem = str(error)
    print(json.dumps([writer, calls, str(old.dtype), old.tolist(), new.tolist(),
                      problem]))
  """)
  environment = {**os.environ, 'JAX_PLATFORMS': 'cpu'}
  both = [
    subprocess.Popen(
      [sys.executable, '-c', script, str(rank)],
      stdout=subprocess.PIPE,
      env=environment,
    )
    for rank in (0, 1)
  ]
  outputs = [process.communicate(timeout=60)[0] for process in both]
  # The collectives' own library greets on stdout.
  first, second = (json.loads(text.splitlines()[-1]) for text in outputs)
  assert first[:5] == [True, [0], 'int16', [0, 1, 2], [1.0, 1.0]]
  assert second[:5] == [False, [1], 'int16', [0, 1, 2], [1.0, 1.0]]
  assert 'config.seed' in first[5]
  assert first[5] == second[5]
  assert (tmp_path / 'w' / 'DONE').exists()
  assert len(_metrics(tmp_path / 'w')) == 1
