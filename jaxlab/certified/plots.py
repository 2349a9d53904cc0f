"""Figures of the family: arrays in, figure out."""

from collections.abc import Mapping, Sequence

import matplotlib
import matplotlib.axes
import matplotlib.figure
import numpy as np
from numpy.typing import ArrayLike

from jaxlab import plots

_NATURAL = 'natural accuracy'
_CERTIFIED = 'certified accuracy'


def fronts(
  methods: Mapping[str, ArrayLike],
  published: Mapping[str, ArrayLike] | None = None,
  *,
  title: str = '',
) -> matplotlib.figure.Figure:
  """Draws the front of each method, and its published point as a star.

  Args:
    methods: name -> `[F, 2]` natural and certified accuracy of the front.
    published: name -> `[2]` or `[n, 2]` points; of the colour of the method.
    title: what is seen.
  """
  fig, axes = plots.figure(6.5, 4.0)
  axis = axes[0, 0]
  with matplotlib.rc_context(plots.STYLE):
    for name, color in _colored(methods):
      points = _staircase(methods[name])
      axis.plot(
        *points.T,
        'o',
        color=color,
        drawstyle='steps-pre',
        ls='-',
        ms=4,
        label=name,
      )
      stars = np.atleast_2d(np.asarray((published or {}).get(name, [])))
      if stars.size:
        axis.plot(
          *stars.T, '*', color=color, ms=11, mec='black', mew=0.6, ls='none'
        )
    if published:
      axis.plot([], [], '*', color='white', mec='black', label='published')
    axis.set(xlabel=_NATURAL, ylabel=_CERTIFIED, title=title)
    fig.legend(loc='outside right upper')
  return fig


def attainment_surfaces(
  methods: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike]],
  *,
  title: str = '',
) -> matplotlib.figure.Figure:
  """Draws the median attainment surface of each method with its band.

  Args:
    methods: name -> surfaces that most runs, half of them, and few of them
      reach, each `[F, 2]` natural and certified accuracy.
    title: what is seen.
  """
  fig, axes = plots.figure(6.5, 4.0)
  axis = axes[0, 0]
  floors = []
  with matplotlib.rc_context(plots.STYLE):
    for name, color in _colored(methods):
      low, middle, high = map(_staircase, methods[name])
      axis.plot(*middle.T, color=color, drawstyle='steps-pre', label=name)
      # Where one surface ends, the other still bounds the band.
      grid = np.unique(np.concatenate([low[:, 0], high[:, 0]]))
      floors.append(min(surface[:, 1].min() for surface in (low, middle, high)))
      axis.fill_between(
        grid,
        _height(low, grid),
        _height(high, grid),
        step='pre',
        color=color,
        alpha=0.15,
        linewidth=0,
      )
    axis.set(xlabel=_NATURAL, ylabel=_CERTIFIED, title=title)
    # A band reaches down to 0 where few runs go on.
    axis.set_ylim(bottom=max(0, min(floors) - 0.02))
    fig.legend(loc='outside right upper')
  return fig


def cascade(
  networks: Sequence[str],
  stages: Mapping[str, ArrayLike],
  *,
  title: str = '',
) -> matplotlib.figure.Figure:
  """Draws what each stage of the verifier adds, as stacked bars.

  Args:
    networks: `[K]` names of the bars.
    stages: stage -> `[K]` shares of all examples that this stage has decided;
      stacked in order.
    title: what is seen.
  """
  where = np.arange(len(networks))
  fig, axes = plots.figure(max(4.5, 0.7 * len(networks) + 2.5), 3.8)
  axis = axes[0, 0]
  with matplotlib.rc_context(plots.STYLE):
    axis.grid(visible=False, axis='x')
    bottom = np.zeros(len(networks))
    for stage, color in _colored(stages):
      height = np.asarray(stages[stage], float)
      axis.bar(where, height, 0.7, bottom, color=color, label=stage)
      bottom = bottom + height
    rotation = 30 if max(map(len, networks), default=0) > 8 else 0
    axis.set_xticks(where, networks, rotation=rotation)
    axis.set(ylabel='share of the examples', ylim=(0, 1), title=title)
    # From top to bottom, as the bars are stacked.
    handles, labels = axis.get_legend_handles_labels()
    fig.legend(handles[::-1], labels[::-1], loc='outside right upper')
  return fig


def complementarity(
  contribution: Mapping[str, float],
  share: Mapping[str, float],
  *,
  title: str = '',
) -> matplotlib.figure.Figure:
  """Draws what each method adds to the joint front.

  Args:
    contribution: method -> hypervolume that only this method gives.
    share: method -> share of the points of the joint front.
    title: what is seen.
  """
  names = list(contribution)
  where = np.arange(len(names))
  fig, axes = plots.figure(7.0, 3.2, 1, 2)
  panels = (
    (contribution, 'hypervolume it alone adds'),
    (share, 'share of the joint front'),
  )
  with matplotlib.rc_context(plots.STYLE):
    for axis, (values, label) in zip(axes[0], panels, strict=True):
      axis.grid(visible=False, axis='y')
      axis.barh(
        where,
        [values[name] for name in names],
        color=[color for _, color in _colored(names)],
      )
      axis.set_yticks(where, names)
      axis.invert_yaxis()
      axis.set(xlabel=label)
    fig.suptitle(title, fontsize=10)
  return fig


def _colored(names: Sequence[str] | Mapping[str, object]):
  return [
    (name, plots.PALETTE[index % len(plots.PALETTE)])
    for index, name in enumerate(names)
  ]


def _staircase(points: ArrayLike) -> np.ndarray:
  """Corners by rising first objective."""
  array = np.asarray(points, float)
  return array[np.argsort(array[:, 0])]


def _height(corners: np.ndarray, x: np.ndarray) -> np.ndarray:
  """The largest second objective to be had with the first at least `x`."""
  reached = corners[:, 0] >= x[:, None]
  return np.where(reached, corners[:, 1], 0).max(axis=1)
