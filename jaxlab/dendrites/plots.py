"""Figures of the family: arrays in, figure out."""

from collections.abc import Mapping, Sequence

import matplotlib.collections
import matplotlib.figure
import numpy as np

from jaxlab import plots
from jaxlab.dendrites.compartments import CompartmentTree


def morphology(
  tree: CompartmentTree,
  values: np.ndarray,
  *,
  label: str = 'voltage (mV)',
  title: str = '',
  axes: tuple[int, int] = (0, 1),
) -> matplotlib.figure.Figure:
  """Draws a neuron with every compartment coloured by a value.

  Args:
    tree: the neuron.
    values: `[n]` values of the nodes.
    label: what they are.
    title: what is seen.
    axes: which of x, y, z go right and up.
  """
  fig, grid = plots.figure(5.0, 4.6)
  axis = grid[0, 0]
  child = np.flatnonzero(tree.parent >= 0)
  points = tree.xyz[:, list(axes)]
  lines = np.stack([points[tree.parent[child]], points[child]], axis=1)
  width = np.clip(tree.diameter[child], 0.6, 8.0)
  drawn = matplotlib.collections.LineCollection(
    list(lines), array=np.asarray(values)[child], linewidths=width
  )
  axis.add_collection(drawn)
  root = np.flatnonzero(tree.parent < 0)
  limits = np.asarray(values).min(), np.asarray(values).max()
  drawn.set_clim(*limits)
  axis.scatter(
    *points[root].T,
    c=np.asarray(values)[root],
    s=60,
    vmin=limits[0],
    vmax=limits[1],
    zorder=3,
  )
  axis.autoscale_view()
  names = 'xyz'
  axis.set(
    aspect='equal',
    xlabel=f'{names[axes[0]]} (um)',
    ylabel=f'{names[axes[1]]} (um)',
    title=title,
  )
  fig.colorbar(drawn, ax=axis, label=label)
  return fig


def traces(
  t: np.ndarray,
  series: Mapping[str, np.ndarray],
  *,
  ylabel: str = 'voltage (mV)',
  title: str = '',
) -> matplotlib.figure.Figure:
  """Draws voltages over time.

  Args:
    t: `[S]` ms.
    series: name -> `[S]` values.
    ylabel: what they are.
    title: what is seen.
  """
  fig, grid = plots.figure(6.4, 3.4)
  axis = grid[0, 0]
  for k, (name, values) in enumerate(series.items()):
    axis.plot(t, values, label=name, lw=1.4, color=_color(k))
  axis.set(xlabel='time (ms)', ylabel=ylabel, title=title)
  axis.legend(frameon=False)
  return fig


def raster(
  t: np.ndarray,
  fired: np.ndarray,
  *,
  names: Sequence[str] = (),
  title: str = '',
) -> matplotlib.figure.Figure:
  """Draws when which cell fired.

  Args:
    t: `[T]` ms, end of each step.
    fired: `[T, N]` nonzero where a cell fired.
    names: of the cells; numbers if there are none.
    title: what is seen.
  """
  fig, grid = plots.figure(6.4, 3.4)
  axis = grid[0, 0]
  fired = np.asarray(fired) > 0
  times = [np.asarray(t)[column] for column in fired.T]
  axis.eventplot(times, colors=_color(0), linelengths=0.8)
  axis.set(xlabel='time (ms)', ylabel='cell', title=title)
  if names:
    axis.set_yticks(range(len(names)), names)
  return fig


def slopes(
  x: np.ndarray,
  series: Mapping[str, np.ndarray],
  *,
  xlabel: str,
  ylabel: str,
  title: str = '',
) -> matplotlib.figure.Figure:
  """Draws points and lines over two logarithmic axes.

  Args:
    x: `[K]` positive positions.
    series: name -> `[K]` positive values; NaN leaves a gap.
    xlabel: label with the unit.
    ylabel: label with the unit.
    title: what is seen.
  """
  fig, grid = plots.figure(5.6, 3.6)
  axis = grid[0, 0]
  for k, (name, values) in enumerate(series.items()):
    axis.plot(x, values, 'o-', label=name, color=_color(k))
  axis.set(
    xscale='log', yscale='log', xlabel=xlabel, ylabel=ylabel, title=title
  )
  axis.legend(frameon=False)
  return fig


def _color(k: int) -> str:
  return plots.PALETTE[k % len(plots.PALETTE)]
