"""What a learned rule sees of items and examinees."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.adaptive_testing import models, small_matrices
from jaxlab.adaptive_testing.posterior import posterior_moments
from jaxlab.adaptive_testing.selectors.classical import information_factor, mfi
from jaxlab.adaptive_testing.selectors.posterior import mepv, mpwi
from jaxlab.adaptive_testing.types import (
  Bank,
  CatState,
  ItemBank,
  NeuralBank,
  Selector,
)

_TINY = 1e-8  # below which a logarithm stops falling
_RANK = 8  # of the factors that stand for the correlations
_FAR = (
  6.0  # standard errors between an item and an examinee that all look alike
)


class Residuals(NamedTuple):
  """Correlations of the items' residuals, in forms that are quick to sum.

  Attributes:
    correlation: `[n, n]` symmetric, 0 on the diagonal.
    total: `[n]` its sums.
    left: `[n, r]` with `left @ right.T` the best approximation of rank r.
    right: `[n, r]`.
  """

  correlation: jax.Array
  total: jax.Array
  left: jax.Array
  right: jax.Array


class ItemFeatures(NamedTuple):
  """Inputs of a network that scores items.

  Attributes:
    inputs: `[E, n, F]` of about unit scale.
    skips: `[E, n, 2]` logarithms of two classical criteria; `[E, n, 3]` for
      abilities of one dimension, where the last is that of `pool`, with the
      factors in the place of the correlations.
    context: `[E, C]` of examinees; the first is 1.
    items: `[E, W]` items in the order of asking, then -1.
    residuals: `[E, W]` standardised residuals of their answers at the current
      estimate, 0 where there is none.
  """

  inputs: jax.Array
  skips: jax.Array
  context: jax.Array
  items: jax.Array
  residuals: jax.Array


def residual_correlation(
  bank: Bank, y: ArrayLike, theta: ArrayLike, mask: ArrayLike | None = None
) -> Residuals:
  """Correlations that abilities leave in the answers (Yen's Q3, 1984).

  Args:
    bank: of n items.
    y: `[E, n]` answers.
    theta: `[E, *latent]` abilities from all answers.
    mask: `[E, n]`, not 0 where there is an answer; None for all.

  Returns:
    Pearson correlations of `y - p` over the examinees that have both answers;
    0 where there are none.
  """
  y = jnp.asarray(y)
  seen = jnp.ones(y.shape, bool) if mask is None else jnp.asarray(mask) != 0
  seen = seen.astype(bank.b.dtype) if isinstance(bank, ItemBank) else seen * 1.0
  gap = jnp.where(seen > 0, y - models.prob(bank, theta), 0)
  both = seen.T @ seen
  some = jnp.maximum(both, 1)
  # Means and variances over the examinees that a pair has in common.
  mean = gap.T @ seen / some
  power = (gap**2).T @ seen / some - mean**2
  shared = gap.T @ gap / some - mean * mean.T
  size = jnp.sqrt(power * power.T)
  correlation = jnp.where(size > _TINY, shared / jnp.maximum(size, _TINY), 0)
  correlation = jnp.where(jnp.eye(len(both), dtype=bool), 0, correlation)
  values, vectors = jnp.linalg.eigh(correlation)
  strongest = jnp.argsort(-jnp.abs(values))[:_RANK]
  right = vectors[:, strongest]
  return Residuals(
    correlation, correlation.sum(0), right * values[strongest], right
  )


def skip_rules(bank: Bank) -> tuple[Selector, Selector]:
  """The two classical rules whose scores a learned rule starts from."""
  return mepv(), mfi() if bank.latent_shape else mpwi()


def item_features(
  bank: Bank,
  state: CatState,
  tables: tuple[Any, Any],
  residuals: Residuals | None,
  horizon: ArrayLike,
) -> ItemFeatures:
  """Features of all items for all examinees.

  Args:
    bank: of n items.
    state: of E examinees.
    tables: parameters of `skip_rules`.
    residuals: correlations of the items, or None for zeros.
    horizon: number of items that counts as a whole test.
  """
  if state.items is None:
    items = jnp.where(state.asked, jnp.arange(bank.num_items), -1)
    state = state._replace(items=items)
  asked = state.items >= 0
  share = jnp.sum(asked, axis=-1, dtype=state.theta.dtype) / horizon
  key = jax.random.key(0)  # these rules draw nothing
  skips = [
    _log(rule.score(table, key, bank, state))
    for rule, table in zip(skip_rules(bank), tables, strict=True)
  ]
  p = models.prob(bank, state.theta)
  leftover = _standardised(state, p)
  if bank.latent_shape or isinstance(bank, NeuralBank):
    inputs, context, info = _many_dimensions(bank, state, p)
  else:
    inputs, context, info = _one_dimension(bank, state)
  sums = _sums(state, leftover, residuals, info)
  if not bank.latent_shape:
    skips.append(_log(_pool_reduction(state, info, sums[-1])))
  inputs = (p, share[:, None], _log(info), *skips[:2], *inputs, *sums)
  return ItemFeatures(
    jnp.stack([jnp.broadcast_to(x, p.shape) for x in inputs], axis=-1),
    jnp.stack(skips, axis=-1),
    jnp.stack([jnp.ones_like(share), *context, share], axis=-1),
    state.items,
    leftover,
  )


def _one_dimension(bank: ItemBank, state: CatState):
  assert state.log_post is not None
  theta, sd = state.theta[:, None], (state.info**-0.5)[:, None]
  mean = posterior_moments(state.log_post).theta[:, None]
  ahead = bank.b - theta
  inputs = (
    *(bank.a, bank.c, ahead, jnp.clip(ahead / sd, -_FAR, _FAR) / 2),
    *(mean - theta, theta, sd),
  )
  context = (state.theta, state.theta**2 - 1, -jnp.log(state.info) / 2)
  return inputs, context, models.item_information(bank, state.theta)


def _many_dimensions(bank: Bank, state: CatState, p: jax.Array):
  size, direction = information_factor(bank, state.theta)
  info = size * jnp.sum(direction**2, axis=-1)
  covariance = small_matrices.inverse(state.info)
  sd = jnp.sqrt(jnp.diagonal(covariance, axis1=-2, axis2=-1))
  concepts = _concepts(bank)
  times = state.asked.astype(concepts.dtype) @ concepts
  covered = times / jnp.maximum(jnp.sum(times, axis=-1, keepdims=True), 1)
  needed = (concepts / jnp.sum(concepts, axis=-1, keepdims=True)).T
  gradient = 2 * jnp.sqrt(p * (1 - p) * info)  # its norm, expected
  inputs = (
    *(_log(gradient), covered @ needed, state.theta @ needed, sd @ needed),
    jnp.mean(sd, axis=-1, keepdims=True),
  )
  context = (*jnp.moveaxis(state.theta, -1, 0), jnp.mean(jnp.log(sd), axis=-1))
  return inputs, context, info


def _concepts(bank: Bank) -> jax.Array:
  """`[n, D]` how much of each concept an item needs."""
  if isinstance(bank, ItemBank) and bank.q_matrix is None:
    return jnp.abs(bank.a) + _TINY
  return jnp.asarray(bank.q_matrix)


def _standardised(state: CatState, p: jax.Array) -> jax.Array:
  """`[E, W]` residuals of what was asked, in standard deviations."""
  at = jnp.maximum(state.items, 0)
  p = jnp.take_along_axis(p, at, axis=1)
  y = jnp.take_along_axis(state.responses, at, axis=1)
  z = (y - p) / jnp.sqrt(jnp.maximum(p * (1 - p), _TINY))
  return jnp.where(state.items >= 0, z, 0)


def _sums(
  state: CatState,
  leftover: jax.Array,
  residuals: Residuals | None,
  info: jax.Array,
) -> tuple[jax.Array, ...]:
  """Sums of correlations over asked and over open items, four `[E, n]`."""
  if residuals is None:
    return (jnp.zeros_like(info),) * 4
  rows = residuals.correlation[jnp.maximum(state.items, 0)]
  asked = (state.items >= 0).astype(rows.dtype)
  redundancy = jnp.einsum('ew,ewn->en', asked, rows)
  carried = jnp.einsum('ew,ewn->en', leftover, rows)
  weight = jnp.where(state.asked, 0, jnp.sqrt(info))
  weighted = (weight @ residuals.left) @ residuals.right.T
  return redundancy, carried, residuals.total - redundancy, weighted


def _pool_reduction(
  state: CatState, info: jax.Array, shared: jax.Array
) -> jax.Array:
  """`[E, n]` what `pool` says; `shared` are weighted sums of correlations."""
  variance = 1 / state.info[:, None]
  rest = jnp.sum(jnp.where(state.asked, 0, info), axis=-1, keepdims=True)
  pull = jnp.sqrt(info) * (1 + variance * rest) + shared
  return pull**2 / (1 + variance * info)


def _log(x: jax.Array) -> jax.Array:
  return jnp.log(jnp.maximum(x, _TINY))
