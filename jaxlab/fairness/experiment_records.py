"""How the experiments of the family turn solutions into rows and claims."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxlab.fairness import comparison
from jaxlab.fairness.types import GroupScores, Solution
from jaxlab.harness import evidence
from jaxlab.harness.claims import Claim
from jaxlab.harness.evidence import LEVEL
from jaxlab.harness.settings import (
  check,
  check_names,
  check_positive,
  check_rising,
)

__all__ = (
  'LEVEL',
  'PAPER',
  'check',
  'check_names',
  'check_positive',
  'check_rising',
  'mean_claim',
  'published_claim',
  'quantile_claim',
  'solution_row',
)

PAPER = 'Benger & Ligett 2026 (arXiv 2602.07285)'
mean_claim = functools.partial(evidence.mean_claim, source=PAPER)


def solution_row(
  method: str, solution: Solution, gs: GroupScores, names: Sequence[str]
) -> dict[str, Any]:
  """What a rule does, as one row of a table."""
  per_group = {
    label: np.broadcast_to(np.asarray(values), len(names))
    for label, values in (('PPV', solution.ppv), ('FOR', solution.for_))
  }
  return {
    'method': method,
    'accuracy': float(comparison.accuracy(solution)),
    **{
      f'{label} {name}': float(value)
      for label, values in per_group.items()
      for name, value in zip(names, values, strict=True)
    },
    'TPR gap': float(solution.tpr_gap),
    'FPR gap': float(solution.fpr_gap),
    'drawn by lot': float(comparison.randomized_mass(gs, solution.rho)),
    'feasible': int(solution.status) != 1,
  }


def published_claim(
  text: str, found: dict[str, float], published: dict[str, float], digits: int
) -> Claim:
  """That figures agree with printed ones to the digits that are printed.

  The figures are exact functions of the data file, so that their interval is a
  point: the largest deviation, in units of the last digit printed.
  """
  gaps = {k: abs(found[k] - published[k]) * 10**digits for k in published}
  worst = max(gaps, key=lambda k: gaps[k])
  shown = ', '.join(f'{k} {found[k]:.{digits + 1}f}' for k in published)
  return Claim(
    text,
    PAPER,
    gaps[worst],
    gaps[worst],
    gaps[worst],
    0.501,
    '<',
    f'units of digit {digits}',
    f'exact figures of the data file; {shown}; worst: {worst}',
  )


def quantile_claim(
  text: str,
  measured: float,
  draws: np.ndarray,
  *,
  threshold: float,
  sense: str,
  unit: str = '',
  note: str = '',
) -> Claim:
  """A claim on a statistic, with the percentile interval of its bootstrap."""
  draws = np.asarray(draws)
  draws = draws[np.isfinite(draws)]
  low = high = np.nan  # without draws nothing is decided
  if len(draws) and np.isfinite(measured):
    ends = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    low, high = np.minimum(ends[0], measured), np.maximum(ends[1], measured)
  text_note = f'{len(draws)} bootstrap draws, 95 % percentile interval'
  return Claim(
    text,
    PAPER,
    measured,
    float(low),
    float(high),
    threshold,
    sense,  # type: ignore[arg-type]
    unit,
    '; '.join(filter(None, (text_note, note))),
  )
