"""What the cycles of a three-node motif allow.

For weights without a diagonal on three nodes the characteristic polynomial of
W is `l^3 - c2 l - c3`, where c2 is the sum of the products around the three
2-cycles and c3 that around the two 3-cycles. With equal time constants and
`phi'(0) = 1` the origin is stable if and only if both margins of `margins`
are positive (Routh-Hurwitz).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.motifs.models import as_float, check_time_constants, is_concrete

STATES = ('stable', 'static-unstable', 'hopf-unstable')


class OriginStability(NamedTuple):
  """Linear stability of the origin.

  Attributes:
    c2: `[...]` sum of the products around 2-cycles.
    c3: `[...]` sum of the products around directed 3-cycles.
    state: `[...]` int32 index into `STATES`, by the leading eigenvalue.
    max_real: `[...]` largest real part of an eigenvalue.
    omega: `[...]` modulus of the leading eigenvalue's imaginary part.
  """

  c2: jax.Array
  c3: jax.Array
  state: jax.Array
  max_real: jax.Array
  omega: jax.Array


def check_weights(W: ArrayLike) -> None:
  """Refuses weights that are not those of a three-node motif.

  Values that are being traced are not looked at.

  Raises:
    UserError: if `W` is not `[..., 3, 3]`, not finite, or has a diagonal.
  """
  if jnp.shape(W)[-2:] != (3, 3):
    raise UserError(f'W must be 3 x 3, got shape {jnp.shape(W)}')
  if not is_concrete(W):
    return
  values = np.asarray(W)
  if not np.all(np.isfinite(values)):
    raise UserError('W holds nan or infinity; a motif has finite weights')
  if np.any(np.diagonal(values, axis1=-2, axis2=-1)):
    raise UserError(
      'W has a nonzero diagonal; a motif has no self-loops, set it to 0'
    )


def cycle_products(W: ArrayLike) -> tuple[jax.Array, jax.Array]:
  """c2 and c3; `tr(W^2) = 2 c2` and `tr(W^3) = 3 c3`.

  Args:
    W: `[..., 3, 3]` weights with zero diagonal.

  Returns:
    c2 `[...]` and c3 `[...]`.
  """
  W = as_float(W)
  c2 = (
    W[..., 0, 1] * W[..., 1, 0]
    + W[..., 0, 2] * W[..., 2, 0]
    + W[..., 1, 2] * W[..., 2, 1]
  )
  c3 = (
    W[..., 0, 1] * W[..., 1, 2] * W[..., 2, 0]
    + W[..., 0, 2] * W[..., 2, 1] * W[..., 1, 0]
  )
  return c2, c3


def margins(c2: ArrayLike, c3: ArrayLike) -> tuple[jax.Array, jax.Array]:
  """`1 - c2 - c3` and `8 - 2 c2 + c3`; the origin is stable if both are > 0.

  The first one that becomes negative names the bifurcation: static
  (pitchfork), or Hopf with `omega^2 = 3 - c2`. Equal time constants of 1.
  """
  c2, c3 = jnp.asarray(c2), jnp.asarray(c3)
  return 1 - c2 - c3, 8 - 2 * c2 + c3


def leading_eigenvalue(J: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Real part and modulus of the imaginary part of the leading eigenvalue.

  Args:
    J: `[..., n, n]` Jacobians.

  Returns:
    Largest real part `[...]`, and the largest imaginary part `[...]` of the
    eigenvalues that have it; 0 where it is rounding error.
  """
  values = jnp.linalg.eigvals(J)
  max_real = jnp.max(values.real, axis=-1)
  size = 1 + jnp.max(jnp.abs(values), axis=-1)
  rounding = float(jnp.finfo(J.dtype).eps) ** 0.5 * size
  leads = values.real >= (max_real - rounding)[..., None]
  imag = jnp.max(jnp.where(leads, jnp.abs(values.imag), 0), axis=-1)
  return max_real, jnp.where(imag > rounding, imag, 0)


def origin_stability(W: ArrayLike, tau: ArrayLike = 1.0) -> OriginStability:
  """Stability of the origin of a motif without drive, `phi'(0) = 1`.

  Args:
    W: `[..., 3, 3]` weights with zero diagonal, `W[j, i]` from i to j.
    tau: `[..., 3]` time constants, or one number.

  Returns:
    Cycle products of W itself, and the leading eigenvalue of
    `diag(1/tau) (W - I)`.

  Raises:
    UserError: if `W` is not 3 x 3, has a diagonal or is not finite, or a
      `tau` is not positive; values that are being traced are not looked at.
  """
  check_weights(W)
  check_time_constants(tau)
  W = as_float(W)
  tau = jnp.broadcast_to(jnp.asarray(tau, W.dtype), W.shape[:-1])
  J = (W - jnp.eye(3, dtype=W.dtype)) / tau[..., None]
  max_real, omega = leading_eigenvalue(J)
  unstable = jnp.where(omega > 0, 2, 1)
  c2, c3 = cycle_products(W)
  return OriginStability(
    c2=c2,
    c3=c3,
    state=jnp.where(max_real < 0, 0, unstable).astype(jnp.int32),
    max_real=max_real,
    omega=omega,
  )


def layer_effective(W: ArrayLike, tau: ArrayLike = 1.0) -> jax.Array:
  """The layer whose repertoire a motif has, given its time constants.

  Layer 1 relaxes to one point, layer 2 may have several, layer 3 may also
  oscillate. With a single 2-cycle the recurrent core is a plane on which the
  divergence is negative, whatever the time constants. Two 2-cycles that share
  a hub have such a core only if both leaves have the same time constant, for
  then their normalised difference dies out; otherwise a fast positive and a
  slow negative loop can oscillate.

  Args:
    W: `[..., 3, 3]` weights, or the adjacency matrix of a motif.
    tau: `[..., 3]` time constants, or one number.

  Returns:
    `[...]` int32 layer, 1 to 3.

  Raises:
    UserError: if `W` is not 3 x 3 or has a diagonal, or `tau` not positive.
  """
  check_weights(W)
  check_time_constants(tau)
  edge = jnp.asarray(W) != 0
  tau = jnp.broadcast_to(jnp.asarray(tau), edge.shape[:-1])
  two_cycle = edge & jnp.swapaxes(edge, -1, -2)
  ring = edge[..., 0, 1] & edge[..., 1, 2] & edge[..., 2, 0]
  other_ring = edge[..., 0, 2] & edge[..., 2, 1] & edge[..., 1, 0]
  # The leaves of hub i are the nodes i + 1 and i + 2.
  apart = jnp.roll(tau, -1, axis=-1) != jnp.roll(tau, -2, axis=-1)
  hub = jnp.sum(two_cycle, axis=-1) == 2
  oscillates = ring | other_ring | jnp.any(hub & apart, axis=-1)
  feeds_back = jnp.any(two_cycle, axis=(-2, -1))
  return jnp.where(oscillates, 3, jnp.where(feeds_back, 2, 1)).astype(jnp.int32)


def is_monotone(W: ArrayLike) -> jax.Array:
  """Whether no cycle has a negative product; then no stable cycle exists.

  Almost every trajectory of such a motif converges (Hirsch 1988).

  Args:
    W: `[..., 3, 3]` weights with zero diagonal.

  Returns:
    `[...]` bool.
  """
  W = as_float(W)
  products = (
    W[..., 0, 1] * W[..., 1, 0],
    W[..., 0, 2] * W[..., 2, 0],
    W[..., 1, 2] * W[..., 2, 1],
    W[..., 0, 1] * W[..., 1, 2] * W[..., 2, 0],
    W[..., 0, 2] * W[..., 2, 1] * W[..., 1, 0],
  )
  return jnp.all(jnp.stack(products) >= 0, axis=0)
