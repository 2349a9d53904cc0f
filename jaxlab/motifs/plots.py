"""Figures of the family: arrays in, figure out."""

from collections.abc import Mapping, Sequence

import matplotlib.figure
import numpy as np

from jaxlab import plots
from jaxlab.motifs import catalog
from jaxlab.motifs.regimes import REGIMES

_CORNERS = np.array([(0.0, 0.0), (0.5, 0.87), (1.0, 0.0)])
_LAYER_COLORS = plots.PALETTE[:3]


def motif_gallery(
  captions: Sequence[str] = catalog.NAMES,
) -> matplotlib.figure.Figure:
  """Draws the 13 motifs, coloured by layer.

  Args:
    captions: 13 titles.
  """
  fig, axes = plots.figure(8.4, 3.0, nrows=2, ncols=7)
  for axis in axes.flat:
    axis.set_axis_off()
  for axis, motif, layer, caption in zip(
    axes.flat, catalog.MOTIFS, catalog.LAYER_OF, captions, strict=False
  ):
    color = _LAYER_COLORS[int(layer) - 1]
    for source, target in motif.edges:
      mutual = (target, source) in motif.edges
      axis.annotate(
        '',
        _CORNERS[target],
        _CORNERS[source],
        arrowprops={
          'arrowstyle': '-|>',
          'color': color,
          'shrinkA': 5,
          'shrinkB': 5,
          'connectionstyle': f'arc3,rad={0.18 if mutual else 0}',
        },
      )
    axis.plot(*_CORNERS.T, 'o', color='black', ms=6)
    axis.set(xlim=(-0.2, 1.2), ylim=(-0.2, 1.1), aspect='equal')
    axis.set_title(caption, fontsize=8, loc='center')
  return fig


def z_profile(
  profiles: Mapping[str, np.ndarray], *, ylabel: str = 'normalised z-score'
) -> matplotlib.figure.Figure:
  """Draws a value of each motif, one line a graph.

  Args:
    profiles: `[13]` values by graph; nan leaves a gap.
    ylabel: what the values are.
  """
  fig, axes = plots.figure(7.6, 3.8)
  axis = axes[0, 0]
  place = np.arange(13)
  for color, (name, profile) in zip(
    plots.PALETTE, profiles.items(), strict=False
  ):
    axis.plot(place, profile, 'o-', color=color, ms=4, lw=1, label=name)
  axis.axhline(0, color='0.4', lw=0.8)
  axis.set_xticks(place, catalog.NAMES, rotation=30)
  axis.set(ylabel=ylabel)
  fig.legend(loc='outside right upper')
  return fig


def regime_map(
  c2: np.ndarray, c3: np.ndarray, regime: np.ndarray, *, reach: float = 12.0
) -> matplotlib.figure.Figure:
  """Draws regimes over the cycle products, with the origin's stability lines.

  Args:
    c2: `[n]` sums of the products around 2-cycles.
    c3: `[n]` sums of the products around 3-cycles.
    regime: `[n]` indices into `REGIMES`.
    reach: half width of the square that is drawn.
  """
  fig, axes = plots.figure(6.2, 4.4)
  axis = axes[0, 0]
  for index, name in enumerate(REGIMES):
    here = regime == index
    if here.any():
      color = plots.PALETTE[index]
      axis.plot(c2[here], c3[here], '.', ms=3, color=color, label=name)
  static = np.array([-reach, 3.0])
  axis.plot(static, 1 - static, '-', color='black', label='static line')
  axis.plot(static, 2 * static - 8, '--', color='black', label='Hopf line')
  axis.set(
    xlabel='c2, 2-cycles',
    ylabel='c3, 3-cycles',
    xlim=(-reach, reach),
    ylim=(-reach, reach),
  )
  fig.legend(loc='outside right upper')
  return fig


def spectrum(
  panels: Mapping[str, tuple[np.ndarray, np.ndarray]],
) -> matplotlib.figure.Figure:
  """Draws eigenvalues and the predicted edge of their support.

  Args:
    panels: complex eigenvalues and a closed complex curve, by title.
  """
  fig, axes = plots.figure(2.6 * len(panels), 2.9, ncols=len(panels))
  for axis, (title, (values, curve)) in zip(
    axes[0], panels.items(), strict=True
  ):
    axis.plot(values.real, values.imag, '.', ms=2)
    closed = np.append(curve, curve[0])
    axis.plot(closed.real, closed.imag, '-', color=plots.PALETTE[1])
    reach = 1.1 * max(np.abs(values).max(), np.abs(curve).max())
    span = (-reach, reach)
    axis.set(title=title, aspect='equal', xlabel='Re', xlim=span, ylim=span)
  axes[0, 0].set_ylabel('Im')
  return fig


def plane(
  points: Mapping[str, tuple[np.ndarray, np.ndarray]],
  *,
  xlabel: str,
  ylabel: str,
) -> matplotlib.figure.Figure:
  """Draws two scores of each arm with their intervals.

  Args:
    points: (mean, low, high) of x and of y, by arm.
    xlabel: what x is.
    ylabel: what y is.
  """
  fig, axes = plots.figure(6.6, 4.0)
  axis = axes[0, 0]
  for index, (name, (x, y)) in enumerate(points.items()):
    axis.errorbar(
      x[0],
      y[0],
      xerr=np.abs([[x[0] - x[1]], [x[2] - x[0]]]),
      yerr=np.abs([[y[0] - y[1]], [y[2] - y[0]]]),
      fmt='os^Dv'[index % 5],
      color=plots.PALETTE[index % len(plots.PALETTE)],
      capsize=2,
      ms=5,
      lw=1,
      label=name,
    )
  axis.set(xlabel=xlabel, ylabel=ylabel)
  fig.legend(loc='outside right upper')
  return fig
