"""How the experiments of the family turn regrets into rows and claims."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxlab import errors, stats
from jaxlab.bandits import metrics
from jaxlab.bandits.comparison import Comparison
from jaxlab.harness.claims import Claim

PAPER = 'Hwang & Park 2026 (arXiv 2602.18186)'
LEVEL = 0.95


def check_positive(config, *fields: str) -> None:
  """Raises `UserError` unless these fields are positive (tuples increasing)."""
  for field in fields:
    value = config[field]
    values = list(value) if isinstance(value, tuple | list) else [value]
    numbers = all(isinstance(v, int | float) for v in values)
    if not values or not numbers or min(values) <= 0:
      raise errors.UserError(
        f'config.{field} must be positive numbers, got {value}: '
        f'give --config.{field} values above 0.'
      )
    if values != sorted(set(values)) and field == 'budgets':
      raise errors.UserError(f'config.{field} must be increasing, got {value}.')


def unit_name(*parts: str) -> str:
  """A file name for a unit of work."""
  return '/'.join(re.sub(r'[^A-Za-z0-9.]+', '-', part) for part in parts)


def regret_rows(
  found: Comparison, reference: str, *, scale: float = 1.0, **labels: Any
) -> list[dict[str, Any]]:
  """One row per budget and method: regret, rank, difference to `reference`.

  Args:
    found: the regrets.
    reference: the method that the others are compared with, pair by pair.
    scale: factor of all regrets, such as 100 for per cent.
    **labels: further columns.
  """
  rows = []
  for column, budget in enumerate(found.budgets):
    regrets = {
      name: scale * values[:, column]
      for name, values in found.regrets.items()
      if np.isfinite(values[:, column]).all()
    }
    ranks = metrics.rank_table(regrets, LEVEL)
    for name, place in ranks.items():
      paired = metrics.paired_difference_ci(
        regrets[name], regrets[reference], LEVEL
      )
      rows.append(
        {
          **labels,
          'budget': int(budget),
          'method': name,
          'rank': place.rank,
          'regret': float(place.regret.mean),
          'low': float(place.regret.low),
          'high': float(place.regret.high),
          f'minus {reference}': float(paired.mean),
          'minus low': float(paired.low),
          'minus high': float(paired.high),
        }
      )
  return rows


def excess_claims(
  found: Comparison,
  worse: Sequence[str],
  better: str,
  budgets: Sequence[int],
  *,
  where: str = '',
  scale: float = 1.0,
  unit: str = '',
) -> list[Claim]:
  """For each budget and rival: its regret exceeds that of `better`."""
  parts = []
  for name in worse:
    for budget in budgets:
      column = int(np.flatnonzero(found.budgets == budget)[0])
      a = scale * found.regrets[name][:, column]
      b = scale * found.regrets[better][:, column]
      if not np.isfinite(a).all():
        continue
      parts.append(
        mean_claim(
          f'{name} minus {better} at T = {budget}{where}',
          a - b,
          threshold=0.0,
          sense='>',
          unit=unit,
        )
      )
  return parts


def mean_claim(
  text: str, values, *, threshold: float, sense: str, unit: str = ''
) -> Claim:
  """A claim on the mean over replications, with its t interval.

  Args:
    text: the statement.
    values: `[R]`, one per replication.
    threshold: what the mean is compared with.
    sense: '>' or '<'.
    unit: unit of the values.
  """
  interval = stats.mean_interval(np.asarray(values), level=LEVEL)
  return Claim(
    text,
    PAPER,
    float(np.mean(values)),
    float(interval.low),
    float(interval.high),
    threshold,
    sense,  # type: ignore[arg-type]
    unit,
    f'{len(values)} replications, 95 % t interval',
  )


def scaled(
  values: Mapping[str, np.ndarray], scale: float
) -> dict[str, np.ndarray]:
  """All regrets in another unit."""
  return {name: scale * array for name, array in values.items()}
