"""Figures of the family: arrays in, figure out."""

from collections.abc import Mapping, Sequence

import matplotlib.figure
import numpy as np

from jaxlab import plots
from jaxlab.fairness.geometry import Region
from jaxlab.fairness.types import GroupScores, Solution

_MARKS = ('o', 's', '^', 'D', 'v', 'P', 'X')


def feasible_regions(
  region: Region,
  names: Sequence[str],
  points: Mapping[str, tuple[float, float]],
  title: str = '',
) -> matplotlib.figure.Figure:
  """Draws what each group, and all together, can have as PPV and FOR.

  Args:
    region: from `feasible_region`.
    names: the K groups.
    points: (PPV, FOR) to mark, by name.
    title: what is seen.
  """
  fig, axes = plots.figure(6.4, 4.2)
  axis = axes[0, 0]
  for name, polygon in zip(names, np.asarray(region.polygons), strict=True):
    (line,) = axis.plot(*polygon.T, label=name)
    axis.fill(*polygon.T, color=line.get_color(), alpha=0.12, lw=0)
  both = np.asarray(region.intersection)
  if np.isfinite(both).all():
    axis.fill(*both.T, color='0.35', alpha=0.35, lw=0, label='all groups')
  for mark, (name, point) in zip(_MARKS, points.items(), strict=False):
    axis.plot(*point, mark, color='black', ms=6, mfc='white', label=name)
  axis.set(xlabel='PPV', ylabel='FOR', title=title)
  fig.legend(loc='outside lower center', ncols=2)
  return fig


def decision_rules(
  gs: GroupScores,
  names: Sequence[str],
  rules: Mapping[str, Solution],
) -> matplotlib.figure.Figure:
  """Draws the probability of a positive decision against the score.

  Args:
    gs: `[K, m]` groups.
    names: the K groups.
    rules: rules by name, one panel each.
  """
  fig, axes = plots.figure(3.2 * len(rules), 3.2, ncols=len(rules))
  for axis, (title, rule) in zip(axes[0], rules.items(), strict=True):
    for group, name in enumerate(names):
      real = np.asarray(gs.mass[group]) > 0
      score = np.asarray(gs.scores[group])[real]
      rho = np.asarray(rule.rho[group])[real]
      axis.plot(score, rho, '.-', ms=3, lw=1, label=name)
    axis.set(xlabel='score', title=title, ylim=(-0.05, 1.05))
  axes[0, 0].set_ylabel('P(R = 1)')
  handles, labels = axes[0, 0].get_legend_handles_labels()
  fig.legend(handles, labels, loc='outside lower center', ncols=len(names))
  return fig


def trade_off(
  loss: np.ndarray,
  separation: np.ndarray,
  points: Mapping[str, tuple[float, float]],
) -> matplotlib.figure.Figure:
  """Draws the Pareto front of loss and separation under sufficiency.

  Args:
    loss: `[L]` along the front.
    separation: `[L]` sum of the TPR and FPR gaps.
    points: (loss, separation) to mark in the left panel, by name; the right
      one shows the front alone.
  """
  fig, axes = plots.figure(8.4, 3.8, ncols=2)
  for axis in axes[0]:
    axis.plot(loss, separation, '.-', label='equal PPV and FOR')
    axis.set(xlabel='loss', ylabel='TPR gap + FPR gap')
  for mark, (name, point) in zip(_MARKS, points.items(), strict=False):
    axes[0, 0].plot(*point, mark, color='black', ms=6, mfc='white', label=name)
  axes[0, 1].set_title('the front alone')
  handles, labels = axes[0, 0].get_legend_handles_labels()
  fig.legend(handles, labels, loc='outside lower center', ncols=len(labels))
  return fig


def gaps_by_method(
  methods: Sequence[str],
  gaps: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]],
) -> matplotlib.figure.Figure:
  """Draws gaps between groups with their intervals, one line a method.

  Args:
    methods: M names, from top to bottom.
    gaps: (mean, low, high) of `[M]` by kind of gap, one panel each; nan leaves
      the line empty.
  """
  fig, axes = plots.figure(8.4, 0.32 * len(methods) + 1, ncols=len(gaps))
  place = np.arange(len(methods))[::-1]
  for axis, (kind, (mean, low, high)) in zip(
    axes[0], gaps.items(), strict=True
  ):
    reach = np.abs(np.stack([mean - low, high - mean]))
    axis.errorbar(mean, place, xerr=reach, fmt='o', ms=4, capsize=2)
    axis.set(xlabel=kind, ylim=(-0.7, len(methods) - 0.3))
    axis.set_yticks(place, ['' for _ in methods])
    axis.axvline(0, color='0.6', lw=0.8)
  axes[0, 0].set_yticks(place, methods)
  return fig
