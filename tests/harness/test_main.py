import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from jaxlab import data, version
from jaxlab import main as cli
from jaxlab.harness import configs
from jaxlab.harness import workdir as workdirs


@pytest.fixture
def shipped(lab, monkeypatch):
  """The toy config under a name, as those that come with the package."""
  root = lab.folder / 'configs'
  (root / 'toys').mkdir(parents=True)
  shutil.copy(lab.config, root / 'toys' / 'means.py')
  monkeypatch.setattr(configs, 'configs_root', lambda: root)
  return lab


def _fails(capsys, *arguments, code=2):
  """Runs a command that must fail and returns its one line."""
  capsys.readouterr()
  assert cli.main(arguments) == code
  out, err = capsys.readouterr()
  assert out == ''
  assert err.count('\n') == 1, err
  assert err.startswith('error: ')
  return err


def _numbers(path):
  """Returns the summary without what depends on the clock."""
  summary = json.loads((path / 'summary.json').read_text())
  assert summary.pop('wall_seconds') > 0
  return summary


def _wait_until(condition):
  end = time.monotonic() + 30
  while not condition():
    assert time.monotonic() < end
    time.sleep(0.02)


def test_run_by_name_writes_everything(shipped, capsys):
  assert cli.main(['run', 'toys/means:test', '--config.seed=1']) == 0
  out = capsys.readouterr().out
  (path,) = (shipped.folder / 'runs').iterdir()
  assert re.fullmatch(r'toys_means_test_[0-9a-f]{8}', path.name)
  assert {'config.json', 'summary.json', 'DONE', 'metrics.jsonl'} <= set(
    os.listdir(path)
  )
  assert f'report: runs/{path.name}/report.html' in out
  assert '<!doctype html>' in (path / 'report.html').read_text()
  assert 'the mean [all] is' in out
  assert 'holds' in out
  assert 'grand mean' in out
  summary = _numbers(path)
  assert summary['experiment'] == 'toys/means'
  assert summary['title'] == 'Means of normal draws.'
  assert (summary['mode'], summary['seed']) == ('test', 1)
  record = json.loads((path / 'config.json').read_text())
  assert record['config']['units'] == 2
  assert record['environment']['command'][:2] == ['jaxlab', 'run']


@pytest.mark.parametrize(
  'arguments',
  [
    ['--config=configs/toys/means.py:test', '--workdir=out'],
    ['--workdir', 'out', '--config', 'configs/toys/means.py:test'],
    ['configs/toys/means.py:test', '--workdir=out'],
    ['toys/means:test', '--workdir=out'],
  ],
)
def test_all_ways_to_name_a_config(shipped, arguments):
  assert cli.main(['run', *arguments]) == 0
  assert _numbers(shipped.folder / 'out')['experiment'] == 'toys/means'


def test_own_config_file_and_overrides(lab):
  overrides = [
    '--config.units=1',
    '--config.inner.rate=2',
    '--config.sizes=3,4',
  ]
  arguments = ['toy.py:full', '--workdir=out', *overrides]
  assert cli.main(['run', *arguments]) == 0
  record = json.loads((lab.folder / 'out' / 'config.json').read_text())
  assert record['name'] == 'toy'
  assert record['config']['units'] == 1
  assert record['config']['inner']['rate'] == 2.0
  assert record['config']['sizes'] == [3, 4]


def test_default_workdir_depends_on_the_overrides(lab):
  for more in ([], ['--config.seed=1'], ['--config.seed=2']):
    assert cli.main(['run', 'toy.py:test', *more]) == 0
  names = sorted(os.listdir(lab.folder / 'runs'))
  assert len(names) == 3
  assert names[0] == 'toy_test'


def test_finished_run_is_not_repeated(lab, capsys):
  arguments = ['run', 'toy.py:test', '--workdir=out']
  assert cli.main(arguments) == 0
  before = lab.computed()
  capsys.readouterr()
  assert cli.main(arguments) == 0
  out = capsys.readouterr().out
  assert 'finished already: out' in out
  assert 'report: out/report.html' in out
  assert lab.computed() == before == ['0', '1']


@pytest.mark.parametrize(
  ('arguments', 'words'),
  [
    (['run', 'toys/mean'], ['toys/mean', 'toys/means', 'jaxlab list']),
    (['run', 'toys/means:ful'], ['ful', 'did you mean full']),
    (['run', 'toys/means', '--config.unit=3'], ['config.unit', 'units']),
    (['run', 'toys/means', '--config.inner.rat=3'], ['inner.rate']),
    (['run', 'toys/means', '--config.units=few'], ['config.units', 'int', '4']),
    (['run', 'toys/means', '--config.units=2.5'], ['config.units', 'int']),
    (['run', 'toys/means', '--config.inner=3'], ['config.inner', 'ConfigDict']),
    (['run', 'toys/means', '--wordir=x'], ['wordir', 'workdir']),
    (['run', 'toys/means', 'again'], ['again']),
    (['run', 'toys/means', '--device=abacus'], ['abacus', 'cpu']),
    (['run'], ['needs a config', 'jaxlab list']),
    (['run', 'toys/means', '--config.experiment=nix'], ['nix', 'experiment']),
    (['run', 'toys/means', '--config.experiment=os.path'], ['no run()']),
    (
      ['run', 'toys/means', '--config.fault=value'],
      ['bad luck', '--traceback'],
    ),
    (['run', 'toys/means', '--workdir=/proc/none/x'], ['/proc/none/x']),
    (['run', 'toys/means', '--workdir=toy.py/x'], ['toy.py/x', '--workdir']),
    (['race'], ['race', 'run', 'sweep']),
    (['list', 'me'], ['me']),
    (['report'], ['runs', 'jaxlab run']),
    (['data', 'prepare'], ['prepare NAME', 'digits']),
    (['data', 'prepare', 'nix'], ['nix', 'digits']),
    (['sweep', 'toys/means', '--vary=seed'], ['--vary=seed']),
    (['sweep', 'toys/means', '--vary=sed=1,2'], ['config.sed', 'seed']),
    (['sweep', 'toys/means', '--parallel=0'], ['parallel']),
  ],
)
def test_mistakes_are_one_line_with_the_cure(shipped, capsys, arguments, words):
  message = _fails(capsys, *arguments)
  for word in words:
    assert word in message
  runs = shipped.folder / 'runs'
  assert not list(runs.glob('**/summary.json'))


def test_broken_config_files(lab, capsys):
  for text, words in (
    ('def get_config(:', ['line 1']),
    ('x = 1', ['get_config()']),
    ('def get_config():\n  return {}', ['ConfigDict']),
    (
      'from ml_collections import ConfigDict as get_config',
      ['config.experiment'],
    ),
  ):
    lab.config.write_text(text)
    message = _fails(capsys, 'run', 'toy.py')
    assert all(word in message for word in ['toy.py', *words])


def test_config_of_another_run(lab, capsys):
  assert cli.main(['run', 'toy.py:test', '--workdir=out']) == 0
  message = _fails(
    capsys, 'run', 'toy.py:test', '--workdir=out', '--config.seed=8'
  )
  assert 'config.seed is 7 there and 8 here' in message


def test_traceback_and_faults_of_our_own(lab):
  arguments = ['run', 'toy.py:test', '--config.fault=value', '--workdir=out']
  with pytest.raises(ValueError, match='bad'):
    cli.main([*arguments, '--traceback'])
  with pytest.raises(RuntimeError):
    cli.main(['run', 'toy.py:test', '--config.fault=runtime'])


def test_interrupt_leaves_a_resumable_folder(lab, monkeypatch, capsys):
  arguments = ['run', 'toy.py', '--workdir=out']
  whole = workdirs.Workdir.log

  def interrupt(self, step, **scalars):
    whole(self, step, **scalars)
    if step == 2:
      raise KeyboardInterrupt

  monkeypatch.setattr(workdirs.Workdir, 'log', interrupt)
  assert cli.main(arguments) == 130
  assert 'run the same command again' in capsys.readouterr().err
  monkeypatch.setattr(workdirs.Workdir, 'log', whole)
  assert cli.main(arguments) == 0
  assert lab.computed() == ['0', '1', '2', '3']
  lines = (lab.folder / 'out' / 'metrics.jsonl').read_text().splitlines()
  assert [json.loads(line)['step'] for line in lines] == [0, 1, 2, 3]


def test_killed_run_resumes_to_the_same_numbers(lab, capsys):
  assert cli.main(['run', 'toy.py', '--workdir=whole']) == 0
  lab.log.unlink()
  arguments = ['run', 'toy.py', '--workdir=killed']
  first = lab.start(*arguments, TOY_HANG='2')
  _wait_until(lambda: lab.computed() == ['0', '1', '2'])
  # A second owner is refused while the first one lives.
  message = _fails(capsys, *arguments)
  assert f'process {first.pid} on ' in message
  first.kill()
  assert first.wait() == -signal.SIGKILL
  assert not (lab.folder / 'killed' / 'summary.json').exists()
  assert cli.main(arguments) == 0
  # Units 0 and 1 were kept, unit 2 was under way.
  assert lab.computed() == ['0', '1', '2', '2', '3']
  whole, killed = lab.folder / 'whole', lab.folder / 'killed'
  assert _numbers(killed) == _numbers(whole)
  for name in ('metrics.jsonl', 'tables/means.csv', 'checkpoints/units/2.npz'):
    assert (killed / name).read_bytes() == (whole / name).read_bytes()


def test_sigterm_stops_a_run_cleanly(lab):
  arguments = ['run', 'toy.py', '--workdir=out']
  process = lab.start(*arguments, '--device=cpu', TOY_HANG='1')
  _wait_until(lambda: lab.computed() == ['0', '1'])
  process.send_signal(signal.SIGTERM)
  out, err = process.communicate(timeout=30)
  assert process.returncode == 143
  assert 'run the same command again to resume' in err
  assert 'Traceback' not in out + err
  assert cli.main(arguments) == 0
  assert lab.computed() == ['0', '1', '1', '2', '3']


def test_list_reads_docstrings_without_running_files(shipped, capsys):
  (shipped.folder / 'configs' / 'toys' / 'broken.py').write_text(
    '"""Raises when run.\n\nTime: never\n"""\nraise SystemExit'
  )
  assert cli.main(['list']) == 0
  out = capsys.readouterr().out
  assert 'Raises when run.' in out
  listing = configs.listing(shipped.config)
  assert listing == ('Means of normal draws.', '3 s', 'the mean is positive')
  assert configs.names() == ['toys/broken', 'toys/means']


def test_report_over_many_runs(lab, capsys):
  for seed in (1, 2):
    assert cli.main(['run', 'toy.py:test', f'--config.seed={seed}']) == 0
  capsys.readouterr()
  assert cli.main(['report', '--results=RESULTS.md']) == 0
  assert 'report: runs/report.html' in capsys.readouterr().out
  assert (lab.folder / 'runs' / 'report.html').exists()
  assert 'the mean' in (lab.folder / 'RESULTS.md').read_text()
  one = sorted(lab.folder.glob('runs/toy_test_*'))[0]
  assert cli.main(['report', str(one), '--out=page/one.html']) == 0
  assert (lab.folder / 'page' / 'one.html').exists()
  assert cli.main(['report', str(one), '--out=page']) == 0
  assert (lab.folder / 'page' / 'report.html').exists()


def test_data_commands(monkeypatch, capsys):
  monkeypatch.setattr(data, 'datasets', lambda: {'toys': 'some [toys]'})
  monkeypatch.setattr(data, 'prepare', lambda *a, **k: f'prepared {a} {k}')
  monkeypatch.setattr(data, 'describe', lambda *a: [('asked', str(a))])
  for arguments, words in (
    (['list'], ['toys', 'some [toys]']),
    ([], ['some [toys]']),
    (['prepare', 'toys'], ["prepared ('toys',) {'manual_dir': None}"]),
    (['prepare', 'toys', '--manual_dir=raw'], ["'manual_dir': 'raw'"]),
    (['inspect', 'toys'], ['asked', "('toys',)"]),
    (['inspect', 'toys', 'test'], ["('toys', 'test')"]),
  ):
    assert cli.main(['data', *arguments]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in words)


def test_jax_is_set_up_before_its_first_use(tmp_path):
  code = (
    'from jaxlab.harness import startup; import jax;'
    'startup.start_jax("cpu");'
    'print(jax.device_count(), jax.config.values["jax_compilation_cache_dir"]);'
    'startup.start_jax("gpu")'
  )
  variables = {
    key: value
    for key, value in os.environ.items()
    if key not in ('XLA_FLAGS', 'JAX_COMPILATION_CACHE_DIR')
  }
  done = subprocess.run(
    [sys.executable, '-c', code],
    env={**variables, 'XDG_CACHE_HOME': str(tmp_path)},
    capture_output=True,
    text=True,
    check=False,
  )
  cores = len(os.sched_getaffinity(0))
  assert done.stdout.split() == [str(cores), f'{tmp_path}/jaxlab/xla']
  assert 'UserError: --device=gpu, but JAX finds only cpu' in done.stderr


def test_help_and_version(capsys):
  assert cli.main(['--version']) == 0
  assert capsys.readouterr().out == f'{version.__version__}\n'
  for arguments in ([], ['--help'], ['help']):
    assert cli.main(arguments) == 0
    assert 'Usage: jaxlab' in capsys.readouterr().out
  for command in ('run', 'list', 'sweep', 'report', 'data'):
    assert cli.main([command, '--help']) == 0
    text = capsys.readouterr().out
    assert f'jaxlab {command}' in text
    assert cli.main(['help', command]) == 0
    assert capsys.readouterr().out == text


def test_quick_commands_do_not_import_jax():
  code = (
    'import sys; from jaxlab import main;'
    'codes = [main.main(a.split()) for a in'
    ' ("list", "--help", "run --help", "run nix", "data list")];'
    'assert codes == [0, 0, 0, 2, 0], codes;'
    'heavy = {"jax", "matplotlib", "sklearn", "tensorflow_datasets"};'
    'assert not heavy & set(sys.modules), heavy & set(sys.modules)'
  )
  subprocess.run([sys.executable, '-c', code], check=True)
