"""Figures show the arrays they are given."""

import io

import matplotlib.figure
import numpy as np
import pytest

from jaxlab.bandits import plots

BUDGETS = np.array([100, 1000, 10000])


def curve(values, spread=0.01):
  values = np.asarray(values, float)
  return values, values - spread, values + spread


REGRETS = {'Box Thirding': curve([0.3, 0.2, 0.1]), 'uniform': curve([0.4] * 3)}


def lines(axis):
  return {line.get_label(): line.get_ydata() for line in axis.get_lines()}


def legend(figure):
  return [text.get_text() for text in figure.legends[0].get_texts()]


def is_drawable(figure):
  buffer = io.BytesIO()
  figure.savefig(buffer, format='png')
  return buffer.getvalue().startswith(b'\x89PNG')


@pytest.mark.parametrize('log_regret', [False, True])
def test_regret_curves(log_regret):
  figure = plots.regret_curves(BUDGETS, REGRETS, log_regret=log_regret)
  axis = figure.axes[0]
  assert (axis.get_xscale(), axis.get_yscale()) == (
    'log',
    'log' if log_regret else 'linear',
  )
  for name, (mean, _, _) in REGRETS.items():
    np.testing.assert_array_equal(lines(axis)[name], mean)
  band = axis.collections[0].get_paths()[0].get_extents()
  np.testing.assert_allclose([band.ymin, band.ymax], [0.09, 0.31])
  assert legend(figure) == list(REGRETS)
  assert is_drawable(figure)


def test_error_curves_have_a_panel_for_each_eps():
  errors = {'Box Thirding': curve([[0.5, 0.3, 0.2], [0.1, 0.05, 0.01]], 0.005)}
  for log_error in (False, True):
    figure = plots.error_curves(
      BUDGETS, errors, [0.02, 0.1], log_error=log_error
    )
    titles = [axis.get_title(loc='left') for axis in figure.axes]
    assert titles == ['eps = 0.02', 'eps = 0.1']
    for row, axis in enumerate(figure.axes):
      mean = errors['Box Thirding'][0][row]
      np.testing.assert_array_equal(lines(axis)['Box Thirding'], mean)
      low, high = axis.get_ylim()
      assert low <= 0.01
      assert high >= 0.5
    assert is_drawable(figure)


def test_anytime_curves_mark_restarts_on_the_curve():
  figure = plots.anytime_curves(
    BUDGETS, REGRETS, restarts={'Box Thirding': [50, 500, 1000, 20000]}
  )
  axis = figure.axes[0]
  (marks,) = [
    line
    for line in axis.get_lines()
    if line.get_marker() == 'v' and len(line.get_xdata())
  ]
  np.testing.assert_array_equal(marks.get_xdata(), [500, 1000])
  # What is recommended at a checkpoint holds up to the next one.
  np.testing.assert_array_equal(marks.get_ydata(), [0.3, 0.2])
  assert axis.get_lines()[0].get_drawstyle() == 'steps-post'
  assert legend(figure) == list(REGRETS)
  assert is_drawable(figure)


def test_growth_heatmap():
  regrets = np.array([[0.1, 0.2, 0.3], [0.4, np.nan, 0.6]])
  figure = plots.growth_heatmap(regrets, [1.2, 1.7281632], [1, 2, 4])
  axis = figure.axes[0]
  np.testing.assert_array_equal(axis.images[0].get_array(), regrets)
  assert [t.get_text() for t in axis.get_yticklabels()] == ['1.2', '1.728']
  assert [t.get_text() for t in axis.get_xticklabels()] == ['1', '2', '4']
  assert is_drawable(figure)


def test_ablation_bars():
  figure = plots.ablation_bars(
    ['t0 = 1', 't0 = 2'],
    {'reuse': curve([0.1, 0.2]), 'fresh': curve([0.3, 0.4])},
  )
  heights = [bar.get_height() for bar in figure.axes[0].patches]
  assert heights == [0.1, 0.2, 0.3, 0.4]
  assert is_drawable(figure)


def test_error_split_is_stacked_under_the_exact_points():
  parts = np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.2, 0.1])
  exact = np.array([0.61, 0.29, 0.1])
  figure = plots.error_split(BUDGETS, *parts, exact)
  axis = figure.axes[0]
  lower, upper = (c.get_paths()[0].get_extents() for c in axis.collections)
  assert (lower.ymin, lower.ymax) == (0, 0.6)
  assert upper.ymax == pytest.approx(0.7)
  (points,) = axis.get_lines()
  np.testing.assert_array_equal(points.get_ydata(), exact)
  assert is_drawable(figure)


def test_scaling_draws_the_ideal_slope():
  sizes = np.array([1e3, 1e4, 1e5])
  figure = plots.scaling(
    sizes,
    {'batched': curve(sizes * 1e-6, 1e-4)},
    xlabel='arms N',
    ylabel='seconds',
    slope=0.5,
  )
  ideal = figure.axes[0].get_lines()[-1].get_ydata()
  np.testing.assert_allclose(ideal, [0.01, 0.1 / np.sqrt(10), 0.1])
  assert is_drawable(figure)
  plain = plots.scaling(sizes, {}, xlabel='N', ylabel='s', slope=None)
  assert not plain.axes[0].get_lines()


def test_wrong_shapes_name_the_curve():
  with pytest.raises(ValueError, match=r"'uniform' needs shape \(2, 3\)"):
    plots.error_curves(BUDGETS, {'uniform': curve([0.1, 0.1, 0.1])}, [0.1, 0.2])
  with pytest.raises(ValueError, match=r"'uniform' needs shape \(3,\)"):
    plots.anytime_curves(BUDGETS, {'uniform': curve([0.1, 0.1])})


def test_no_pyplot_state():
  pyplot = pytest.importorskip('matplotlib.pyplot')
  figure = plots.anytime_curves(BUDGETS, REGRETS)
  assert isinstance(figure, matplotlib.figure.Figure)
  assert not pyplot.get_fignums()
