import io
import json
import pathlib
import sys
import time

import jax
import numpy as np
import pytest
import rich.console

from benchmarks import __main__ as benchmarks
from benchmarks import bandits as bandits_benchmark
from benchmarks import bandits_loops, peers, report, timing
from tests.bandits import reference

FIELDS = {
  *('work', 'ours', 'peer', 'unit', 'ratio', 'goal', 'met'),
  *('peer_version', 'machine', 'note'),
}


def sleeper(milliseconds, units=1, version=''):
  def run(seed):
    time.sleep(milliseconds / 1e3)
    return 7

  return timing.Side(run, units, version)


def same(a, b):
  if a != b:
    raise timing.DisagreementError(f'{a} and {b}.')
  return 'equal'


def fast_row(**more):
  return timing.compare(
    *('sleep', sleeper(10, units=5), sleeper(40, version='sleep 1.0'), same),
    repeats=3,
    **more,
  )


def test_units_of_work_and_ratio():
  row = fast_row(goal=timing.faster(2))
  # Sleeping takes at least its time: 10 ms for five units, 40 ms for one.
  assert row.ours >= 2
  assert row.peer >= 40
  assert row.ratio == pytest.approx(row.ours / row.peer)
  assert row.ratio < 0.5
  assert (row.goal, row.met) == ('2x faster', True)
  assert (row.peer_version, row.note) == ('sleep 1.0', 'equal')
  assert f'jax {jax.__version__}' in row.machine


def test_sides_take_turns_after_a_warm_call_that_is_compared():
  calls = []

  def side(name):
    return timing.Side(lambda seed: calls.append((name, seed)), 1)

  timing.compare(
    *('turns', side('ours'), side('peer'), lambda a, b: calls.append('agree')),
    repeats=2,
  )
  assert calls == [
    *(('ours', 0), ('peer', 0), 'agree'),
    *(('ours', 1), ('peer', 1), ('ours', 2), ('peer', 2)),
  ]


def test_different_results_are_not_timed():
  other = timing.Side(lambda seed: 8, 1, 'other 1.0')
  row = timing.compare(
    'sum', sleeper(0), other, same, goal=timing.faster(1), repeats=3
  )
  assert (row.ours, row.peer, row.ratio, row.met) == (None, None, None, False)
  assert row.note == 'results differ: 7 and 8.'


@pytest.mark.parametrize(
  ('goal', 'ours', 'met'),
  [
    (timing.below(3, 'ms'), 2.9, True),
    (timing.below(3, 'ms'), 3.0, False),
    (timing.between(0.9, 1.1), 1.1, True),
    (timing.between(0.9, 1.1), 1.2, False),
    (None, 1.0, None),
  ],
)
def test_goals_of_one_number(goal, ours, met):
  assert timing.measured('work', ours, 'ms', goal=goal).met is met


@pytest.mark.parametrize(('ratio', 'met'), [(0.05, True), (0.06, False)])
def test_goal_of_a_ratio(ratio, met):
  assert timing.faster(20).is_met(1.0, ratio) is met


def test_a_peer_that_is_not_there_has_no_number():
  row = timing.unmeasured('work', 'sleep: not installed', 'ms')
  assert (row.ours, row.peer, row.ratio, row.met) == (None,) * 4
  assert row.peer_version == 'sleep: not installed'


def test_table_and_file(tmp_path):
  rows = [
    fast_row(),
    timing.unmeasured('[more] work', 'sleep: not installed', 'ms'),
    timing.measured('size', 12.34, 'MiB', goal=timing.below(10, 'MiB')),
  ]
  stream = io.StringIO()
  console = rich.console.Console(file=stream, width=120)
  console.print(report.table('toys', rows))
  shown = stream.getvalue()
  for part in ('sleep 1.0', '[more] work', 'not installed', '12.3', 'NO'):
    assert part in shown
  report.write(tmp_path / 'new' / 'toys.json', rows)
  read = json.loads((tmp_path / 'new' / 'toys.json').read_text())
  assert [set(row) for row in read] == [FIELDS] * 3
  assert read[0]['ratio'] == rows[0].ratio
  assert read[1]['ours'] is None
  assert read[2]['met'] is False


def run_family(monkeypatch, tmp_path, rows):
  family = type('Family', (), {'rows': staticmethod(rows)})
  monkeypatch.setitem(sys.modules, 'benchmarks.bandits', family)
  monkeypatch.setattr(benchmarks.jax.config, 'update', lambda *_: None)
  return benchmarks.main(['bandits', '--quick', f'--out={tmp_path}'])


def test_command_writes_the_rows_of_a_family(monkeypatch, tmp_path, capsys):
  def rows(quick):
    yield timing.measured(f'quick is {quick}', 1.0, 'ms')

  assert run_family(monkeypatch, tmp_path, rows) == 0
  assert 'quick is True' in capsys.readouterr().out
  (row,) = json.loads((tmp_path / 'bandits.json').read_text())
  assert row['ours'] == 1.0


def test_command_fails_where_results_differ(monkeypatch, tmp_path, capsys):
  def rows(quick):
    other = timing.Side(lambda seed: 8, 1)
    yield timing.compare('sum', sleeper(0), other, same, repeats=1)

  assert run_family(monkeypatch, tmp_path, rows) == 1
  assert 'results differ: 7 and 8.' in capsys.readouterr().out


def test_command_names_an_unknown_family(capsys):
  with pytest.raises(SystemExit) as stop:
    benchmarks.main(['poker'])
  assert stop.value.code == 2
  assert "unknown family 'poker'" in capsys.readouterr().err


def test_rows_in_short():
  rows = (
    fast_row(),
    timing.measured('count', 7, ''),
    timing.unmeasured('work', 'sleep: not installed', 'ms', note=peers.CURE),
  )
  fast, count, absent = map(report.line, rows)
  assert fast.startswith('sleep: ')
  assert fast.endswith('x as fast as the peer')
  assert count == 'count: 7'
  assert absent == f'work: not measured, {peers.CURE}'


def test_installing_the_peers_runs_nothing_else(monkeypatch, tmp_path):
  made = []
  monkeypatch.setattr(peers, 'install', lambda: made.append('peers'))
  command = ['bandits', '--quick', '--install-peers', f'--out={tmp_path}']
  assert benchmarks.main(command) == 0
  assert made == ['peers']
  assert not list(tmp_path.iterdir())


_ECHO = """
import json, sys
print(json.dumps({'version': 'echo 1'}), flush=True)
for line in sys.stdin:
  print(line, end='', flush=True)
"""


@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='reads /proc')
def test_a_peer_sleeps_between_its_jobs(monkeypatch, tmp_path):
  (tmp_path / 'bin').mkdir()
  (tmp_path / 'bin' / 'python').symlink_to(sys.executable)
  monkeypatch.setattr(peers, 'VENV', tmp_path)
  program = tmp_path / 'echo.py'
  program.write_text(_ECHO)

  def state():
    stat = pathlib.Path(f'/proc/{peer._process.pid}/stat').read_text()
    return stat.rpartition(')')[2].split()[0]

  def is_stopped():
    """A signal takes a moment to arrive."""
    until = time.monotonic() + 30
    while state() != 'T' and time.monotonic() < until:
      time.sleep(0.01)
    return state() == 'T'

  with peers.Peer('echo', str(program)) as peer:
    assert peer.version == 'echo 1'
    for number in range(3):
      assert peer.run(number=number) == {'number': number}
      assert is_stopped()
  assert peer._process.returncode == 0


def test_peers_without_their_environment_are_not_installed(
  monkeypatch, tmp_path
):
  monkeypatch.setattr(peers, 'VENV', tmp_path / 'none')
  with peers.Peer('rlberry', 'bandits_peers.py') as peer:
    assert peer.version is None
  rows = list(bandits_benchmark.packages(quick=True))
  names = ['SMPyBandits', 'rlberry', 'best-arm']
  assert [r.peer_version for r in rows] == [
    f'{n}: not installed' for n in names
  ]
  assert all(r.ours is None and r.note == peers.CURE for r in rows)


def test_agreement_is_within_three_standard_errors():
  rng = np.random.default_rng(0)
  a, b = rng.normal(size=(2, 4000))
  assert 'mean of the arm' in bandits_benchmark.means_agree(a, b)
  with pytest.raises(timing.DisagreementError):
    bandits_benchmark.means_agree(a, b + 0.2)
  # 3 sqrt(2 * .25 / 1000) = .067
  half, more = np.arange(1000) < 500, np.arange(1000) < 580
  assert 'error rates' in bandits_benchmark.shares_agree(half, half[::-1])
  with pytest.raises(timing.DisagreementError):
    bandits_benchmark.shares_agree(half, more)


@pytest.mark.parametrize('loop', ['ucb_e', 'lucb', 'bucb'])
def test_loops_find_the_best_arm_without_noise(loop):
  mu = np.array([0.1, 0.9, 0.3, 0.5])
  play = getattr(bandits_loops, loop)
  setting = 0.5
  found = play(np.random.default_rng(0), mu, 0.0, 60, setting)
  assert found == 1


def test_given_order_reaches_the_reference():
  mu = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
  order = bandits_benchmark.GivenOrder(np.array([2, 1, 0, 5, 3, 4]))
  # Six pulls: arms 2, 1 and 0 enter with a pull each and fill a box, whose
  # best, arm 2, is lifted by one; then 5 and 3 enter below it.
  found = reference.numpy_b3(order, mu, 0.0, 6, t0=1, growth=1.7)
  assert found == 2
