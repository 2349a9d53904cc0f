import csv
import itertools
import re
import signal
import time

import numpy as np
import pytest

from jaxlab import main as cli
from jaxlab.errors import UserError
from jaxlab.harness import sweep


def _table(path):
  with (path / 'sweep.csv').open() as file:
    return list(csv.DictReader(file))


def test_grid_is_the_product():
  assert sweep.grid([]) == [{}]
  got = sweep.grid(['config.budget=1000,2000', 'inner.rate=0.5,1.0,2.0'])
  want = itertools.product(['1000', '2000'], ['0.5', '1.0', '2.0'])
  assert [(g['budget'], g['inner.rate']) for g in got] == list(want)
  assert sweep.grid(['sizes=(1,2),(3,4)']) == [
    {'sizes': '(1,2)'},
    {'sizes': '(3,4)'},
  ]
  for wrong in ('seed', 'seed=', '=1'):
    with pytest.raises(UserError, match='--vary'):
      sweep.grid([wrong])


def test_sweep_fails_resumes_skips_and_tabulates(lab, capsys):
  arguments = ['sweep', 'toy.py:test', '--vary=config.seed=1', '--out=out']
  arguments += ['--parallel=2']
  text = lab.config.read_text()
  broken = "{'experiment': 'nix', 'shift': 0.5}"
  lab.config.write_text(text.replace("{'config.shift': 0.5}", broken))
  assert cli.main(arguments) == 1
  message = r'failed: experiment=nix,shift=0\.5,seed=1 \(error: config\.exp'
  assert re.search(message, capsys.readouterr().err)
  kinds = [row['kind'] for row in _table(lab.folder / 'out')]
  assert kinds == ['failed', 'headline', 'claim']
  lab.config.write_text(text)
  assert cli.main(arguments) == 0
  assert len(lab.computed()) == 4
  assert '1 of 2 runs are finished already' in capsys.readouterr().out
  rows = _table(lab.folder / 'out')
  assert [row['kind'] for row in rows] == ['headline', 'claim'] * 2
  draws = [np.random.default_rng(1 + i).normal(size=1000) for i in (0, 1)]
  for headline, claim, shift in zip(
    rows[::2], rows[1::2], [0.5, -0.5], strict=True
  ):
    assert (headline['seed'], headline['shift']) == ('1', str(shift))
    assert float(headline['value']) == pytest.approx(np.mean(draws) + shift)
    assert claim['verdict'] == ('holds' if shift > 0 else 'fails')
    assert (lab.folder / 'out' / headline['run'] / 'DONE').exists()


def test_settings_are_checked_before_anything_runs(lab, capsys):
  assert cli.main(['sweep', 'toy.py', '--vary=seed=1,two', '--out=out']) == 2
  assert 'config.seed takes a value of type int' in capsys.readouterr().err
  assert not (lab.folder / 'out').exists()


def test_stopped_sweep_stops_its_runs(lab):
  process = lab.start('sweep', 'toy.py', '--out=out', TOY_HANG='1')
  with process.stdout, process.stderr:
    while lab.computed() != ['0', '1']:
      assert process.poll() is None
      time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143
    assert 'again to resume' in process.stderr.read()
  (log,) = (lab.folder / 'out' / 'logs').iterdir()
  assert 'interrupted' in log.read_text()
