"""What the figures of the family show."""

import matplotlib.collections
import matplotlib.colors
import numpy as np
import pytest

from jaxlab import dendrites, plots
from jaxlab.dendrites import plots as drawn

# A soma, an apical branch that forks, and a basal one.
SWC = """
1 1 0 0 0 8 -1
2 4 0 40 5 2 1
3 4 0 80 5 1.5 2
4 4 -30 120 5 0.4 3
5 4 30 120 5 0.2 3
6 3 20 -30 0 1 1
"""


@pytest.fixture(scope='module')
def tree():
  return dendrites.discretize(dendrites.parse_swc(SWC), max_len=20.0)


@pytest.mark.parametrize('axes', [(0, 1), (2, 1)])
def test_morphology_has_a_line_for_each_edge(tree, axes):
  values = np.linspace(-80.0, 30.0, tree.n)
  fig = drawn.morphology(tree, values, label='V (mV)', title='cell', axes=axes)
  axis, bar = fig.axes
  lines = next(
    c
    for c in axis.collections
    if isinstance(c, matplotlib.collections.LineCollection)
  )
  (root,) = [c for c in axis.collections if c is not lines]
  edges = [(tree.parent[i], i) for i in range(tree.n) if tree.parent[i] >= 0]
  segments = lines.get_segments()
  assert len(segments) == len(edges) == tree.n - 1
  for segment, (above, child) in zip(segments, edges, strict=True):
    expected = tree.xyz[[above, child]][:, list(axes)]
    np.testing.assert_allclose(segment, expected)
  np.testing.assert_allclose(lines.get_array(), values[1:])
  np.testing.assert_allclose(root.get_offsets(), tree.xyz[:1, list(axes)])
  np.testing.assert_allclose(root.get_array(), values[:1])
  assert lines.get_clim() == root.get_clim() == (-80.0, 30.0)
  widths = np.asarray(lines.get_linewidths())
  assert (widths[np.argsort(tree.diameter[1:])] == np.sort(widths)).all()
  assert widths.min() >= 0.6
  assert axis.get_aspect() == 1
  names = [f'{"xyz"[a]} (um)' for a in axes]
  assert [axis.get_xlabel(), axis.get_ylabel()] == names
  assert axis.get_title() == 'cell'
  assert bar.get_ylabel() == 'V (mV)'
  # All of the cell is in view.
  for low, high, place in zip(
    *np.transpose([axis.get_xlim(), axis.get_ylim()]),
    tree.xyz[:, list(axes)].T,
    strict=True,
  ):
    assert low <= place.min()
    assert place.max() <= high


def test_traces():
  t = np.arange(5) * 0.5
  series = {'soma': t - 65, 'tip': -60 - t}
  (axis,) = drawn.traces(t, series, ylabel='V (mV)', title='run').axes
  assert len(axis.lines) == 2
  for line, (name, values) in zip(axis.lines, series.items(), strict=True):
    np.testing.assert_array_equal(line.get_xydata(), np.stack([t, values], 1))
    assert line.get_label() == name
  texts = [text.get_text() for text in axis.get_legend().get_texts()]
  assert texts == ['soma', 'tip']
  assert axis.get_xlabel() == 'time (ms)'
  assert axis.get_ylabel() == 'V (mV)'
  assert axis.get_title() == 'run'


def test_more_traces_than_colours():
  names = map(str, range(len(plots.PALETTE) + 1))
  (axis,) = drawn.traces(np.arange(2), dict.fromkeys(names, np.zeros(2))).axes
  assert len(axis.lines) == len(plots.PALETTE) + 1
  colors = [matplotlib.colors.to_hex(line.get_color()) for line in axis.lines]
  assert len(set(colors)) == len(plots.PALETTE)


@pytest.mark.parametrize('silent', [False, True])
def test_raster_has_a_mark_for_each_spike(silent):
  t = np.arange(1, 7) * 0.025
  fired = np.zeros((6, 3))
  if not silent:
    fired[[1, 4], 0] = fired[5, 2] = 1.0
  (axis,) = drawn.raster(t, fired, names=('A', 'B', 'C'), title='net').axes
  assert len(axis.collections) == 3
  for k, marks in enumerate(axis.collections):
    np.testing.assert_allclose(marks.get_positions(), t[fired[:, k] > 0])
    assert marks.get_lineoffset() == k
  assert [x.get_text() for x in axis.get_yticklabels()] == ['A', 'B', 'C']
  assert list(axis.get_yticks()) == [0, 1, 2]
  assert axis.get_xlabel() == 'time (ms)'
  assert axis.get_ylabel() == 'cell'
  assert axis.get_title() == 'net'


def test_slopes_are_over_two_logarithmic_axes():
  x = np.array([1.0, 10.0, 100.0])
  series = {'ours': x**2, 'theirs': np.array([1.0, np.nan, 3.0])}
  fig = drawn.slopes(x, series, xlabel='dt (ms)', ylabel='error', title='order')
  (axis,) = fig.axes
  assert axis.get_xscale() == axis.get_yscale() == 'log'
  assert [line.get_label() for line in axis.lines] == ['ours', 'theirs']
  for line, values in zip(axis.lines, series.values(), strict=True):
    np.testing.assert_array_equal(line.get_xdata(), x)
    np.testing.assert_array_equal(line.get_ydata(), values)
    assert line.get_marker() == 'o'
  texts = [text.get_text() for text in axis.get_legend().get_texts()]
  assert texts == ['ours', 'theirs']
  assert axis.get_xlabel() == 'dt (ms)'
  assert axis.get_ylabel() == 'error'
  assert axis.get_title() == 'order'
