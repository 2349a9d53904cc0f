"""Checks of what a person hands in; arrays that are traced pass."""

import jax
import numpy as np
from jax.typing import ArrayLike

from jaxlab.adaptive_testing.types import Bank
from jaxlab.errors import UserError


def check_responses(
  name: str,
  responses: ArrayLike,
  mask: ArrayLike | None = None,
  bank: Bank | None = None,
) -> None:
  """Raises UserError where responses are none.

  Args:
    name: of the argument, for the message.
    responses: `[..., n]`, 0 or 1; anything where the mask is 0.
    mask: `[..., n]`, not 0 where there is an answer; None for all.
    bank: of n items, where there is one.
  """
  shape = np.shape(responses)
  if mask is not None and np.shape(mask) != shape:
    raise UserError(
      f'mask has the shape {np.shape(mask)}, {name} {shape}; give it one entry '
      'for each response.'
    )
  if bank is not None and shape[-1:] != (bank.num_items,):
    raise UserError(
      f'{name} has the shape {shape}; give {bank.num_items} responses, one for '
      'each item of the bank.'
    )
  if is_traced(responses, mask):
    return
  if mask is not None and np.isnan(np.asarray(mask, float)).any():
    raise UserError('mask has a NaN; give 0 where there is no answer, else 1.')
  values = np.asarray(responses)
  wrong = (values != 0) & (values != 1)
  if mask is not None:
    wrong &= np.asarray(mask) != 0
  if wrong.any():
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    place = ', '.join(map(str, at))
    raise UserError(
      f'{name}[{place}] = {values[at]:g}: responses are 0 or 1; mask what is '
      'missing.'
    )


def check_bounds(bounds: tuple[float, float]) -> None:
  """Raises UserError unless `bounds` is (low, high) with low < high."""
  if is_traced(*bounds):
    return
  low, high = bounds
  if not low < high:
    raise UserError(f'bounds = ({low:g}, {high:g}): the low one comes first.')


def is_traced(*values: ArrayLike | None) -> bool:
  """Whether the value of an argument is not known yet, inside `jit`."""
  return any(isinstance(value, jax.core.Tracer) for value in values)
