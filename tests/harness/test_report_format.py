"""Numbers as people read them, and the geometry of the interval plots."""

import math

import numpy as np
import pytest

from jaxlab.harness import report_format

DASH, MINUS = '\N{EN DASH}', '\N{MINUS SIGN}'


def claim(**changes):
  return {'low': 0.5, 'high': 2.0, 'threshold': 0.0, 'sense': '>', **changes}


@pytest.mark.parametrize(
  ('value', 'text'),
  [
    (None, DASH),
    (math.nan, DASH),
    (math.inf, '∞'),
    (-1.5, f'{MINUS}1.5'),
    (0.0213456, '0.02135'),
    (123456.7, '123,500'),
    (4096, '4,096'),
    (2.0, '2'),
    (3.2e-7, f'3.2e{MINUS}07'),
    ('arm 3', 'arm 3'),
  ],
)
def test_format_number(value, text):
  assert report_format.format_number(value) == text


def test_interval_decides_the_digits():
  entry = {'measured': 12.34567, 'low': 12.1234, 'high': 12.5678, 'unit': '%'}
  assert report_format.format_measured(entry) == '12.35\N{NO-BREAK SPACE}%'
  assert report_format.format_interval(entry) == '[12.12, 12.57]'
  wide = {'measured': 1234.5, 'low': 100.0, 'high': 2300.0}
  assert report_format.format_interval(wide) == '[100, 2,300]'
  half = {'measured': 1.0, 'low': None, 'high': 2.0}
  assert report_format.format_interval(half) == f'[{DASH}, 2]'
  assert report_format.format_interval({'measured': 1.0}) == DASH


@pytest.mark.parametrize(
  ('seconds', 'text'),
  [(9.44, '9.4 s'), (59.96, '1 min 00 s'), (3725, '1 h 02 min'), (None, DASH)],
)
def test_format_duration(seconds, text):
  assert report_format.format_duration(seconds) == text


def test_plot_keeps_order_and_proportion():
  plot = report_format.interval_plot(
    claim(measured=3.0, low=2.0, high=5.0, threshold=1.0, sense='>')
  )
  assert plot.threshold < plot.low < plot.measured < plot.high
  steps = np.diff([plot.threshold, plot.low, plot.measured, plot.high])
  np.testing.assert_allclose(steps / steps[0], [1, 1, 2], rtol=0.01)
  assert plot.region[0] == plot.threshold
  assert sum(plot.region) > plot.high
  below = report_format.interval_plot(
    claim(measured=-1.0, low=-2.0, high=-0.5, threshold=0.0, sense='<')
  )
  assert below.region == (0.0, below.threshold)
  assert below.high < below.threshold


def test_plot_of_broken_numbers():
  assert report_format.interval_plot(claim(measured=None)) is None
  assert report_format.interval_plot(claim(measured=math.nan)) is None
  open_ended = report_format.interval_plot(
    claim(measured=1.0, low=None, high=math.inf, threshold=None)
  )
  assert open_ended.low == open_ended.measured < open_ended.high
  assert open_ended.threshold is None
  point = report_format.interval_plot(
    claim(measured=0.0, low=0.0, high=0.0, threshold=0.0)
  )
  assert point.low == point.measured == point.high == point.threshold
