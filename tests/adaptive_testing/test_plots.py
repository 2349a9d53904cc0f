"""Figures show the arrays they are given."""

import io

import numpy as np
import pytest

from jaxlab.adaptive_testing import plots


def _curve(values):
  values = np.asarray(values, float)
  return values, 0.9 * values, 1.1 * values


def _lines(axis):
  return {
    str(line.get_label()): (line.get_xdata(), line.get_ydata())
    for line in axis.get_lines()
  }


def _legend(figure):
  return [text.get_text() for text in figure.legends[0].get_texts()]


def test_error_curves():
  curves = {'mfi': _curve([0.5, 0.2, 0.1]), 'random': _curve([0.6, 0.4, 0.3])}
  figure = plots.error_curves(curves, title='a test')
  (axis,) = figure.axes
  assert axis.get_yscale() == 'log'
  for name, (mean, _, _) in curves.items():
    x, y = _lines(axis)[name]
    np.testing.assert_array_equal(x, [1, 2, 3])
    np.testing.assert_array_equal(y, mean)
  assert _legend(figure) == list(curves)


def test_savings_are_percentages_with_whiskers():
  bars = {'mfi': (0.1, 0.05, 0.15), 'random': (0.5, 0.4, 0.6)}
  (axis,) = plots.savings(bars, published=0.2).axes
  widths = [patch.get_width() for patch in axis.patches]
  np.testing.assert_allclose(widths, [10, 50])
  segments = axis.collections[0].get_segments()
  np.testing.assert_allclose(segments[0][:, 0], [5, 15])
  assert [t.get_text() for t in axis.get_yticklabels()] == list(bars)
  marked = [line.get_xdata()[0] for line in axis.get_lines()]
  np.testing.assert_allclose(marked, [0, 20])


def test_exposure():
  figure = plots.exposure({'mfi': [1.0, 0.5, 0.0]})
  x, y = _lines(figure.axes[0])['mfi']
  np.testing.assert_array_equal(x, [1, 2, 3])
  np.testing.assert_array_equal(y, [1, 0.5, 0])


def test_recovery_has_a_panel_for_each_rule():
  target = np.array([-1.0, 0.0, 1.0])
  figure = plots.recovery(target, {'a': target, 'b': target + 0.5})
  assert [axis.get_title(loc='left') for axis in figure.axes] == [
    'a: MSE 0.000',
    'b: MSE 0.250',
  ]
  points = figure.axes[1].collections[0].get_offsets()
  np.testing.assert_allclose(points, np.stack([target, target + 0.5], 1))


def test_training_is_a_running_mean():
  values = np.arange(40.0)
  x, y = _lines(plots.training({'gpm': values}).axes[0])['gpm']
  np.testing.assert_allclose(y, values[:-1] + 0.5)
  np.testing.assert_allclose(x, np.arange(2, 41))


def test_growth_has_logarithmic_axes():
  figure = plots.growth({'mfi': [10, 100]}, {'mfi': [1.0, 2.0]}, ylabel='ms')
  (axis,) = figure.axes
  assert (axis.get_xscale(), axis.get_yscale()) == ('log', 'log')
  np.testing.assert_array_equal(_lines(axis)['mfi'][1], [1, 2])


def test_regrets_are_distributions():
  x, y = _lines(plots.regrets({'mfi': [3.0, 1.0, 2.0]}).axes[0])['mfi']
  np.testing.assert_array_equal(x, [1, 2, 3])
  np.testing.assert_allclose(y, [1 / 3, 2 / 3, 1])


@pytest.mark.parametrize(
  'figure',
  [
    plots.savings({'mfi': (0.1, 0.0, 0.2)}),
    plots.items_against_published(['1', '2'], [0, 1], [0.1, 0.9], [0.2, 0.2]),
    plots.regrets({'mfi': [1.0, 1.5]}, title='a bank'),
  ],
)
def test_figures_can_be_drawn(figure):
  buffer = io.BytesIO()
  figure.savefig(buffer, format='png')
  assert buffer.getvalue().startswith(b'\x89PNG')
