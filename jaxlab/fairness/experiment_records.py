"""How the experiments of the family turn solutions into rows and claims."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxlab import errors, stats
from jaxlab.fairness import comparison
from jaxlab.fairness.types import GroupScores, Solution
from jaxlab.harness.claims import Claim

PAPER = 'Benger & Ligett 2026 (arXiv 2602.07285)'
LEVEL = 0.95


def check_positive(config, *fields: str) -> None:
  """Raises `UserError` unless these numbers or tuples are positive."""
  for field in fields:
    value = config[field]
    values = value if isinstance(value, tuple | list) else [value]
    if not values or not all(
      isinstance(v, int | float) and 0 < v < math.inf for v in values
    ):
      wanted = 'positive numbers' if values is value else 'a positive number'
      raise errors.UserError(f'config.{field} must be {wanted}, got {value}.')


def check(config, field: str, is_good: bool, wanted: str) -> None:
  """Raises `UserError` unless a setting is good."""
  if not is_good:
    raise errors.UserError(
      f'config.{field} must be {wanted}, got {config[field]}.'
    )


def check_rising(config, field: str) -> None:
  """Raises `UserError` unless two or more numbers rise."""
  values = list(config[field])
  check(
    config,
    field,
    len(values) > 1 and values == sorted(set(values)),
    'two or more different numbers, the smallest first',
  )


def check_names(config, field: str, known: Sequence[str]) -> None:
  """Raises `UserError` unless a setting lists some of the known, once each."""
  names = list(config[field])
  unknown = [name for name in names if name not in known]
  if unknown:
    raise errors.UserError(
      f'config.{field} names {unknown[0]!r}; choose from {", ".join(known)}.'
    )
  check(config, field, len(set(names)) == len(names) > 0, 'different names')


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


def mean_claim(
  text: str,
  values: np.ndarray,
  *,
  threshold: float,
  sense: str,
  unit: str = '',
  note: str = '',
) -> Claim:
  """A claim on a mean over seeds or instances, with its t interval."""
  values = np.asarray(values)
  interval = stats.mean_interval(values, level=LEVEL)
  text_note = f'{len(values)} seeds, 95 % t interval'
  return Claim(
    text,
    PAPER,
    float(np.mean(values)),
    float(interval.low),
    float(interval.high),
    threshold,
    sense,  # type: ignore[arg-type]
    unit,
    '; '.join(filter(None, (text_note, note))),
  )
