"""How the experiments of the family turn numbers into rows and claims."""

import math
import zlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab import errors, stats
from jaxlab.harness.claims import Claim
from jaxlab.motifs import measures

PAPER = (
  '"Functional building blocks of neural networks: from network motifs to '
  'collective dynamics" (ICML 2026), abstract'
)
LEVEL = 0.95


def check(config, field: str, is_good: bool, wanted: str) -> None:
  """Raises `UserError` unless a setting is good."""
  if not is_good:
    raise errors.UserError(
      f'config.{field} must be {wanted}, got {config[field]}.'
    )


def check_positive(config, *fields: str) -> None:
  """Raises `UserError` unless these numbers or tuples are positive."""
  for field in fields:
    value = config[field]
    values = value if isinstance(value, tuple | list) else [value]
    good = all(isinstance(v, int | float) and 0 < v < math.inf for v in values)
    check(config, field, bool(values) and good, 'positive')


def check_names(config, field: str, known: Sequence[str]) -> None:
  """Raises `UserError` unless a setting lists some of the known, once each."""
  names = list(config[field])
  unknown = [name for name in names if name not in known]
  if unknown:
    raise errors.UserError(
      f'config.{field} names {unknown[0]!r}; choose from {", ".join(known)}.'
    )
  check(config, field, len(set(names)) == len(names) > 0, 'different names')


def check_seeds(config, field: str = 'seeds') -> None:
  """Raises `UserError` unless an interval over seeds can be had."""
  value = config[field]
  check(config, field, isinstance(value, int) and value > 1, 'at least 2')


def key_of(seed: int, *path: str | int) -> jax.Array:
  """A key that depends on the seed and on the names in `path` alone."""
  key = jax.random.key(seed)
  for part in path:
    word = part if isinstance(part, int) else zlib.crc32(part.encode())
    key = jax.random.fold_in(key, word)
  return key


def network_facts(A: Any, W: Any) -> dict[str, float]:
  """What arms of a comparison must share, of `[N, N]` A and W."""
  W = jnp.asarray(W)
  used = int(np.count_nonzero(W))
  return {
    'edges': int(np.count_nonzero(A)),
    'weights': used,
    'weight rms': float(jnp.sqrt(jnp.sum(W**2) / max(used, 1))),
    'spectral radius': float(measures.spectral_radius(W)),
  }


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
  source: str = PAPER,
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
  source: str = PAPER,
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
  claim = mean_claim(name, values, threshold=0.0, sense='>')
  return {
    name: claim.measured,
    f'{name} low': claim.low,
    f'{name} high': claim.high,
  }
