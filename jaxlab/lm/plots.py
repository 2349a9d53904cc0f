"""Figures of language models: arrays in, figure out."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxlab import plots


def differences(prompts: Sequence[str], largest: Sequence[float]) -> Any:
  """Largest difference of a logit in each prompt, on a logarithmic axis."""
  fig, axes = plots.figure()
  ax = axes[0, 0]
  places = np.arange(len(prompts))
  ax.barh(places, np.maximum(largest, 1e-9))
  ax.axvline(2e-3, color='black', linestyle=':', label='2e-3')
  ax.set_xscale('log')
  ax.set_yticks(places, prompts)
  ax.invert_yaxis()
  ax.set_xlabel('largest difference of a logit')
  ax.legend()
  return fig


def speeds(rates: Mapping[str, Mapping[int, float]]) -> Any:
  """Tokens a second against the batch, a line for each program."""
  fig, axes = plots.figure()
  ax = axes[0, 0]
  for name, by_batch in rates.items():
    batches = sorted(by_batch)
    ax.plot(batches, [by_batch[b] for b in batches], 'o-', label=name)
  ax.set_xscale('log', base=2)
  ax.set_yscale('log')
  ax.set_xlabel('rows in a batch')
  ax.set_ylabel('tokens/s')
  ax.legend()
  return fig


def before_and_after(values: Mapping[str, np.ndarray], ylabel: str) -> Any:
  """A point for each seed, lines between those of a seed.

  Args:
    values: `[seeds]` for each of the columns, the same seeds in each.
    ylabel: what they are.
  """
  fig, axes = plots.figure(width=4.5)
  ax = axes[0, 0]
  table = np.stack(list(values.values()))
  ax.plot(range(len(table)), table, 'o-', color='grey', alpha=0.6)
  ax.plot(range(len(table)), table.mean(axis=1), 'ks', label='mean')
  ax.set_xticks(range(len(table)), list(values))
  ax.set_ylabel(ylabel)
  ax.legend()
  return fig
