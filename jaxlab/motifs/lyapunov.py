"""Lyapunov exponents by the tangent map; Benettin et al. (1980)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.motifs.models import Step, as_float

NUM_BATCHES = 10


class LyapunovSpectrum(NamedTuple):
  """Exponents per unit of time, largest first, and how sure they are.

  Attributes:
    exponents: `[k]` exponents.
    standard_error: `[k]` standard error of each over ten batches of time.
    running: `[10, k]` estimate after each batch; the last row is `exponents`.
    dimension: Kaplan-Yorke dimension; k where the k exponents do not sum to a
      negative number, which is a lower bound unless k is the whole spectrum.
  """

  exponents: jax.Array
  standard_error: jax.Array
  running: jax.Array
  dimension: jax.Array


def orthonormalize(frame: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Gram-Schmidt on the rows of a frame, each projection done twice.

  Args:
    frame: `[k, n]` vectors.

  Returns:
    `[k, n]` orthonormal vectors and `[k]` lengths, the diagonal of R. A vector
    that depends on those before it becomes 0 and has length 0.
  """
  rows: list[jax.Array] = []
  lengths = []
  for vector in frame:
    rest = vector
    if rows:
      basis = jnp.stack(rows)
      rest = vector - (basis @ vector) @ basis
      rest = rest - (basis @ rest) @ basis
    length = jnp.sqrt(jnp.sum(rest * rest))
    rows.append(rest / jnp.where(length > 0, length, 1))
    lengths.append(length)
  return jnp.stack(rows), jnp.stack(lengths)


def tangent_step(
  step_fn: Step, x: jax.Array, frame: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """Advances a state and the vectors `[k, n]` attached to it."""
  return jax.vmap(lambda v: jax.jvp(step_fn, (x,), (v,)), out_axes=(None, 0))(
    frame
  )


def kaplan_yorke_dimension(exponents: jax.Array) -> jax.Array:
  """The number of exponents, made continuous, whose sum is 0.

  Args:
    exponents: `[k]` exponents, largest first.

  Returns:
    The dimension, in [0, k].
  """
  k = exponents.shape[0]
  sums = jnp.cumsum(exponents)
  count = jnp.sum(jnp.cumprod(sums >= 0))
  kept = jnp.where(count > 0, sums[count - 1], 0)
  following = exponents[jnp.minimum(count, k - 1)]
  part = kept / jnp.where(count < k, -following, jnp.inf)
  return count + jnp.where(count < k, part, 0)


def lyapunov_spectrum(
  step_fn: Step,
  x0: ArrayLike,
  k: int | None = None,
  n_steps: int = 10_000,
  every: int = 1,
  *,
  dt: ArrayLike = 1.0,
  burn_in: int | None = None,
  key: jax.Array | None = None,
) -> LyapunovSpectrum:
  """The k largest Lyapunov exponents of a map, or of a flow's step.

  Args:
    step_fn: the map `[n] -> [n]`; differentiable.
    x0: `[n]` initial state.
    k: number of exponents, static; None is n.
    n_steps: steps that are measured, static; rounded down to ten batches of
      whole blocks.
    every: steps between two orthonormalizations, static.
    dt: time of a step.
    burn_in: steps before the measurement, static, in which the tangent
      vectors turn into their directions; rounded up to whole batches. None is
      a quarter of `n_steps`.
    key: PRNG key of the first tangent vectors; None takes a fixed one.

  Returns:
    The exponents with their running estimates and standard errors.

  Raises:
    UserError: if k is not in [1, n], or there are fewer than ten blocks.
  """
  x0 = as_float(x0)
  k = x0.shape[0] if k is None else k
  if not 1 <= k <= x0.shape[0]:
    raise UserError(f'k must be between 1 and {x0.shape[0]}, got {k}')
  per_batch = n_steps // (every * NUM_BATCHES) if every > 0 else 0
  if per_batch < 1:
    raise UserError(
      f'{n_steps} steps do not make {NUM_BATCHES} blocks of every={every} '
      'steps; raise n_steps'
    )
  burn_in = n_steps // 4 if burn_in is None else burn_in
  burn_in_batches = -(-burn_in // (per_batch * every))
  key = jax.random.key(0) if key is None else key
  frame, _ = orthonormalize(jax.random.normal(key, (k, *x0.shape), x0.dtype))

  def block(carry, _):
    carry = jax.lax.fori_loop(
      0, every, lambda _, c: tangent_step(step_fn, *c), carry
    )
    frame, lengths = orthonormalize(carry[1])
    return (carry[0], frame), jnp.log(lengths)

  def batch(carry, _):
    carry, logs = jax.lax.scan(block, carry, length=per_batch)
    return carry, jnp.mean(logs, axis=0) / (every * dt)

  num_batches = burn_in_batches + NUM_BATCHES
  _, batches = jax.lax.scan(batch, (x0, frame), length=num_batches)
  batches = batches[burn_in_batches:]
  order = jnp.argsort(-jnp.mean(batches, axis=0))
  batches = batches[:, order]
  counts = jnp.arange(1, NUM_BATCHES + 1, dtype=batches.dtype)
  running = jnp.cumsum(batches, axis=0) / counts[:, None]
  return LyapunovSpectrum(
    exponents=running[-1],
    standard_error=jnp.std(batches, axis=0, ddof=1) / NUM_BATCHES**0.5,
    running=running,
    dimension=kaplan_yorke_dimension(running[-1]),
  )


def decided_sign(
  exponents: ArrayLike, standard_error: ArrayLike, num_errors: float = 3.0
) -> jax.Array:
  """Signs of exponents that are known, in units of their standard error.

  Args:
    exponents: `[...]` exponents.
    standard_error: `[...]` their standard errors.
    num_errors: how many of them an exponent must exceed.

  Returns:
    `[...]` int32: 1 or -1, and 0 where the sign is not decided.
  """
  exponents = jnp.asarray(exponents)
  decided = jnp.abs(exponents) > num_errors * jnp.asarray(standard_error)
  return jnp.where(decided, jnp.sign(exponents), 0).astype(jnp.int32)
