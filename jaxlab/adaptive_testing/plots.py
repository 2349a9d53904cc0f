"""Figures of adaptive testing: arrays in, a matplotlib figure out."""

import itertools
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from jaxlab import plots

Curve = tuple[ArrayLike, ArrayLike, ArrayLike]

_LOOKS = tuple(itertools.product(plots.DASHES, plots.PALETTE))


def error_curves(curves: Mapping[str, Curve], *, title: str = '') -> Figure:
  """Mean squared error after 1, ..., T items.

  Args:
    curves: rule -> (mean, low, high), each `[T]`.
    title: what is seen.
  """
  length = np.size(next(iter(curves.values()))[0])
  return plots.line_with_bands(
    np.arange(1, length + 1),
    curves,
    xlabel='items asked',
    ylabel='mean squared error of ability',
    yscale='log',
    title=title,
  )


def savings(
  bars: Mapping[str, tuple[float, float, float]],
  *,
  published: float | None = None,
  title: str = '',
) -> Figure:
  """Share of questions saved against each rule.

  Args:
    bars: rule -> (share, low, high).
    published: what a paper claims, a dashed line.
    title: what is seen.
  """
  values = np.array(list(bars.values()), float).T * 100
  where = np.arange(len(bars))
  with matplotlib.rc_context(plots.STYLE):
    fig, axes = plots.figure(6.4, 0.8 + 0.27 * len(bars))
    axis = axes[0, 0]
    axis.grid(visible=False, axis='y')
    axis.barh(where, values[0], color=plots.PALETTE[0])
    axis.hlines(where, values[1], values[2], color='#333333', linewidth=1.2)
    axis.axvline(0, color='#333333', linewidth=0.8)
    if published is not None:
      axis.axvline(
        100 * published, color=plots.PALETTE[1], linestyle='--', linewidth=1.2
      )
    axis.set_yticks(where, list(bars))
    axis.invert_yaxis()
    axis.set(xlabel='questions saved (%)', title=title)
  return fig


def exposure(rates: Mapping[str, ArrayLike], *, title: str = '') -> Figure:
  """Share of examinees that see each item.

  Args:
    rates: rule -> `[n]` shares, the highest first.
    title: what is seen.
  """
  with matplotlib.rc_context(plots.STYLE):
    fig, axes = plots.figure(7.0, 3.8)
    axis = axes[0, 0]
    for (name, values), (dash, color) in zip(
      rates.items(), itertools.cycle(_LOOKS), strict=False
    ):
      rank = np.arange(1, np.size(values) + 1)
      axis.plot(rank, np.asarray(values), dash, color=color, label=name)
    axis.set(
      xlabel='item, most used first',
      ylabel='share of examinees that see it',
      title=title,
    )
    axis.set_ylim(bottom=0)
    fig.legend(loc='outside right upper')
  return fig


def recovery(
  target: ArrayLike, estimates: Mapping[str, ArrayLike], *, title: str = ''
) -> Figure:
  """Estimates of unfinished tests against the ability of all responses.

  Args:
    target: `[E]`.
    estimates: rule -> `[E]`.
    title: what is seen.
  """
  target = np.asarray(target)
  ends = float(target.min()), float(target.max())
  with matplotlib.rc_context(plots.STYLE):
    fig, axes = plots.figure(2.6 * len(estimates) + 0.8, 3.0, 1, len(estimates))
    for axis, (name, found) in zip(axes[0], estimates.items(), strict=True):
      axis.plot(ends, ends, color='#333333', linewidth=0.8)
      axis.scatter(target, np.asarray(found), s=3, alpha=0.3, linewidths=0)
      error = np.mean((np.asarray(found) - target) ** 2)
      axis.set(xlabel='all responses', title=f'{name}: MSE {error:.3f}')
    axes[0, 0].set_ylabel('estimate')
    fig.suptitle(title, x=0.01, ha='left', fontsize=10)
  return fig


def training(losses: Mapping[str, ArrayLike], *, title: str = '') -> Figure:
  """Losses by step, as running means over a twentieth of the steps.

  Args:
    losses: rule -> `[S]`.
    title: what is seen.
  """
  with matplotlib.rc_context(plots.STYLE):
    fig, axes = plots.figure(7.0, 3.8)
    axis = axes[0, 0]
    for (name, values), (dash, color) in zip(
      losses.items(), itertools.cycle(_LOOKS), strict=False
    ):
      width = max(np.size(values) // 20, 1)
      smooth = np.convolve(
        np.asarray(values), np.full(width, 1 / width), 'valid'
      )
      axis.plot(
        np.arange(width, np.size(values) + 1),
        smooth,
        dash,
        color=color,
        label=name,
      )
    axis.set(xlabel='step', ylabel='loss', title=title)
    fig.legend(loc='outside right upper')
  return fig


def growth(
  sizes: Mapping[str, ArrayLike],
  values: Mapping[str, ArrayLike],
  *,
  ylabel: str,
  title: str = '',
) -> Figure:
  """How time or memory grows with the bank, on logarithmic axes.

  Args:
    sizes: rule -> `[K]` numbers of items.
    values: rule -> `[K]`.
    ylabel: what was measured, with its unit.
    title: what is seen.
  """
  with matplotlib.rc_context(plots.STYLE):
    fig, axes = plots.figure(7.0, 3.8)
    axis = axes[0, 0]
    for (name, found), (dash, color) in zip(
      values.items(), itertools.cycle(_LOOKS), strict=False
    ):
      axis.plot(
        sizes[name],
        found,
        dash,
        marker='o',
        markersize=3,
        color=color,
        label=name,
      )
    axis.set(
      xscale='log',
      yscale='log',
      xlabel='items of the bank',
      ylabel=ylabel,
      title=title,
    )
    fig.legend(loc='outside right upper')
  return fig


def regrets(values: Mapping[str, ArrayLike], *, title: str = '') -> Figure:
  """Distribution of match values over the best one, examinee by examinee.

  Args:
    values: rule -> `[E]` ratios, at least 1.
    title: what is seen.
  """
  with matplotlib.rc_context(plots.STYLE):
    fig, axes = plots.figure(7.0, 3.8)
    axis = axes[0, 0]
    for (name, found), (dash, color) in zip(
      values.items(), itertools.cycle(_LOOKS), strict=False
    ):
      ordered = np.sort(np.asarray(found))
      share = (np.arange(len(ordered)) + 1) / len(ordered)
      axis.step(ordered, share, dash, where='post', color=color, label=name)
    axis.set(
      xscale='log',
      xlabel='match value over that of the best subset',
      ylabel='share of examinees',
      title=title,
    )
    fig.legend(loc='outside right upper')
  return fig


def items_against_published(
  names: Sequence[str],
  published: ArrayLike,
  found: ArrayLike,
  error: ArrayLike,
  *,
  title: str = '',
) -> Figure:
  """Estimated difficulties with standard errors beside published ones.

  Args:
    names: `[n]` of the items.
    published: `[n]`.
    found: `[n]`.
    error: `[n]` standard errors.
    title: what is seen.
  """
  where = np.arange(len(names))
  with matplotlib.rc_context(plots.STYLE):
    fig, axes = plots.figure(5.0, 3.2)
    axis = axes[0, 0]
    axis.errorbar(
      where, found, np.asarray(error), fmt='o', markersize=4, label='fitted'
    )
    axis.plot(where, published, 'x', color=plots.PALETTE[1], label='published')
    axis.set_xticks(where, names)
    axis.set(ylabel='difficulty', title=title)
    axis.legend()
  return fig
