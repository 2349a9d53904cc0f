"""Checks of a config's values: one-line errors that say what to change."""

import math
import zlib
from collections.abc import Sequence

import jax

from jaxlab import errors


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
    wanted = 'positive numbers' if values is value else 'a positive number'
    check(config, field, bool(values) and good, wanted)


def check_rising(config, field: str) -> None:
  """Raises `UserError` unless two or more numbers rise."""
  values = list(config[field])
  numbers = all(isinstance(v, int | float) for v in values)
  check(
    config,
    field,
    numbers and len(values) > 1 and values == sorted(set(values)),
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
