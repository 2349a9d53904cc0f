"""Figures show the numbers that they are given."""

import matplotlib.figure
import numpy as np

from jaxlab.certified import plots


def _drawn(fig, tmp_path):
  assert isinstance(fig, matplotlib.figure.Figure)
  fig.savefig(tmp_path / 'figure.png', dpi=50)
  return fig.axes


def _legend(fig):
  return [text.get_text() for text in fig.legends[0].get_texts()]


def test_fronts_and_published_points(tmp_path):
  fig = plots.fronts(
    {'ibp': [[0.7, 0.5], [0.6, 0.55]], 'sabr': [[0.8, 0.4]]},
    {'ibp': [0.65, 0.45]},
    title='two methods',
  )
  (axis,) = _drawn(fig, tmp_path)
  first, star, second, _ = axis.lines
  np.testing.assert_array_equal(first.get_xdata(), [0.6, 0.7])
  np.testing.assert_array_equal(first.get_ydata(), [0.55, 0.5])
  np.testing.assert_array_equal(star.get_xydata(), [[0.65, 0.45]])
  assert star.get_color() == first.get_color() != second.get_color()
  assert _legend(fig) == ['ibp', 'sabr', 'published']


def test_a_single_front_needs_no_published_point(tmp_path):
  fig = plots.fronts({'ibp': [[0.7, 0.5]]})
  _drawn(fig, tmp_path)
  assert _legend(fig) == ['ibp']


def test_attainment_has_a_band_around_the_median(tmp_path):
  low = [[0.5, 0.4], [0.6, 0.2]]
  middle = [[0.55, 0.45], [0.7, 0.3]]
  high = [[0.6, 0.5], [0.8, 0.3]]
  fig = plots.attainment_surfaces({'ibp': (low, middle, high)})
  (axis,) = _drawn(fig, tmp_path)
  np.testing.assert_array_equal(axis.lines[0].get_xydata(), middle)
  corners = axis.collections[0].get_paths()[0].vertices
  np.testing.assert_allclose(corners[:, 1].max(), 0.5)
  np.testing.assert_allclose(corners[:, 0].max(), 0.8)
  assert _legend(fig) == ['ibp']


def test_cascade_stacks_the_stages(tmp_path):
  stages = {
    'IBP': [0.5, 0.2],
    'CROWN-IBP': [0.1, 0.3],
    'branch and bound': [0.05, 0.1],
  }
  fig = plots.cascade(['a network', 'b'], stages)
  (axis,) = _drawn(fig, tmp_path)
  bars = np.array([[p.get_y(), p.get_height()] for p in axis.patches])
  bars = bars.reshape(3, 2, 2)
  np.testing.assert_allclose(bars[..., 1], list(stages.values()))
  np.testing.assert_allclose(bars[2, :, 0], [0.6, 0.5])
  assert _legend(fig) == list(stages)[::-1]


def test_complementarity_has_two_panels_in_one_order(tmp_path):
  contribution = {'ibp': 0.02, 'sabr': 0.03}
  share = {'sabr': 0.75, 'ibp': 0.25}
  left, right = _drawn(plots.complementarity(contribution, share), tmp_path)
  widths = [[p.get_width() for p in axis.patches] for axis in (left, right)]
  assert widths == [[0.02, 0.03], [0.25, 0.75]]
  names = [label.get_text() for label in left.get_yticklabels()]
  assert names == ['ibp', 'sabr']
