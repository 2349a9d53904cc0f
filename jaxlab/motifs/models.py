"""The rate model of a small network, its integrators and its discrete map.

    tau_i dx_i/dt = -x_i + sum_j W_ij phi(x_j) + b_i + sum_k B_ik u_k(t)

`W[j, i]` acts from unit i on unit j, so a graph with edges `A[i, j]` (i -> j)
has `W = A.T * values`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError

Step = Callable[[jax.Array], jax.Array]

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
  'tanh': jnp.tanh,
  'relu': jax.nn.relu,
  'softplus': jax.nn.softplus,
  'logistic': jax.nn.sigmoid,
  'erf': jax.scipy.special.erf,
}


class MotifParams(NamedTuple):
  """Parameters of the rate model; vmap over leading axes.

  Attributes:
    W: `[n, n]` weights, `W[j, i]` from unit i to unit j.
    b: `[n]` constant drive, or one number for all units.
    tau: `[n]` time constants, positive, or one number for all units.
    B: `[n, m]` input weights; None feeds input k to unit k.
  """

  W: jax.Array
  b: jax.Array | float = 0.0
  tau: jax.Array | float = 1.0
  B: jax.Array | None = None


def as_float(x: ArrayLike) -> jax.Array:
  """`x` as an array; whole numbers become the default float."""
  x = jnp.asarray(x)
  floating = jnp.issubdtype(x.dtype, jnp.floating)
  return x if floating else x.astype(jnp.result_type(float))


def tolerance(dtype: jnp.dtype) -> float:
  """What counts as zero: 2e-12 in float64, 6e-6 in float32."""
  return float(jnp.finfo(dtype).eps) ** 0.75


def is_concrete(*arrays: ArrayLike) -> bool:
  """Whether values are known, so that they can be checked."""
  return not any(isinstance(x, jax.core.Tracer) for x in arrays)


def activation_fn(name: str) -> Callable[[jax.Array], jax.Array]:
  """The activation of a name.

  Raises:
    UserError: if there is none of that name.
  """
  if name not in ACTIVATIONS:
    raise UserError(
      f'unknown activation {name!r}; choose one of {", ".join(ACTIVATIONS)}'
    )
  return ACTIVATIONS[name]


def check_time_constants(tau: ArrayLike, dt: ArrayLike | None = None) -> None:
  """Refuses time constants, or a step, with which no one can integrate.

  Values that are being traced are not looked at.

  Args:
    tau: time constants.
    dt: step of the integrator, in the unit of `tau`.

  Raises:
    UserError: if a `tau` is not positive, or `dt` is not in (0, min tau / 2].
  """
  if not is_concrete(tau):
    return
  smallest = float(np.min(np.asarray(tau)))
  if not smallest > 0:
    raise UserError(f'tau must be positive, got {smallest:g}')
  if dt is None or not is_concrete(dt):
    return
  if not 0 < float(np.max(np.asarray(dt))) <= 0.5 * smallest:
    raise UserError(
      f'dt = {float(np.max(np.asarray(dt))):g} must be positive and at most '
      f'half the smallest tau, {0.5 * smallest:g}; take a smaller dt'
    )


def drive(
  params: MotifParams,
  x: jax.Array,
  u: ArrayLike = 0.0,
  *,
  activation: str = 'tanh',
) -> jax.Array:
  """What a unit relaxes to: `W phi(x) + b + B u`.

  Args:
    params: the network.
    x: `[n]` state.
    u: `[m]` input.
    activation: name of phi.

  Returns:
    `[n]` drive.
  """
  fed = u if params.B is None else params.B @ jnp.asarray(u)
  return params.W @ activation_fn(activation)(x) + params.b + fed


def flow(
  params: MotifParams,
  x: jax.Array,
  u: ArrayLike = 0.0,
  *,
  activation: str = 'tanh',
) -> jax.Array:
  """Velocity dx/dt of the rate model.

  Args:
    params: the network.
    x: `[n]` state.
    u: `[m]` input.
    activation: name of phi.

  Returns:
    `[n]` velocity.
  """
  return (drive(params, x, u, activation=activation) - x) / params.tau


def jacobian(
  params: MotifParams, x: jax.Array, *, activation: str = 'tanh'
) -> jax.Array:
  """`diag(1/tau) (W D - I)` with `D = diag(phi'(x))`, `[n, n]`."""
  phi = activation_fn(activation)
  _, slope = jax.jvp(phi, (x,), (jnp.ones_like(x),))
  tau = jnp.broadcast_to(jnp.asarray(params.tau, x.dtype), x.shape)
  return (params.W * slope - jnp.eye(x.shape[0], dtype=x.dtype)) / tau[:, None]


def rk4_step(velocity: Callable[[Any], Any], x: Any, dt: ArrayLike) -> Any:
  """One step of the classical Runge-Kutta method of order 4.

  Args:
    velocity: dx/dt as a function of x.
    x: state, an array or a tree of arrays.
    dt: time of the step.

  Returns:
    The state after the step.
  """
  dt = jnp.asarray(dt)

  def ahead(slope, time):
    return jax.tree.map(lambda y, k: y + time * k, x, slope)

  k1 = velocity(x)
  k2 = velocity(ahead(k1, dt / 2))
  k3 = velocity(ahead(k2, dt / 2))
  k4 = velocity(ahead(k3, dt))
  return jax.tree.map(
    lambda y, a, b, c, d: y + dt / 6 * (a + 2 * (b + c) + d), x, k1, k2, k3, k4
  )


def exponential_euler_step(
  params: MotifParams,
  x: jax.Array,
  u: ArrayLike,
  dt: ArrayLike,
  *,
  activation: str = 'tanh',
) -> jax.Array:
  """One step with the drive held constant; exact where there are no weights."""
  decay = jnp.exp(-jnp.asarray(dt) / params.tau)
  target = drive(params, x, u, activation=activation)
  return decay * x + (1 - decay) * target


def map_step(
  params: MotifParams,
  x: jax.Array,
  u: ArrayLike = 0.0,
  *,
  alpha: ArrayLike = 1.0,
  activation: str = 'tanh',
) -> jax.Array:
  """`x' = (1 - alpha) x + alpha (W phi(x) + b + B u)`, a model of its own.

  Its regimes are not those of the flow: with `alpha = 1` a negative 2-cycle or
  ring can alternate with period 2, which no planar flow does. `tau` plays no
  part.

  Args:
    params: the network.
    x: `[n]` state.
    u: `[m]` input.
    alpha: share of the state that is renewed, in (0, 1].
    activation: name of phi.

  Returns:
    `[n]` next state.
  """
  alpha = jnp.asarray(alpha, x.dtype)
  return (1 - alpha) * x + alpha * drive(params, x, u, activation=activation)


def integrate(
  params: MotifParams,
  x0: ArrayLike,
  inputs: jax.Array | None = None,
  *,
  dt: ArrayLike,
  num_steps: int,
  method: str = 'rk4',
  activation: str = 'tanh',
) -> jax.Array:
  """The trajectory of a state.

  Args:
    params: the network.
    x0: `[n]` initial state.
    inputs: `[num_steps, m]` input of each step, constant during it; None is 0.
    dt: time of a step, or the share `alpha` of the map.
    num_steps: number of steps, static.
    method: 'rk4' and 'exponential_euler' integrate the flow, 'map' iterates
      `map_step`, whose regimes differ.
    activation: name of phi.

  Returns:
    `[num_steps + 1, n]` states, the first one `x0`.

  Raises:
    UserError: if `method` is unknown, or `tau` or `dt` cannot be used.
  """
  if method not in ('rk4', 'exponential_euler', 'map'):
    raise UserError(
      f'unknown method {method!r}; choose rk4, exponential_euler or map'
    )
  check_time_constants(params.tau, None if method == 'map' else dt)
  x0 = as_float(x0)
  if inputs is None:
    width = x0.shape[0] if params.B is None else params.B.shape[1]
    inputs = jnp.zeros((num_steps, width), x0.dtype)

  def advance(x, u):
    if method == 'rk4':
      after = rk4_step(
        lambda y: flow(params, y, u, activation=activation), x, dt
      )
    elif method == 'map':
      after = map_step(params, x, u, alpha=dt, activation=activation)
    else:
      after = exponential_euler_step(params, x, u, dt, activation=activation)
    after = after.astype(x.dtype)
    return after, after

  _, states = jax.lax.scan(advance, x0, inputs, length=num_steps)
  return jnp.concatenate([x0[None], states])
