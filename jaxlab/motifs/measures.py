"""Measures of the activity of a network and of its weight matrix."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.motifs.models import as_float


def participation_ratio(states: ArrayLike) -> jax.Array:
  """Dimension of a cloud of states, `(tr C)^2 / tr C^2` of its covariance.

  Args:
    states: `[T, N]` states.

  Returns:
    A number in [1, N]; 0 where the states do not vary.
  """
  x = as_float(states)
  x = x - jnp.mean(x, axis=0)
  covariance = x.T @ x / x.shape[0]
  total = jnp.trace(covariance)
  squares = jnp.sum(covariance**2)
  return jnp.where(
    squares > 0, total**2 / jnp.where(squares > 0, squares, 1), 0
  )


def memory_capacity(
  states: ArrayLike,
  inputs: ArrayLike,
  max_lag: int,
  *,
  ridge: ArrayLike = 1e-8,
) -> jax.Array:
  """How well linear readouts recall past inputs; Jaeger (2001).

  Readouts are fitted on the first half of the time and judged on the second.

  Args:
    states: `[T, N]` states; `states[t]` has seen `inputs[t]`.
    inputs: `[T]` independent inputs.
    max_lag: longest lag, static.
    ridge: penalty relative to the states' mean variance.

  Returns:
    `[max_lag + 1]` squared correlation of readout and input at lags 0 to
    `max_lag`; the capacity is their sum.

  Raises:
    UserError: if the time is too short for such lags.
  """
  x, u = as_float(states), as_float(inputs)
  length = x.shape[0] - max_lag
  half = length // 2
  if half < 2:
    raise UserError(
      f'{x.shape[0]} steps are too few for lags up to {max_lag}; simulate '
      f'more than {max_lag + 4} steps'
    )
  lags = jnp.arange(max_lag + 1)
  times = max_lag + jnp.arange(length)
  targets = u[times[:, None] - lags]
  x = x[max_lag:]
  x_mean, target_mean = jnp.mean(x[:half], 0), jnp.mean(targets[:half], 0)
  x, targets = x - x_mean, targets - target_mean
  gram = x[:half].T @ x[:half]
  penalty = ridge * jnp.trace(gram) / x.shape[1]
  weights = jax.scipy.linalg.solve(
    gram + penalty * jnp.eye(x.shape[1], dtype=x.dtype),
    x[:half].T @ targets[:half],
    assume_a='pos',
  )
  return _squared_correlation(x[half:] @ weights, targets[half:])


def _squared_correlation(a: jax.Array, b: jax.Array) -> jax.Array:
  """Along axis 0; 0 where one of the two does not vary."""
  a, b = a - jnp.mean(a, axis=0), b - jnp.mean(b, axis=0)
  product = jnp.sum(a * a, axis=0) * jnp.sum(b * b, axis=0)
  squared = jnp.sum(a * b, axis=0) ** 2
  return jnp.where(product > 0, squared / jnp.where(product > 0, product, 1), 0)


def kernel_rank(
  states: ArrayLike, *, threshold: ArrayLike | None = None
) -> jax.Array:
  """Rank of the states that different inputs lead to; Legenstein, Maass (2007).

  Args:
    states: `[M, N]` state after each of M input streams.
    threshold: singular values below this share of the largest count as 0; None
      is the rounding error of the type.

  Returns:
    int32 rank.
  """
  x = as_float(states)
  if threshold is None:
    threshold = max(x.shape) * float(jnp.finfo(x.dtype).eps)
  values = jnp.linalg.svd(x, compute_uv=False)
  return jnp.sum(values > threshold * values[0], dtype=jnp.int32)


def henrici(W: ArrayLike) -> jax.Array:
  """Departure from normality, `sqrt(||W||^2 - sum |l_i|^2) / ||W||`.

  Args:
    W: `[N, N]` matrix.

  Returns:
    0 for a normal matrix, 1 for a nilpotent one; 0 for the zero matrix.
  """
  W = as_float(W)
  norm = jnp.sum(W**2)
  spectral = jnp.sum(jnp.abs(jnp.linalg.eigvals(W)) ** 2)
  share = jnp.maximum(norm - spectral, 0) / jnp.where(norm > 0, norm, 1)
  return jnp.sqrt(share)


def spectral_radius(W: ArrayLike) -> jax.Array:
  """Largest modulus of an eigenvalue of `[N, N]`."""
  return jnp.max(jnp.abs(jnp.linalg.eigvals(as_float(W))))


def autocorrelation(states: ArrayLike) -> jax.Array:
  """Autocorrelation of the activity, pooled over units.

  Args:
    states: `[T, N]` states.

  Returns:
    `[T]` correlation at lags 0 to T - 1; lag 0 is 1. All 0 where no unit
    varies.
  """
  x = as_float(states)
  x = x - jnp.mean(x, axis=0)
  length = x.shape[0]
  spectrum = jnp.abs(jnp.fft.rfft(x, 2 * length, axis=0)) ** 2
  covariance = jnp.sum(jnp.fft.irfft(spectrum, 2 * length, axis=0), axis=-1)
  covariance = covariance[:length] / (length - jnp.arange(length))
  varies = covariance[0] > 0
  return jnp.where(varies, covariance / jnp.where(varies, covariance[0], 1), 0)


def autocorrelation_time(states: ArrayLike, dt: ArrayLike = 1.0) -> jax.Array:
  """Integral of the autocorrelation up to its first zero.

  Args:
    states: `[T, N]` states.
    dt: time of a step.

  Returns:
    The time; `tau` for exponential decay with `tau` much longer than `dt`.
  """
  rho = autocorrelation(states)
  positive = jnp.cumprod(rho > 0)
  area = jnp.maximum(jnp.sum(rho * positive) - 0.5 * rho[0], 0)
  return jnp.asarray(dt, area.dtype) * area
