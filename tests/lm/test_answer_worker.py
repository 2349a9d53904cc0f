"""Workers that check answers: time limits, deaths, forks, missing packages."""

import concurrent.futures
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from jaxlab import errors
from jaxlab.lm import answer_worker, math_equivalence, rewards

HANGS = r'\sin(9^{9^{9^{9}}})', '5'


def timed(call):
  start = time.monotonic()
  return call(), time.monotonic() - start


def test_time_limit_ends_what_does_not_end():
  rewards.math_equiv('1+1', '2')  # a worker is ready
  reward, seconds = timed(lambda: rewards.math_equiv(*HANGS))
  assert reward == 0
  assert 1.9 < seconds < 6
  assert rewards.math_equiv('1+1', '2') == 1


def test_time_limit_in_threads_and_worker_processes():
  with concurrent.futures.ThreadPoolExecutor(2) as threads:
    limited = threads.submit(rewards.math_equiv, *HANGS, timeout=0.5)
    assert limited.result(timeout=60) == 0
  context = multiprocessing.get_context('spawn')
  with context.Pool(1) as pool:
    pending = pool.apply_async(rewards.math_equiv, HANGS, {'timeout': 0.5})
    assert pending.get(timeout=60) == 0


def test_forked_process_has_workers_of_its_own():
  code = (
    'import os; from jaxlab.lm import rewards;'
    'assert rewards.math_equiv("1/2", "0.5");'
    'child = os.fork();'
    'right = [rewards.math_equiv(str(i), str(i // 2 * 2)) for i in range(6)];'
    'assert right == [1, 0] * 3, right;'
    'os._exit(0) if child == 0 else None;'
    'assert os.waitpid(child, 0)[1] == 0'
  )
  done = subprocess.run(
    [sys.executable, '-W', 'error', '-c', code],
    check=False,
    capture_output=True,
    text=True,
    timeout=60,
  )
  assert (done.returncode, done.stderr) == (0, '')


def test_batch_in_order_with_a_text_that_hangs():
  texts = ['1', HANGS[0], '2', r'\frac{4}{2}', 'x']
  golds = ['1', HANGS[1], '3', '2', 'x']
  for processes in (1, 2):
    found = rewards.score_batch(
      'math_equiv', texts, golds, timeout=1.0, processes=processes
    )
    assert found.dtype == np.float32
    assert found.tolist() == [1, 0, 0, 1, 1]


def test_batch_recovers_from_a_worker_that_dies(monkeypatch):
  rewards.math_equiv('1', '1')
  idle = answer_worker._idle._workers
  os.kill(idle[-1]._process.pid, signal.SIGKILL)
  idle[-1]._process.wait()
  assert rewards.math_equiv('1', '1') == 1  # it died while it was idle
  worker = idle[-1]
  kill = threading.Timer(0.3, worker._process.kill)
  kill.start()
  reward, seconds = timed(lambda: rewards.math_equiv(*HANGS, timeout=30))
  assert reward == 0
  assert seconds < 20
  assert worker not in idle
  assert rewards.score_batch('math_equiv', ['1'], ['1']).tolist() == [1]


def test_missing_math_verify(monkeypatch):
  monkeypatch.setitem(sys.modules, 'latex2sympy2_extended', None)
  with pytest.raises(errors.UserError, match=r"pip install 'jaxlab\[lm\]'"):
    math_equivalence.equivalent('1', '1')
  lost = "import sys; sys.modules['latex2sympy2_extended'] = None\n"
  monkeypatch.setattr(answer_worker, '_START', lost + answer_worker._START)
  monkeypatch.setattr(answer_worker, '_idle', answer_worker._Idle())
  with pytest.raises(errors.UserError, match=r"pip install 'jaxlab\[lm\]'"):
    rewards.math_equiv('1', '1')
  assert rewards.gsm8k('#### 1', '1') == 1  # needs no package
