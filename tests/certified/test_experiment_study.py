"""Trials on disk: killed, shared, refused."""

import collections
import concurrent.futures
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from jaxlab import errors
from jaxlab.certified import experiment_study
from jaxlab.certified.search_space import Knob

SPACE = (
  Knob('learning_rate', 1e-4, 1e-2, True),
  Knob('share', 0.0, 1.0, False),
)
PUBLISHED = {'paper': {'learning_rate': 5e-4, 'share': 0.5}}


def _study(path, **changes):
  options = {
    'num_trials': 9,
    'lanes': 3,
    'sampler': 'motpe',
    'seed': 0,
    'published': PUBLISHED,
    'space': SPACE,
    'settings': {'eps': 0.1},
  } | changes
  first = [options.pop(k) for k in ('space', 'published', 'settings')]
  return experiment_study.Study(pathlib.Path(path), 'ibp', *first, **options)


def _values(params):
  miss = abs(np.log(params['learning_rate'] / 1e-3))
  return [-((params['share'] - best) ** 2) - miss for best in (0.2, 0.8)]


class _Killed(BaseException):
  pass


def _measure(log, stop_at=None, seconds=0.0):
  def measure(numbers, params):
    if stop_at is not None and stop_at in numbers:
      raise _Killed
    time.sleep(seconds)
    log.extend(numbers)
    return [_values(p) for p in params]

  return measure


@pytest.mark.parametrize('sampler', experiment_study.SAMPLERS)
def test_a_killed_search_goes_on_as_if_it_had_not_been(tmp_path, sampler):
  whole = _study(tmp_path / 'whole.db', sampler=sampler).run(_measure([]))
  log: list[int] = []
  first = _study(tmp_path / 'killed.db', sampler=sampler)
  with pytest.raises(_Killed):
    first.run(_measure(log, stop_at=4))
  first.close()
  second = _study(tmp_path / 'killed.db', sampler=sampler)
  found = second.run(_measure(log))
  assert found == whole
  assert sorted(log) == list(range(9))
  assert len(found) == 9
  assert found[0].published == 'paper'
  assert found[0].params == PUBLISHED['paper']
  assert all(trial.published == '' for trial in found[1:])


def test_a_search_that_is_done_does_nothing(tmp_path):
  _study(tmp_path / 's.db').run(_measure([]))
  log: list[int] = []
  assert len(_study(tmp_path / 's.db').run(_measure(log))) == 9
  assert not log


def test_a_longer_search_keeps_its_trials(tmp_path):
  before = _study(tmp_path / 's.db').run(_measure([]))
  log: list[int] = []
  after = _study(tmp_path / 's.db', num_trials=12).run(_measure(log))
  assert after[:9] == before
  assert log == [9, 10, 11]


def test_workers_share_a_study_without_losing_a_trial(tmp_path):
  logs: list[list[int]] = [[], []]
  studies = [_study(tmp_path / 's.db', num_trials=14) for _ in logs]
  with concurrent.futures.ThreadPoolExecutor() as pool:
    jobs = [
      pool.submit(study.run, _measure(log, seconds=0.2))
      for study, log in zip(studies, logs, strict=True)
    ]
    found = [job.result() for job in jobs]
  assert found[0] == found[1]
  assert len(found[0]) == 14
  assert set(collections.Counter(logs[0] + logs[1]).values()) == {1}
  assert min(map(len, logs)) > 0


def test_a_batch_is_done_whole_again_after_it_was_told_in_part(tmp_path):
  study = _study(tmp_path / 's.db')
  tell, told = study._tell, []

  def tell_two(number, values):
    if len(told) == 2:
      raise _Killed
    told.append(number)
    tell(number, values)

  study._tell = tell_two
  with pytest.raises(_Killed):
    study.run(_measure([]))
  study.close()
  batches: list[list[int]] = []

  def measure(numbers, params):
    batches.append(list(numbers))
    return [_values(p) for p in params]

  found = _study(tmp_path / 's.db').run(measure)
  assert batches[0] == [0, 1, 2]
  whole = _study(tmp_path / 'whole.db').run(_measure([]))
  assert found == whole


def test_a_process_killed_hard_leaves_its_trials_to_the_next(tmp_path):
  script = textwrap.dedent(f"""
    import os, signal, sys
    sys.path.insert(0, {os.path.dirname(os.path.dirname(__file__))!r})
    from certified import test_experiment_study as t
    def measure(numbers, params):
      if 4 in numbers:
        os.kill(os.getpid(), signal.SIGKILL)
      return [t._values(p) for p in params]
    t._study({str(tmp_path / 's.db')!r}).run(measure)
  """)
  done = subprocess.run([sys.executable, '-c', script], check=False)
  assert done.returncode == -signal.SIGKILL
  found = _study(tmp_path / 's.db').run(_measure([]))
  assert found == _study(tmp_path / 'whole.db').run(_measure([]))


@pytest.mark.parametrize(
  ('changes', 'words'),
  [
    (
      {'space': (Knob('learning_rate', 1e-5, 1e-2, True), SPACE[1])},
      ['learning_rate', '1e-05'],
    ),
    ({'space': SPACE[:1], 'published': {}}, ['share', 'None']),
    ({'settings': {'eps': 0.3}}, ['eps', '0.3', '0.1']),
    ({'seed': 1}, ['seed']),
  ],
)
def test_a_study_of_another_search_is_refused(tmp_path, changes, words):
  _study(tmp_path / 's.db').run(_measure([]))
  with pytest.raises(errors.UserError) as caught:
    _study(tmp_path / 's.db', **changes)
  assert all(word in str(caught.value) for word in words)
  assert '\n' not in str(caught.value)


def test_a_file_that_is_no_study_is_refused(tmp_path):
  (tmp_path / 's.db').write_text('numbers, but not in SQLite' * 100)
  with pytest.raises(errors.UserError, match=r's\.db'):
    _study(tmp_path / 's.db')


def test_a_study_of_another_program_is_refused(tmp_path):
  import optuna

  path = tmp_path / 'other.db'
  one = optuna.create_study(storage=f'sqlite:///{path}', study_name='ibp')
  with pytest.raises(errors.UserError, match='another program'):
    _study(path)
  optuna.delete_study(study_name='ibp', storage=f'sqlite:///{path}')
  two = optuna.create_study(
    storage=f'sqlite:///{path}', study_name='ibp', directions=['maximize'] * 2
  )
  two.tell(two.ask(), [0.0, 0.0])
  with pytest.raises(errors.UserError, match='another program'):
    _study(path)
  assert one.study_name == two.study_name


def test_a_place_that_cannot_be_written_is_named(tmp_path):
  (tmp_path / 'file').write_text('')
  with pytest.raises(errors.UserError, match=r'config\.storage'):
    _study(tmp_path / 'file' / 's.db')
