"""Dynamical systems with known Lyapunov spectra, as maps of a state.

Each function returns `step(x) -> x`. A flow's step advances the time by `dt`.
"""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.motifs import models
from jaxlab.motifs.models import MotifParams, Step, as_float


def motif_flow(
  W: ArrayLike,
  tau: ArrayLike = 1.0,
  b: ArrayLike = 0.0,
  dt: float = 0.05,
  *,
  activation: str = 'tanh',
) -> Step:
  """The rate model; its exponents sum to `-sum(1/tau)`.

  Args:
    W: `[n, n]` weights, `W[j, i]` from unit i to unit j.
    tau: `[n]` or scalar time constants.
    b: `[n]` or scalar drive.
    dt: time of a step of the Runge-Kutta method of order 4.
    activation: name of phi.

  Returns:
    The step `[n] -> [n]`.

  Raises:
    UserError: if `tau` is not positive or `dt` exceeds half of it.
  """
  models.check_time_constants(as_float(tau), dt)
  params = MotifParams(as_float(W), as_float(b), as_float(tau))

  def velocity(x):
    return models.flow(params, x, activation=activation)

  return lambda x: models.rk4_step(velocity, x, dt)


def motif_map(
  W: ArrayLike,
  b: ArrayLike = 0.0,
  alpha: ArrayLike = 1.0,
  *,
  activation: str = 'tanh',
) -> Step:
  """The discrete-time network of `models.map_step`, as a step `[n] -> [n]`."""
  params = MotifParams(as_float(W), as_float(b))
  return lambda x: models.map_step(
    params, x, alpha=alpha, activation=activation
  )


def linear_map(A: ArrayLike) -> Step:
  """`x' = A x`; the exponents are the logs of the moduli of A's eigenvalues.

  The state grows without bound, but the tangent map is A everywhere: the step
  returns the direction of `A x` and has the derivative A.

  Args:
    A: `[n, n]` matrix.

  Returns:
    The step `[n] -> [n]`.
  """
  A = as_float(A)

  def step(x):
    y = A @ x
    length = jnp.linalg.norm(jax.lax.stop_gradient(y))
    direction = jax.lax.stop_gradient(y) / jnp.where(length > 0, length, 1)
    # The value is the direction, the derivative that of `A @ x`.
    return y - jax.lax.stop_gradient(y) + direction

  return step


def logistic_map(r: ArrayLike = 4.0) -> Step:
  """`x' = r x (1 - x)`; the exponent is ln 2 at `r = 4`."""
  return lambda x: jnp.asarray(r, x.dtype) * x * (1 - x)


def henon_map(a: ArrayLike = 1.4, b: ArrayLike = 0.3) -> Step:
  """`x' = 1 - a x^2 + y`, `y' = b x`; the exponents sum to `ln |b|`."""

  def step(state):
    x, y = state
    return jnp.stack([1 - a * x * x + y, b * x])

  return step


def lorenz_velocity(
  state: jax.Array, sigma: ArrayLike, rho: ArrayLike, beta: ArrayLike
) -> jax.Array:
  """Right-hand side of the equations of Lorenz (1963), `[3]`."""
  x, y, z = state
  return jnp.stack([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])


def lorenz63(
  sigma: ArrayLike = 10.0,
  rho: ArrayLike = 28.0,
  beta: ArrayLike = 8 / 3,
  dt: ArrayLike = 0.01,
) -> Step:
  """Lorenz (1963); exponents 0.906, 0, -14.572 at the usual parameters.

  Args:
    sigma: Prandtl number.
    rho: Rayleigh number relative to the critical one.
    beta: geometric factor.
    dt: time of a step of the Runge-Kutta method of order 4.

  Returns:
    The step `[3] -> [3]`.
  """
  return lambda x: models.rk4_step(
    lambda y: lorenz_velocity(y, sigma, rho, beta), x, dt
  )
