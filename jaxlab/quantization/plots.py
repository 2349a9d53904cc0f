"""Figures of the family: arrays in, figure out."""

import math
from collections.abc import Mapping, Sequence

import matplotlib
import matplotlib.axes
import matplotlib.figure
import matplotlib.ticker
import numpy as np

from jaxlab import plots


def block_errors(
  curves: Mapping[str, Sequence[float]],
) -> matplotlib.figure.Figure:
  """Draws the error of each block of a network, a line a method.

  Args:
    curves: name -> errors of the blocks, in order.
  """
  length = max(map(len, curves.values()))
  series = {}
  for name, values in curves.items():
    line = np.full(length, np.nan)
    line[: len(values)] = values
    series[name] = (line, line, line)
  fig = plots.line_with_bands(
    np.arange(length),
    series,
    xlabel='block',
    ylabel='relative squared error',
    yscale='log',
  )
  fig.axes[0].set_xticks(range(length))
  return fig


def candidate_losses(
  losses: Mapping[str, Mapping[str, float | None]],
) -> matplotlib.figure.Figure:
  """Draws how much better or worse than the identity each transform is.

  Args:
    losses: site -> transform -> loss, among them 'identity'; None or what is
      missing leaves a cell empty.
  """
  names = list(dict.fromkeys(n for tried in losses.values() for n in tried))
  matrix = np.full((len(losses), len(names)), np.nan)
  for row, tried in enumerate(losses.values()):
    for name, loss in tried.items():
      base = tried['identity']
      if loss and base:
        matrix[row, names.index(name)] = math.log10(loss / base)
  fig = plots.heatmap(
    matrix,
    list(losses),
    names,
    label='log10 of the loss over that of the identity',
    text_format='{:.1f}',
  )
  with matplotlib.rc_context(plots.STYLE):
    fig.axes[0].tick_params(axis='x', labelrotation=60)
    fig.set_size_inches(fig.get_figwidth(), fig.get_figheight() + 1.5)
  return fig


def fidelity_scatter(
  true: np.ndarray,
  predicted: Mapping[str, np.ndarray],
  rank: Mapping[str, float],
  *,
  title: str = '',
) -> matplotlib.figure.Figure:
  """Draws predicted against true losses of single pictures.

  Args:
    true: `[n]` divergences in nats.
    predicted: name of the structure -> `[n]` predictions.
    rank: name -> Spearman's coefficient, to be written above.
    title: what is seen.
  """
  columns = min(4, len(predicted))
  rows = math.ceil(len(predicted) / columns)
  fig, axes = plots.figure(2.3 * columns, 2.3 * rows, rows, columns)
  with matplotlib.rc_context(plots.STYLE):
    for axis in axes.flat[len(predicted) :]:
      axis.set_visible(False)
    for axis, (name, values) in zip(axes.flat, predicted.items(), strict=False):
      axis.scatter(true, values, s=6, alpha=0.6, color=plots.PALETTE[0])
      axis.set(xscale='log', yscale='log')
      _label_decades(axis)
      axis.set_title(f'{name}: {rank[name]:.2f}', fontsize=8)
    fig.supxlabel('KL divergence (nats)', fontsize=9)
    fig.supylabel('predicted', fontsize=9)
    fig.suptitle(title, fontsize=10)
  return fig


def spectra(
  found: Mapping[str, tuple[np.ndarray, np.ndarray]],
) -> matplotlib.figure.Figure:
  """Draws eigenvalues of the Fisher matrix before and after a transform.

  Args:
    found: site -> eigenvalues before and after, each `[K]`, falling, of sum 1.
  """
  columns = min(4, len(found))
  rows = math.ceil(len(found) / columns)
  fig, axes = plots.figure(2.4 * columns, 2.3 * rows, rows, columns)
  with matplotlib.rc_context(plots.STYLE):
    for axis in axes.flat[len(found) :]:
      axis.set_visible(False)
    for axis, (name, pair) in zip(axes.flat, found.items(), strict=False):
      for label, values, color, dash in zip(
        ('before', 'after'), pair, plots.PALETTE, plots.DASHES, strict=False
      ):
        place = np.arange(1, len(values) + 1)
        axis.plot(place, np.cumsum(values), dash, color=color, label=label)
      axis.set_xscale('log')
      _label_decades(axis)
      axis.set_title(name, fontsize=8)
    axes.flat[0].legend()
    fig.supxlabel('directions', fontsize=9)
    fig.supylabel('share of the trace', fontsize=9)
  return fig


def _label_decades(axis: matplotlib.axes.Axes) -> None:
  """Labels between decades would lie over one another on a small panel."""
  axis.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
