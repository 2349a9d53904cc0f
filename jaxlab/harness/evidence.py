"""Claims from what was measured over seeds or draws."""

import math

import numpy as np

from jaxlab import stats
from jaxlab.harness.claims import Claim

LEVEL = 0.95


def share_interval(count: int, total: int) -> tuple[float, float]:
  """Wilson interval of a share."""
  interval = stats.wilson_interval(count, total, level=LEVEL)
  return float(interval.low), float(interval.high)


def share_claim(
  text: str,
  hits: np.ndarray,
  *,
  threshold: float,
  sense: str,
  source: str,
  note: str = '',
) -> Claim:
  """A claim on the share of independent draws, with its Wilson interval."""
  hits = np.asarray(hits, bool).ravel()
  low, high = (
    share_interval(int(hits.sum()), hits.size)
    if hits.size
    else (math.nan, math.nan)
  )
  text_note = f'{hits.sum()} of {hits.size} draws, 95 % Wilson interval'
  return Claim(
    text,
    source,
    hits.mean() if hits.size else math.nan,
    low,
    high,
    threshold,
    sense,  # type: ignore[arg-type]
    'share',
    '; '.join(filter(None, (text_note, note))),
  )


def mean_claim(
  text: str,
  values: np.ndarray,
  *,
  threshold: float,
  sense: str,
  unit: str = '',
  source: str,
  note: str = '',
) -> Claim:
  """A claim on a mean over seeds, with its t interval."""
  values = np.asarray(values, np.float64)
  values = values[np.isfinite(values)]
  measured = low = high = math.nan  # one value has no interval
  if len(values) > 1:
    interval = stats.mean_interval(values, level=LEVEL)
    measured = float(values.mean())
    low, high = (
      min(float(interval.low), measured),
      max(float(interval.high), measured),
    )
  text_note = f'{len(values)} seeds, 95 % t interval'
  return Claim(
    text,
    source,
    measured,
    low,
    high,
    threshold,
    sense,  # type: ignore[arg-type]
    unit,
    '; '.join(filter(None, (text_note, note))),
  )


def with_interval(name: str, values: np.ndarray) -> dict[str, float]:
  """Mean over seeds with its interval, as three columns of a table."""
  claim = mean_claim(name, values, threshold=0.0, sense='>', source='')
  return {
    name: claim.measured,
    f'{name} low': claim.low,
    f'{name} high': claim.high,
  }
