import subprocess
import sys

import matplotlib
import numpy as np
import pytest

from jaxlab import plots


def _series(names, length=4):
  rng = np.random.default_rng(0)
  means = {name: rng.normal(size=length) for name in names}
  return {name: (m, m - 0.1, m + 0.2) for name, m in means.items()}


def test_nothing_global_is_touched():
  code = (
    'import sys, matplotlib; before = dict(matplotlib.rcParams);'
    'from jaxlab import plots; plots.figure(); plots.heatmap([[1]], "a", "b");'
    'assert dict(matplotlib.rcParams) == before;'
    'import matplotlib.pyplot; assert not matplotlib.pyplot.get_fignums();'
    'assert "jaxlab.harness" not in sys.modules'
  )
  subprocess.run([sys.executable, '-c', code], check=True)


def test_palette_is_told_apart_without_red_and_green_cones():
  # Viénot, Brettel & Mollon (1999), linear RGB -> dichromat, in lightness and
  # blue: the two channels that protanopes and deuteranopes keep.
  rgb = np.array([matplotlib.colors.to_rgb(c) for c in plots.PALETTE]) ** 2.2
  for weights in ([0.112, 0.886, 0.0], [0.292, 0.708, 0.0]):
    seen = np.stack([rgb @ weights, rgb[:, 2]], 1) ** (1 / 2.2)
    distance = np.linalg.norm(seen[:, None] - seen[None], axis=-1)
    assert distance[np.triu_indices(len(rgb), 1)].min() > 0.1


def test_lines_and_bands_are_the_numbers():
  x = [1, 10, 100, 1000]
  series = _series(['B3', 'SH'])
  figure = plots.line_with_bands(
    x, series, xlabel='budget', ylabel='regret', xscale='log', title='t'
  )
  (axis,) = figure.axes
  for line, band, (name, (mean, low, high)) in zip(
    axis.lines, axis.collections, series.items(), strict=True
  ):
    assert line.get_label() == name
    np.testing.assert_array_equal(line.get_xdata(), x)
    np.testing.assert_array_equal(line.get_ydata(), mean)
    corners = band.get_paths()[0].vertices[:, 1]
    assert (corners.min(), corners.max()) == (low.min(), high.max())
  assert (axis.get_xlabel(), axis.get_xscale()) == ('budget', 'log')


def test_twelve_series_look_different():
  names = [f'method {i}' for i in range(12)]
  figure = plots.line_with_bands(
    range(4), _series(names), xlabel='x', ylabel='y'
  )
  looks = {(v.get_color(), v.get_linestyle()) for v in figure.axes[0].lines}
  assert len(looks) == 12


def test_bars_sit_in_their_groups():
  labels = ['high', 'moderate', 'none']
  series = _series(['B3', 'SH'], 3)
  figure = plots.bars_with_intervals(labels, series, ylabel='regret')
  (axis,) = figure.axes
  for index, (bars, (mean, low, high)) in enumerate(
    zip(axis.containers, series.values(), strict=True)
  ):
    np.testing.assert_allclose([b.get_height() for b in bars], mean)
    centres = [b.get_x() + b.get_width() / 2 for b in bars]
    np.testing.assert_array_equal(np.round(centres), [0, 1, 2])
    ends = np.array(axis.collections[index].get_segments())[:, :, 1]
    np.testing.assert_allclose(ends, np.stack([low, high], 1))
  assert [t.get_text() for t in axis.get_xticklabels()] == labels


def test_heatmap_writes_its_numbers():
  figure = plots.heatmap([[0.5, np.nan], [2, 3]], ['a', 'b'], ['c', 'd'])
  assert [t.get_text() for t in figure.axes[0].texts] == ['0.5', '2', '3']


@pytest.mark.parametrize(
  'draw',
  [
    lambda: plots.line_with_bands(
      range(3), _series(['B3']), xlabel='x', ylabel='y'
    ),
    lambda: plots.bars_with_intervals(['a'], _series(['B3']), ylabel='y'),
    lambda: plots.heatmap([[1, 2]], ['a', 'b'], ['c']),
  ],
)
def test_wrong_shapes(draw):
  with pytest.raises(ValueError, match='needs shape'):
    draw()


def test_figure_shape():
  figure, axes = plots.figure(5, 2, nrows=2, ncols=3)
  assert axes.shape == (2, 3)
  assert tuple(figure.get_size_inches()) == (5, 2)
