"""The look of all figures and the chart kinds that several families draw.

Pure: arrays in, a `matplotlib.figure.Figure` out; nothing of pyplot's state
is touched. Draw inside `with matplotlib.rc_context(STYLE):` when adding to a
figure by hand.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import matplotlib.axes
import matplotlib.figure
import numpy as np
from numpy.typing import ArrayLike

# Okabe & Ito, "Color universal design" (2008): told apart by colour-blind
# readers. Black comes last, yellow is left out for it is too pale for lines.
PALETTE = (
  '#0072B2',
  '#D55E00',
  '#009E73',
  '#CC79A7',
  '#E69F00',
  '#56B4E9',
  '#000000',
)
DASHES = ('-', '--', ':', '-.')

STYLE: dict[Any, Any] = {
  'axes.grid': True,
  'axes.grid.axis': 'both',
  'axes.axisbelow': True,
  'axes.spines.right': False,
  'axes.spines.top': False,
  'axes.titlelocation': 'left',
  'axes.titlesize': 10,
  'axes.labelsize': 9,
  'figure.dpi': 100,
  'figure.facecolor': 'white',
  'font.size': 9,
  'grid.color': '#DDDDDD',
  'grid.linewidth': 0.6,
  'legend.frameon': False,
  'legend.fontsize': 8,
  'lines.linewidth': 1.6,
  'savefig.dpi': 150,
  'xtick.labelsize': 8,
  'ytick.labelsize': 8,
}


def figure(
  width: float = 6.0, height: float = 3.6, nrows: int = 1, ncols: int = 1
) -> tuple[matplotlib.figure.Figure, np.ndarray]:
  """Makes an empty figure in the common style.

  Args:
    width: inches.
    height: inches.
    nrows: rows of axes.
    ncols: columns of axes.

  Returns:
    The figure and its axes, an object array `[nrows, ncols]`.
  """
  with matplotlib.rc_context(STYLE):
    fig = matplotlib.figure.Figure((width, height), layout='constrained')
    return fig, fig.subplots(nrows, ncols, squeeze=False)


def line_with_bands(
  x: ArrayLike,
  series: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike]],
  *,
  xlabel: str,
  ylabel: str,
  xscale: str = 'linear',
  yscale: str = 'linear',
  title: str = '',
) -> matplotlib.figure.Figure:
  """Draws one line with an interval band for each series.

  Args:
    x: `[K]` positions.
    series: name -> (mean, low, high), each `[K]`; NaN leaves a gap.
    xlabel: label with the unit.
    ylabel: label with the unit.
    xscale: a matplotlib scale, such as `'log'`.
    yscale: likewise.
    title: what is seen.

  Returns:
    The figure; the legend stands beside the axes.

  Raises:
    ValueError: if a series is not of the shape of `x`.
  """
  x = np.asarray(x)
  looks = itertools.product(DASHES, PALETTE)
  with matplotlib.rc_context(STYLE):
    fig, axes = figure(7.0, 3.8)
    axis = axes[0, 0]
    for (name, bounds), (dash, color) in zip(
      series.items(), itertools.cycle(looks), strict=False
    ):
      mean, low, high = (_shaped(name, values, x.shape) for values in bounds)
      axis.plot(x, mean, dash, color=color, label=name)
      axis.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
    axis.set(
      xlabel=xlabel, ylabel=ylabel, xscale=xscale, yscale=yscale, title=title
    )
    _legend_outside(fig, axis)
  return fig


def bars_with_intervals(
  labels: Sequence[str],
  series: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike]],
  *,
  ylabel: str,
  title: str = '',
) -> matplotlib.figure.Figure:
  """Draws groups of bars with interval whiskers.

  Args:
    labels: `[K]` names of the groups.
    series: name -> (mean, low, high), each `[K]`; one bar in every group.
    ylabel: label with the unit.
    title: what is seen.

  Returns:
    The figure; the legend stands beside the axes.

  Raises:
    ValueError: if a series has not one value per label.
  """
  where = np.arange(len(labels))
  width = 0.8 / max(len(series), 1)
  with matplotlib.rc_context(STYLE):
    fig, axes = figure(max(4.0, 0.9 * len(labels) + 2.0), 3.6)
    axis = axes[0, 0]
    axis.grid(visible=False, axis='x')
    for index, (name, bounds) in enumerate(series.items()):
      mean, low, high = (_shaped(name, v, where.shape) for v in bounds)
      place = where + (index - (len(series) - 1) / 2) * width
      axis.bar(
        place,
        mean,
        0.92 * width,
        color=PALETTE[index % len(PALETTE)],
        label=name,
      )
      # Whiskers as lines, for an interval need not contain the mean.
      axis.vlines(place, low, high, color='#333333', linewidth=1.2)
    rotation = 30 if max(map(len, labels), default=0) > 10 else 0
    axis.set_xticks(where, labels, rotation=rotation)
    axis.set(ylabel=ylabel, title=title)
    if len(series) > 1:
      _legend_outside(fig, axis)
  return fig


def heatmap(
  values: ArrayLike,
  row_labels: Sequence[str],
  column_labels: Sequence[str],
  *,
  xlabel: str = '',
  ylabel: str = '',
  label: str = '',
  title: str = '',
  text_format: str = '{:.3g}',
) -> matplotlib.figure.Figure:
  """Draws a matrix as colours with its numbers written in.

  Args:
    values: `[R, C]`; NaN leaves a cell empty.
    row_labels: `[R]`.
    column_labels: `[C]`.
    xlabel: what the columns are.
    ylabel: what the rows are.
    label: what the numbers are, with the unit.
    title: what is seen.
    text_format: how a number is written; `''` writes none.

  Returns:
    The figure with a colour bar.

  Raises:
    ValueError: if the labels do not fit the matrix.
  """
  shape = (len(row_labels), len(column_labels))
  matrix = _shaped('values', values, shape)
  with matplotlib.rc_context(STYLE):
    fig, axes = figure(0.7 * shape[1] + 2.5, 0.45 * shape[0] + 1.6)
    axis = axes[0, 0]
    image = axis.imshow(matrix, cmap='cividis', aspect='auto')
    axis.grid(visible=False)
    axis.set_xticks(range(shape[1]), column_labels)
    axis.set_yticks(range(shape[0]), row_labels)
    axis.set(xlabel=xlabel, ylabel=ylabel, title=title)
    for row, column in np.argwhere(np.isfinite(matrix)):
      value = matrix[row, column]
      # The map runs from dark to light: write light on dark and vice versa.
      color = 'white' if image.norm(value) < 0.5 else 'black'
      axis.text(
        column,
        row,
        text_format.format(value),
        color=color,
        ha='center',
        va='center',
        fontsize=8,
      )
    fig.colorbar(image, ax=axis, label=label)
  return fig


def _shaped(name: str, values: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
  array = np.asarray(values, float)
  if array.shape != shape:
    raise ValueError(f'{name!r} needs shape {shape}, got {array.shape}.')
  return array


def _legend_outside(
  fig: matplotlib.figure.Figure, axis: matplotlib.axes.Axes
) -> None:
  if axis.get_legend_handles_labels()[0]:
    fig.legend(loc='outside right upper')
