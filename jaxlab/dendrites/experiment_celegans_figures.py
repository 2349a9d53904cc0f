"""Figures of the worm's circuit: arrays in, figure out."""

from collections.abc import Mapping, Sequence

import jax
import matplotlib.figure
import numpy as np

from jaxlab import plots
from jaxlab.dendrites.celegans import CHEMICAL_RANGE, GAP_RANGE, Weights

_MOST_LABELS = 40


def voltages(
  time: np.ndarray, v: np.ndarray, names: Sequence[str]
) -> matplotlib.figure.Figure:
  """Draws the voltage of N neurons as rows of colour.

  Args:
    time: `[S]` ms.
    v: `[S, N]` mV.
    names: the neurons.
  """
  fig, axes = plots.figure(7.0, min(9.0, 1.2 + 0.16 * len(names)))
  axis = axes[0, 0]
  image = axis.imshow(
    v.T,
    cmap='cividis',
    aspect='auto',
    interpolation='nearest',
    extent=(time[0], time[-1], len(names) - 0.5, -0.5),
  )
  axis.grid(visible=False)
  if len(names) <= _MOST_LABELS:
    axis.set_yticks(range(len(names)), names, fontsize=6)
  axis.set(xlabel='time, ms', ylabel='neuron')
  fig.colorbar(image, ax=axis, label='voltage of the soma, mV')
  return fig


def traces(
  time: np.ndarray, runs: Sequence[np.ndarray], names: Sequence[str]
) -> matplotlib.figure.Figure:
  """Draws traces of the teacher and of the circuit before and after training.

  Args:
    time: `[S]` ms.
    runs: the three, `[S, M]` mV each.
    names: the M neurons.
  """
  fig, axes = plots.figure(7.0, 1.2 + 1.2 * len(names), nrows=len(names))
  for i, (axis, name) in enumerate(zip(axes[:, 0], names, strict=True)):
    for label, run, color, dash in zip(
      ('teacher', 'before', 'after'),
      runs,
      ('#333333', *plots.PALETTE[:2]),
      ('-', ':', '--'),
      strict=True,
    ):
      axis.plot(time, run[:, i], dash, color=color, label=label)
    axis.set(ylabel=f'{name}, mV')
  fig.legend(
    *axes[0, 0].get_legend_handles_labels(), loc='outside upper right', ncols=3
  )
  axes[-1, 0].set(xlabel='time, ms')
  return fig


def losses(curves: Mapping[str, np.ndarray]) -> matplotlib.figure.Figure:
  """Draws losses relative to the first: median and range over seeds.

  Args:
    curves: goal -> `[seeds, K]`.
  """
  relative = {goal: c / c[:, :1] for goal, c in curves.items()}
  updates = np.arange(next(iter(curves.values())).shape[1])
  return plots.line_with_bands(
    updates,
    {
      goal: (np.median(c, axis=0), c.min(axis=0), c.max(axis=0))
      for goal, c in relative.items()
    },
    xlabel='updates',
    ylabel='loss, relative to the first',
    yscale='log',
  )


def weights(
  teacher: Weights, before: Weights, after: Weights
) -> matplotlib.figure.Figure:
  """Draws the weights of the first member against the teacher's.

  Args:
    teacher: `[P, ...]` weights.
    before: likewise, at the start.
    after: likewise, at the end.
  """
  fig, axes = plots.figure(7.0, 3.4, ncols=2)
  panels = [('chemical weight', 'synapses', 1.0, CHEMICAL_RANGE)]
  if 'gaps' in teacher:
    panels.append(('gap junction, nS', 'gaps', 1e3, GAP_RANGE))
  for axis, (title, part, scale, ends) in zip(axes[0], panels, strict=False):
    for label, tree, color in (
      ('before', before, plots.PALETTE[0]),
      ('after', after, plots.PALETTE[1]),
    ):
      x, y = (
        scale * np.concatenate([w[0] for w in jax.tree.leaves(each[part])])
        for each in (teacher, tree)
      )
      axis.plot(x, y, 'o', ms=2.5, alpha=0.6, color=color, label=label)
    diagonal = scale * np.array(ends)
    axis.plot(diagonal, diagonal, color='#333333', linewidth=0.8)
    axis.set(xlabel="teacher's", ylabel='of the circuit', title=title)
  fig.legend(
    *axes[0, 0].get_legend_handles_labels(), loc='outside upper right', ncols=2
  )
  return fig
