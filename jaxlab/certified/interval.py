"""Boxes, the margins that are bounded over them, and checks of both."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.errors import UserError


class Interval(NamedTuple):
  """Elementwise bounds.

  Attributes:
    lower: `[B, ...]` lower bounds.
    upper: `[B, ...]` upper bounds, of the same shape.
  """

  lower: jax.Array
  upper: jax.Array


def input_box(
  x: jax.Array,
  eps: jax.typing.ArrayLike,
  clip: tuple[float, float] | None = (0, 1),
) -> Interval:
  """The l-infinity ball around each example, cut to the range of the data.

  Args:
    x: `[B, *shape]` examples, in the units of the data.
    eps: radius, one or `[B]`; may be traced.
    clip: range of the data; None for no cut.

  Returns:
    `[max(x - eps, low), min(x + eps, high)]`.

  Raises:
    UserError: if `eps` is negative or NaN, or `x` outside the range; only
      where they are not traced.
  """
  x = as_floats(x)
  eps = jnp.asarray(eps, x.dtype)
  if eps.shape not in ((), x.shape[:1]):
    raise UserError(
      f'eps has shape {eps.shape}: give one radius, or one for each of the '
      f'{len(x)} examples.'
    )
  _check_radius(eps)
  eps = eps.reshape(eps.shape + (1,) * (x.ndim - eps.ndim))
  lower, upper = x - eps, x + eps
  if clip is None:
    return Interval(lower, upper)
  check_range(x, clip)
  return Interval(jnp.maximum(lower, clip[0]), jnp.minimum(upper, clip[1]))


def margin_matrix(labels: jax.Array, num_classes: int) -> jax.Array:
  """Rows that take logits to the margins of the label.

  Args:
    labels: `[B]` integers y.
    num_classes: K.

  Returns:
    `[B, K-1, K]` float: a row for each class k != y in ascending order, +1 at
    y and -1 at k.

  Raises:
    UserError: if a label is not in 0..K-1; only where labels are not traced.
  """
  labels = jnp.asarray(labels)
  if num_classes < 2:
    raise UserError(f'num_classes is {num_classes}: margins need 2 or more.')
  check_labels(labels, num_classes)
  others = jnp.arange(num_classes - 1)
  others = others + (others >= labels[..., None])
  return jax.nn.one_hot(labels, num_classes)[..., None, :] - jax.nn.one_hot(
    others, num_classes
  )


def is_concrete(*arrays: jax.typing.ArrayLike) -> bool:
  """Whether all values can be looked at: none is traced."""
  return not any(isinstance(array, jax.core.Tracer) for array in arrays)


def as_floats(x: jax.typing.ArrayLike) -> jax.Array:
  """`x` as an array of floats; integers become the default float."""
  x = jnp.asarray(x)
  return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(float)


def check_labels(labels: jax.Array, num_classes: int) -> None:
  """Raises UserError for a label that is no class."""
  dtype = jnp.result_type(labels)
  if not jnp.issubdtype(dtype, jnp.integer):
    raise UserError(f'labels are {dtype}: give the integers of the classes.')
  if is_concrete(labels):
    values = np.asarray(labels).reshape(-1)
    wrong = values[(values < 0) | (values >= num_classes)]
    if wrong.size:
      raise UserError(
        f'label {wrong[0]} is no class: labels must lie in '
        f'0..{num_classes - 1}.'
      )


def check_range(x: jax.Array, clip: tuple[float, float]) -> None:
  """Raises UserError for a value of `x` outside `clip`, or NaN."""
  if not clip[0] < clip[1]:
    raise UserError(f'clip is {clip}: the range must rise.')
  if is_concrete(x):
    values = np.asarray(x).reshape(-1)
    wrong = values[~((values >= clip[0]) & (values <= clip[1]))]
    if wrong.size:
      raise UserError(
        f'x holds {wrong[0]:g}, outside the range [{clip[0]:g}, {clip[1]:g}]: '
        'scale the data, or give its range as clip.'
      )


def check_box(box: Interval) -> None:
  """Raises UserError unless `lower <= upper` everywhere, of one shape."""
  if not isinstance(box, tuple) or len(box) != 2:
    raise UserError(
      'the box must be an Interval of lower and upper bounds, such as '
      f'input_box(x, eps) gives, got {type(box).__name__}.'
    )
  lower, upper = box
  if jnp.shape(lower) != jnp.shape(upper):
    raise UserError(
      f'lower {jnp.shape(lower)} and upper {jnp.shape(upper)} of the box must '
      'have the same shape.'
    )
  if is_concrete(lower, upper):
    low, high = np.asarray(lower).reshape(-1), np.asarray(upper).reshape(-1)
    wrong = np.flatnonzero(~(low <= high))
    if wrong.size:
      raise UserError(
        f'lower {low[wrong[0]]:g} is not below upper {high[wrong[0]]:g} in the '
        'box: exchange them, and look for NaN.'
      )


def check_rows(C: jax.Array, num_classes: int, batch: int) -> None:
  """Raises UserError unless C is `[S, K]` or `[B, S, K]`."""
  shape = jnp.shape(C)
  shared = len(shape) == 2 and shape[1] == num_classes
  own = len(shape) == 3 and shape[::2] == (batch, num_classes)
  if not shared and not own:
    raise UserError(
      f'C has shape {shape}, but the network has {num_classes} logits and the '
      f'box {batch} examples: give [S, {num_classes}] or '
      f'[{batch}, S, {num_classes}].'
    )


def _check_radius(eps: jax.Array) -> None:
  if is_concrete(eps):
    values = np.asarray(eps).reshape(-1)
    wrong = values[~(values >= 0)]
    if wrong.size:
      raise UserError(f'eps is {wrong[0]:g}: a radius must be at least 0.')
