"""What the error of a block's output costs: quadratic forms.

All objectives are one form, so that a block is compiled once for all methods:
per example, with D the error at a place (an axis of channels),

  sum_places w (|channel D|^2 + diag . D^2) + |rows D|^2 + ridge |D|^2.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlab.quantization import sketch as sketches


class Objective(NamedTuple):
  """A quadratic form of the errors `[n, *places, C]` of a block's output.

  Attributes:
    ridge: `[]` weight of the plain squared error.
    weight: `[n, *places]` of each place.
    channel: `[R, C]` rows shared by all places.
    diag: `[C]` or `[n, *places, C]`; of each channel.
    rows: `[n, r, *places, C]` rows of each example, or None.
  """

  ridge: jax.Array
  weight: jax.Array
  channel: jax.Array
  diag: jax.Array
  rows: jax.Array | None = None


def rank_of(channels: int) -> int:
  """R: rows of the shared factor."""
  return min(32, channels)


def squared_error(z: jax.Array) -> Objective:
  """The mean squared error, for outputs like z `[n, *places, C]`."""
  channels = z.shape[-1]
  return Objective(
    ridge=jnp.ones((), z.dtype),
    weight=jnp.ones(z.shape[:-1], z.dtype),
    channel=jnp.zeros((rank_of(channels), channels), z.dtype),
    diag=jnp.zeros(channels, z.dtype),
  )


def per_example(factors: jax.Array, ridge: float) -> Objective:
  """The Fisher form of each example, scaled to a mean diagonal of 1.

  Args:
    factors: `[n, r, *places, C]` G with G'G the Fisher matrix.
    ridge: weight of the plain squared error beside it.
  """
  z = factors[:, 0]
  trace = jnp.mean(jnp.sum(factors**2, axis=tuple(range(1, factors.ndim))))
  size = z[0].size
  scale = jnp.sqrt(_ratio(size, trace))
  return squared_error(z)._replace(
    ridge=jnp.asarray(ridge, z.dtype), rows=scale * factors
  )


def shared_by_channel(factors: jax.Array, ridge: float) -> Objective:
  """A low-rank Fisher form over channels, with a weight for each place.

  Args:
    factors: `[n, r, *places, C]`.
    ridge: weight of the plain squared error beside it.
  """
  channels = factors.shape[-1]
  found = sketches.channel_factor(factors, rank_of(channels))
  trace = jnp.sum(found.rows**2) + jnp.sum(found.delta)
  scale = _ratio(channels, trace)
  return Objective(
    ridge=jnp.asarray(ridge, factors.dtype),
    weight=found.weight,
    channel=jnp.sqrt(scale) * found.rows,
    diag=scale * found.delta,
  )


def diagonal(energy: jax.Array, ridge: float = 0.0) -> Objective:
  """A diagonal form, scaled to mean 1.

  Args:
    energy: `[n, *places, C]` weights of squared errors.
    ridge: weight of the plain squared error beside it.
  """
  mean = jnp.maximum(jnp.mean(energy), jnp.finfo(energy.dtype).tiny)
  return squared_error(energy)._replace(
    ridge=jnp.asarray(ridge, energy.dtype), diag=energy / mean
  )


def low_rank_and_diagonal(
  rows: jax.Array, diag: jax.Array, like: jax.Array, ridge: float = 0.0
) -> Objective:
  """A form shared by all examples: rows over whole outputs, and a diagonal.

  Args:
    rows: `[r, *places, C]`.
    diag: `[*places, C]`.
    like: `[n, *places, C]` an output.
    ridge: weight of the plain squared error beside it.
  """
  trace = jnp.sum(rows**2) + jnp.sum(diag)
  scale = _ratio(diag.size, trace)
  return squared_error(like)._replace(
    ridge=jnp.asarray(ridge, diag.dtype),
    diag=scale * diag[None],
    rows=jnp.sqrt(scale) * rows[None],
  )


def _ratio(size: int, trace: jax.Array) -> jax.Array:
  """What scales a form to a mean diagonal of 1; 0 where the form is 0."""
  return jnp.where(trace > 0, size / jnp.where(trace > 0, trace, 1), 0)


def pick(objective: Objective, index: jax.Array) -> Objective:
  """The objective of some examples."""

  def rows_of(x):
    return x if x.shape[0] == 1 else x[index]

  diag = objective.diag
  return objective._replace(
    weight=objective.weight[index],
    diag=diag if diag.ndim == 1 else rows_of(diag),
    rows=None if objective.rows is None else rows_of(objective.rows),
  )


def value(objective: Objective, error: jax.Array) -> jax.Array:
  """The form of errors `[n, *places, C]`, mean over examples."""
  count = error.shape[0]
  seen = jnp.einsum('...c,rc->...r', error, objective.channel)
  at = jnp.sum(seen**2, axis=-1) + jnp.sum(objective.diag * error**2, axis=-1)
  total = jnp.sum(objective.weight * at) / count
  total += objective.ridge * jnp.sum(error**2) / count
  if objective.rows is None:
    return total
  axes = tuple(range(2, error.ndim + 1))
  projected = jnp.sum(objective.rows * error[:, None], axis=axes)
  return total + jnp.sum(projected**2) / count
