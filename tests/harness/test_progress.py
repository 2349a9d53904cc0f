import io
import time

from jaxlab.harness import progress


class _Terminal(io.StringIO):
  def isatty(self):
    return True


def test_quick_work_says_nothing(monkeypatch):
  for stream in (io.StringIO(), _Terminal()):
    monkeypatch.setattr('sys.stderr', stream)
    assert list(progress.track(range(3), 'fits')) == [0, 1, 2]
    assert stream.getvalue() == ''


def test_a_line_every_half_minute_without_terminal(monkeypatch):
  clock = [0.0]
  monkeypatch.setattr('time.monotonic', lambda: clock[0])
  monkeypatch.setattr('sys.stderr', stream := io.StringIO())
  for _ in progress.track(range(100), 'fits'):
    clock[0] += 1
  assert stream.getvalue().splitlines() == [
    'fits: 30 of 100, 1/s, 0:01:10 left',
    'fits: 60 of 100, 1/s, 0:00:40 left',
    'fits: 90 of 100, 1/s, 0:00:10 left',
  ]


def test_what_was_done_before_does_not_count_in_the_rate(monkeypatch):
  clock = [0.0]
  monkeypatch.setattr('time.monotonic', lambda: clock[0])
  monkeypatch.setattr('sys.stderr', stream := io.StringIO())
  with progress.Progress('steps', 100) as shown:
    shown.advance(50)
    for _ in range(40):
      clock[0] += 2
      shown.advance()
  assert stream.getvalue().splitlines()[0] == (
    'steps: 65 of 100, 0.5/s, 0:01:10 left'
  )


def test_bars_inside_one_another_show_in_a_terminal(monkeypatch):
  monkeypatch.setattr(progress, '_PATIENCE', 0.02)
  monkeypatch.setattr('sys.stderr', stream := _Terminal())
  monkeypatch.setenv('TERM', 'xterm')
  with progress.Progress('outer', 2) as outer:
    for _ in progress.track(range(2), 'inner'):
      time.sleep(0.15)
    outer.advance()
  shown = stream.getvalue()
  assert 'outer' in shown
  assert 'inner' in shown
  assert progress.Progress._shared is None
