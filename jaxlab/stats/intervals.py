"""Confidence intervals of means and of differences of means."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.stats.quantiles import as_floats, student_t_critical_value


class Interval(NamedTuple):
  """A two-sided confidence interval.

  Attributes:
    low: `[...]` lower ends.
    high: `[...]` upper ends.
  """

  low: jax.Array
  high: jax.Array


def check_level(level: ArrayLike) -> None:
  """Raises ValueError if a level that is not a JAX array leaves (0, 1)."""
  if isinstance(level, jax.Array):
    return
  if not np.all((np.asarray(level) > 0) & (np.asarray(level) < 1)):
    raise ValueError(f'level must lie strictly between 0 and 1, got {level}.')


def _moments(x: jax.Array, axis: int) -> tuple[jax.Array, jax.Array, int]:
  """Mean, squared standard error of the mean, and number of observations."""
  n = x.shape[axis]
  if n == 0:
    raise ValueError(f'axis {axis} of shape {x.shape} has no observations.')
  mean = jnp.mean(x, axis)
  squares = jnp.sum(jnp.square(x - jnp.expand_dims(mean, axis)), axis)
  variance = squares / (n - 1) if n > 1 else jnp.full_like(mean, jnp.nan)
  return mean, variance / n, n


def mean_interval(
  x: ArrayLike, axis: int = -1, level: ArrayLike = 0.95
) -> Interval:
  """Student's t interval of a mean.

  Args:
    x: `[..., n]` independent observations along `axis`.
    axis: the axis of the observations.
    level: confidence level in (0, 1).

  Returns:
    The interval without `axis`; NaN for a single observation.

  Raises:
    ValueError: if there is no observation, or `level` is outside (0, 1).
  """
  check_level(level)
  (x,) = as_floats(x)
  mean, squared_error, n = _moments(x, axis)
  t = student_t_critical_value(jnp.asarray(level, x.dtype), n - 1)
  half = t * jnp.sqrt(squared_error)
  return Interval(mean - half, mean + half)


def paired_difference_interval(
  a: ArrayLike, b: ArrayLike, axis: int = -1, level: ArrayLike = 0.95
) -> Interval:
  """Student's t interval of the mean of a - b over pairs.

  Args:
    a: `[..., n]` observations.
    b: `[..., n]` observations; pair i is `a[i]`, `b[i]`.
    axis: the axis of the pairs.
    level: confidence level in (0, 1).

  Returns:
    The interval without `axis`; NaN for a single pair.

  Raises:
    ValueError: if the shapes differ, there is no pair, or `level` is outside
      (0, 1).
  """
  if jnp.shape(a) != jnp.shape(b):
    raise ValueError(
      f'pairs need equal shapes, got {jnp.shape(a)} and {jnp.shape(b)}.'
    )
  a, b = as_floats(a, b)
  return mean_interval(a - b, axis, level)


def difference_interval(
  a: ArrayLike, b: ArrayLike, axis: int = -1, level: ArrayLike = 0.95
) -> Interval:
  """Welch's t interval of mean(a) - mean(b) of two independent samples.

  Args:
    a: `[..., n]` observations along `axis`.
    b: `[..., m]` observations along `axis`.
    axis: the axis of the observations.
    level: confidence level in (0, 1).

  Returns:
    The interval without `axis`; NaN if a sample has a single observation; of
    zero width if both samples are constant.

  Raises:
    ValueError: if a sample has no observation, or `level` is outside (0, 1).

  Source:
    B. L. Welch (1947), Biometrika 34.
  """
  check_level(level)
  dtype = jnp.result_type(a, b, float)
  mean_a, error_a, n = _moments(jnp.asarray(a, dtype), axis)
  mean_b, error_b, m = _moments(jnp.asarray(b, dtype), axis)
  error = error_a + error_b
  if min(n, m) == 1:
    return Interval(error, error)
  # Shares of the error keep the squares away from under- and overflow.
  share = jnp.where(error > 0, error_a / jnp.where(error > 0, error, 1), 0.5)
  df = 1 / (share**2 / (n - 1) + (1 - share) ** 2 / (m - 1))
  t = student_t_critical_value(jnp.asarray(level, dtype), df)
  half = t * jnp.sqrt(error)
  difference = mean_a - mean_b
  return Interval(difference - half, difference + half)
