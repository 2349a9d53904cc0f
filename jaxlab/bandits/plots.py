"""Figures of best-arm identification: arrays in, a matplotlib figure out.

A curve is `(mean, low, high)`: an estimate and its confidence interval.
"""

from collections.abc import Mapping, Sequence

import matplotlib
import matplotlib.axes
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from jaxlab import plots

Curve = tuple[ArrayLike, ArrayLike, ArrayLike]
Curves = Mapping[str, Curve]

_BUDGET = 'budget T (pulls)'
_REGRET = 'simple regret'


def regret_curves(
  budgets: ArrayLike,
  regrets: Curves,
  *,
  log_regret: bool = False,
  title: str = '',
) -> Figure:
  """Simple regret against the budget.

  Args:
    budgets: `[K]` numbers of pulls, on a logarithmic axis.
    regrets: algorithm -> curve of `[K]`.
    log_regret: whether the regret has a logarithmic axis, too.
    title: what is seen.
  """
  return plots.line_with_bands(
    budgets,
    regrets,
    xlabel=_BUDGET,
    ylabel=_REGRET,
    xscale='log',
    yscale='log' if log_regret else 'linear',
    title=title,
  )


def error_curves(
  budgets: ArrayLike,
  errors: Curves,
  eps: Sequence[float],
  *,
  log_error: bool = False,
  title: str = '',
) -> Figure:
  """Probability of an arm that is not eps-best, one panel for each eps.

  Args:
    budgets: `[K]` numbers of pulls.
    errors: algorithm -> curve of `[E, K]`.
    eps: `[E]` tolerances.
    log_error: whether the probability has a logarithmic axis.
    title: what is seen.

  Raises:
    ValueError: if a curve is not of shape `[E, K]`.
  """
  budgets = np.asarray(budgets)
  shape = (len(eps), budgets.size)
  bounds = {name: _shaped(name, curve, shape) for name, curve in errors.items()}
  with matplotlib.rc_context(plots.STYLE):
    fig, axes = plots.figure(2.6 * len(eps) + 1.8, 3.4, ncols=len(eps))
    for row, axis in enumerate(axes[0]):
      if row:
        axis.sharey(axes[0, 0])
        axis.tick_params(labelleft=False)
      _draw_bands(axis, budgets, {n: c[:, row] for n, c in bounds.items()})
      axis.set(
        xscale='log',
        yscale='log' if log_error else 'linear',
        xlabel=_BUDGET,
        title=f'eps = {eps[row]:g}',
      )
    axes[0, 0].set_ylabel('P(regret > eps)')
    if not log_error:
      axes[0, 0].set_ylim(bottom=0)
    _legend(fig, axes[0, 0])
    fig.suptitle(title, x=0.01, ha='left', fontsize=10)
  return fig


def anytime_curves(
  checkpoints: ArrayLike,
  regrets: Curves,
  *,
  restarts: Mapping[str, ArrayLike] | None = None,
  title: str = '',
) -> Figure:
  """Regret of what would be recommended if the run stopped now.

  Args:
    checkpoints: `[K]` pulls spent.
    regrets: algorithm -> curve of `[K]`; it holds up to the next checkpoint.
    restarts: algorithm -> pulls at which it starts over, marked on its curve.
    title: what is seen.

  Raises:
    ValueError: if a curve is not of shape `[K]`.
  """
  x = np.asarray(checkpoints)
  bounds = {name: _shaped(name, c, x.shape) for name, c in regrets.items()}
  with matplotlib.rc_context(plots.STYLE):
    fig, axes = plots.figure(7.0, 3.8)
    axis = axes[0, 0]
    _draw_bands(axis, x, bounds, stepwise=True)
    for line in axis.get_lines():
      marked = np.asarray((restarts or {}).get(str(line.get_label()), ()))
      held = np.searchsorted(x, marked, side='right') - 1
      seen = (held >= 0) & (marked <= x[-1])
      y = np.asarray(line.get_ydata())[held[seen]]
      axis.plot(marked[seen], y, 'v', color=line.get_color(), markersize=5)
    axis.set(xscale='log', xlabel='pulls spent', ylabel=_REGRET, title=title)
    axis.set_ylim(bottom=0)
    _legend(fig, axis)
  return fig


def growth_heatmap(
  regrets: ArrayLike,
  growths: Sequence[float],
  base_pulls: Sequence[int],
  *,
  title: str = '',
) -> Figure:
  """Regret for each growth r and base pulls t0.

  Args:
    regrets: `[G, B]` mean regrets.
    growths: `[G]` values of r.
    base_pulls: `[B]` values of t0.
    title: what is seen.
  """
  return plots.heatmap(
    regrets,
    [f'{growth:.4g}' for growth in growths],
    [f'{pulls}' for pulls in base_pulls],
    xlabel='base pulls t0',
    ylabel='growth r',
    label=_REGRET,
    title=title,
  )


def ablation_bars(
  variants: Sequence[str], regrets: Curves, *, title: str = ''
) -> Figure:
  """Regret of variants of one algorithm.

  Args:
    variants: `[V]` names of the variants.
    regrets: condition, such as a budget or a noise -> curve of `[V]`.
    title: what is seen.
  """
  return plots.bars_with_intervals(
    variants, regrets, ylabel=_REGRET, title=title
  )


def error_split(
  budgets: ArrayLike,
  noninclusion: ArrayLike,
  within: ArrayLike,
  exact: ArrayLike,
  *,
  title: str = '',
) -> Figure:
  """Where errors come from: no good arm entered, or it was lost inside.

  Args:
    budgets: `[K]` numbers of pulls.
    noninclusion: `[K]` measured share of runs into which no eps-best arm came.
    within: `[K]` measured share of runs that lost the ones that came.
    exact: `[K]` hypergeometric probability of the first.
    title: what is seen.

  Raises:
    ValueError: if an array is not of shape `[K]`.
  """
  budgets = np.asarray(budgets)
  first, second, theory = _shaped(
    'error split', (noninclusion, within, exact), budgets.shape
  )
  with matplotlib.rc_context(plots.STYLE):
    fig, axes = plots.figure(7.0, 3.6)
    axis = axes[0, 0]
    axis.stackplot(
      budgets,
      first,
      second,
      labels=['no eps-best arm entered', 'lost inside'],
      colors=plots.PALETTE[:2],
      alpha=0.55,
    )
    axis.plot(
      budgets,
      theory,
      'o',
      color='black',
      markersize=4,
      markerfacecolor='none',
      clip_on=False,
      label='no eps-best arm, exact',
    )
    axis.set(
      xscale='log', xlabel=_BUDGET, ylabel='probability of error', title=title
    )
    axis.set_ylim(bottom=0)
    _legend(fig, axis)
  return fig


def scaling(
  sizes: ArrayLike,
  measured: Curves,
  *,
  xlabel: str,
  ylabel: str,
  slope: float | None = 1.0,
  title: str = '',
) -> Figure:
  """Cost against size, both logarithmic, with a line of the ideal slope.

  Args:
    sizes: `[K]` positive numbers.
    measured: name -> curve of `[K]` positive numbers.
    xlabel: what `sizes` is, with the unit.
    ylabel: what was measured, with the unit.
    slope: exponent of the dotted line through the first curve's end; None
      draws no line.
    title: what is seen.
  """
  fig = plots.line_with_bands(
    sizes,
    measured,
    xlabel=xlabel,
    ylabel=ylabel,
    xscale='log',
    yscale='log',
    title=title,
  )
  if slope is not None and measured:
    x = np.asarray(sizes, float)
    end = float(np.asarray(next(iter(measured.values()))[0])[-1])
    ideal = end * (x / x[-1]) ** slope
    axis = fig.axes[0]
    axis.plot(x, ideal, ':', color='#777777')
    axis.annotate(
      f'slope {slope:g}',
      (x[0], ideal[0]),
      xytext=(14, 0),
      textcoords='offset points',
      va='top',
      color='#555555',
      fontsize=8,
    )
  return fig


def _shaped(name: str, arrays: Curve, shape: tuple[int, ...]) -> np.ndarray:
  for array in arrays:
    if np.shape(array) != shape:
      raise ValueError(f'{name!r} needs shape {shape}, got {np.shape(array)}.')
  return np.asarray(arrays, float)


def _draw_bands(
  axis: matplotlib.axes.Axes,
  x: np.ndarray,
  curves: Mapping[str, np.ndarray],
  *,
  stepwise: bool = False,
) -> None:
  for index, (name, (mean, low, high)) in enumerate(curves.items()):
    dashes, place = divmod(index, len(plots.PALETTE))
    color = plots.PALETTE[place]
    dash = plots.DASHES[dashes % len(plots.DASHES)]
    (line,) = axis.plot(x, mean, dash, color=color, label=name)
    axis.fill_between(
      x,
      low,
      high,
      step='post' if stepwise else None,
      color=color,
      alpha=0.15,
      linewidth=0,
    )
    if stepwise:
      line.set_drawstyle('steps-post')


def _legend(fig: Figure, axis: matplotlib.axes.Axes) -> None:
  handles, labels = axis.get_legend_handles_labels()
  if handles:
    fig.legend(handles, labels, loc='outside right upper')
