"""What the functions of the family refuse, as far as it is known on the host.

Inside `jit` values are unknown and nothing but shapes and types is checked.
"""

import numbers
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError

_INT32 = jnp.iinfo(jnp.int32)


def is_traced(*values: Any) -> bool:
  """Whether some of the values are unknown while `jit` traces."""
  return any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(values))


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
  """Refuses an unknown mode.

  Raises:
    UserError: naming the argument, the value and what it may be.
  """
  if value not in choices:
    raise UserError(f'{name} must be one of {list(choices)}, got {value!r}')


def check_value(
  name: str,
  value: ArrayLike,
  allowed: Callable[[np.ndarray], Any],
  wanted: str,
  *,
  ndim: int = 0,
) -> None:
  """Refuses a bad number, or a bad vector of numbers where `ndim` is 1.

  Raises:
    UserError: naming the argument, its value and what it must be.
  """
  if is_traced(value):
    return
  found = number_rows(name, value)
  if found.ndim != ndim:
    kind = 'a list of numbers' if ndim else 'one number'
    raise UserError(f'{name} must be {kind} {wanted}, got {value}')
  if not np.all(allowed(found)):
    raise UserError(f'{name} must be {wanted}, got {value}')


def check_costs(cost_fp: ArrayLike, cost_fn: ArrayLike) -> None:
  """Refuses costs that are not positive and finite.

  Raises:
    UserError: naming the cost and its value.
  """
  for name, cost in ('cost_fp', cost_fp), ('cost_fn', cost_fn):
    check_value(
      name, cost, lambda x: (x > 0) & np.isfinite(x), 'positive and finite'
    )


def check_not_negative(**values: ArrayLike) -> None:
  """Refuses arguments that are below 0 or not finite.

  Raises:
    UserError: naming the argument and its value.
  """
  for name, value in values.items():
    check_value(
      name, value, lambda x: (x >= 0) & np.isfinite(x), 'finite and at least 0'
    )


def check_count(name: str, value: Any, least: int = 1) -> int:
  """The value as an `int`.

  Raises:
    UserError: naming the argument if it is no integer, or below `least`.
  """
  try:
    count = operator.index(value)
  except TypeError:
    raise UserError(f'{name} must be an integer, got {value!r}') from None
  if count < least:
    raise UserError(f'{name} must be at least {least}, got {count}')
  return count


def number_rows(name: str, values: Any, cure: str = '') -> np.ndarray:
  """An array of real numbers; objects count if they are numbers.

  Raises:
    UserError: naming the argument and the first value that is no number.
  """
  try:
    rows = np.asarray(values)
  except ValueError:
    raise UserError(f'{name} has rows of different lengths') from None
  if rows.dtype.kind == 'O':
    strange = [x for x in rows.flat if not isinstance(x, numbers.Real)]
    if strange:
      raise UserError(f'{name} must be numbers, got {strange[0]!r}{cure}')
    rows = np.asarray(rows.tolist())
  if rows.dtype.kind in 'biu' or jnp.issubdtype(rows.dtype, jnp.floating):
    return rows
  shown = ', '.join(map(repr, rows.ravel()[:1].tolist()))
  raise UserError(f'{name} must be numbers, got {shown} ({rows.dtype}){cure}')


def group_numbers(groups: Any) -> Any:
  """Groups as integers; those beyond int32 become its nearest.

  Raises:
    UserError: naming the first group that is no integer.
  """
  if is_traced(groups):
    label = jnp.asarray(groups)
    if not jnp.issubdtype(label.dtype, jnp.integer):
      raise UserError(f'groups must be integers, got {label.dtype}')
    return label
  rows = number_rows('groups', groups, '; number them 0, 1, ... first')
  bad = ~(np.isfinite(rows) & (rows == np.floor(rows)))
  if bad.any():
    row = int(bad.argmax())
    raise UserError(
      f'groups must be integers 0, 1, ..., got {rows.flat[row]} in row {row}'
    )
  return np.clip(rows, _INT32.min, _INT32.max).astype(np.int64)


def check_rows(
  name: str, values: np.ndarray, good: np.ndarray, wanted: str
) -> None:
  """Refuses rows of which one is bad.

  Raises:
    UserError: naming the argument, the first bad value and its row.
  """
  if not np.all(good):
    row = int(np.argmin(good))
    raise UserError(
      f'{name} must be {wanted}, got {values.flat[row]} in row {row}'
    )
