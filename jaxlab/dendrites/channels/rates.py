"""Rate functions that are exact, and differentiable, at their singularities."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

MIN_TAU = 1e-6  # ms

# Coefficients of the even part of x / (1 - exp(-x)) from x^2 on: B_2k / (2k)!
_SERIES = (
  1 / 12,
  -1 / 720,
  1 / 30240,
  -1 / 1209600,
  1 / 47900160,
  -691 / 1307674368000,
)
# Below this the series is exact to rounding; above it the quotient loses less
# than a digit in value and slope, in float32 too.
_SERIES_BELOW = 0.4


def linoid(x: jax.Array, rest: jax.Array) -> jax.Array:
  """The smooth x / (1 - exp(-x)), which is 1 at x = 0.

  Args:
    x: `[...]` any finite value; 0 is a removable singularity.
    rest: `[...]` 1 - exp(-x), however the caller comes by it; it need not be
      accurate where |x| < 0.4.

  Returns:
    `[...]` value; it and its derivatives are finite everywhere.
  """
  small = jnp.abs(x) < _SERIES_BELOW
  # jnp.where differentiates both branches, so both get harmless arguments.
  near = jnp.where(small, x, 0.0)
  w = near * near
  even = jnp.zeros_like(w)
  for coefficient in reversed(_SERIES):
    even = (even + coefficient) * w
  far = jnp.where(small, 1.0, rest)
  return jnp.where(small, 1 + 0.5 * near + even, x / far)


def vtrap(x: ArrayLike, y: ArrayLike) -> jax.Array:
  """The linoid rate x / (exp(x / y) - 1), which is y at x = 0.

  Args:
    x: `[...]` any finite value; 0 is a removable singularity.
    y: scale of x, not 0; broadcasts against x.

  Returns:
    `[...]` value in the unit of y, right to a few units in the last place;
    its derivatives are finite everywhere.
  """
  u = jnp.asarray(x) / y
  return jnp.asarray(y * linoid(-u, -jnp.expm1(u)))


def exponential_step(
  s: jax.Array, s_inf: ArrayLike, tau: ArrayLike, dt: jax.Array | float
) -> jax.Array:
  """Advances ds/dt = (s_inf - s) / tau by dt, exactly for constant s_inf, tau.

  Args:
    s: `[...]` state.
    s_inf: `[...]` its steady state.
    tau: `[...]` time constant in ms; taken as 1e-6 ms where it is less.
    dt: step in ms.

  Returns:
    `[...]` the state after dt. Slow states keep their digits in float32: the
    increment is not 1 minus an exponential next to 1.
  """
  return s - jnp.expm1(-dt / jnp.maximum(tau, MIN_TAU)) * (s_inf - s)


def boltzmann(v: ArrayLike, half: ArrayLike, slope: ArrayLike) -> jax.Array:
  """1 / (1 + exp(-(v - half) / slope)): rises with v where slope > 0."""
  return jax.nn.sigmoid((jnp.asarray(v) - half) / slope)


def bell(v: ArrayLike, centre: ArrayLike, width: ArrayLike) -> jax.Array:
  """exp(-((v - centre) / width)^2)."""
  return jnp.exp(-jnp.square((jnp.asarray(v) - centre) / width))


def q10(celsius: ArrayLike, reference: float, factor: float) -> ArrayLike:
  """factor^((celsius - reference) / 10): how much faster than at reference.

  A Python number stays one, so that it costs nothing in a compiled step.
  """
  return factor ** ((celsius - reference) / 10)
