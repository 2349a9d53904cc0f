"""Which of its grid points each weight takes.

The measure is `dw^T H dw`, the error of a layer's output for inputs with second
moments H. Nearest rounding ignores H, GPTQ feeds each error forward to the
weights still to come, soft rounding learns the choice by gradients.
"""

import functools

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.quantization.quantizers import UniformSpec, quantize, top_code

_ZETA, _GAMMA = 1.1, -0.1
_LEARNING_RATE = 0.1
_WARM_UP = 0.2
_SHARPEST, _SOFTEST = 2.0, 20.0
_PENALTY = 30.0
_JITTER = 0.01


def rtn_round(
  w: ArrayLike, scale: ArrayLike, zero: ArrayLike, bits: int
) -> jax.Array:
  """Nearest codes.

  Args:
    w: `[K]` or `[K, N]` weights.
    scale: steps; a scalar, `[N]`, or what else broadcasts.
    zero: codes of 0, likewise.
    bits: 1 to 8.

  Returns:
    int32 codes of the shape of `w`.
  """
  return quantize(w, UniformSpec(jnp.asarray(scale), jnp.asarray(zero), bits))


@functools.partial(
  jax.jit, static_argnames=('bits', 'activation_order', 'group_size')
)
def gptq_round(
  w: ArrayLike,
  H: ArrayLike,
  scale: ArrayLike,
  zero: ArrayLike,
  bits: int,
  *,
  damp: float = 0.01,
  activation_order: bool = False,
  group_size: int | None = None,
) -> jax.Array:
  """Rounds weight after weight and lets the later ones make up for the error.

  Source: Frantar et al., GPTQ, ICLR 2023, algorithm 1.

  Args:
    w: `[K]` or `[K, N]` weights.
    H: `[K, K]` positive semidefinite. A diagonal entry of 0 is set to 1, so
      that a dead input takes its nearest code.
    scale: steps; a scalar or `[N]`; with `group_size` also `[G]` for `[K]`
      weights and `[G, N]` for `[K, N]`, with `G = K / group_size`.
    zero: codes of 0, likewise.
    bits: 1 to 8.
    damp: share of the mean non-zero diagonal entry that is added to all.
    activation_order: whether to begin with the largest diagonal entry instead
      of the first.
    group_size: rows that share a scale; None for all.

  Returns:
    int32 codes of the shape of `w`.

  Raises:
    UserError: if `group_size` does not divide K.
  """
  w, H = 1.0 * jnp.asarray(w), jnp.asarray(H)
  columns = w.reshape(len(w), -1)
  scale = _per_row(scale, columns, w.ndim, group_size)
  zero = _per_row(zero, columns, w.ndim, group_size)
  diagonal = jnp.diagonal(H)
  alive = diagonal > 0
  ridge = damp * jnp.sum(diagonal) / jnp.maximum(jnp.sum(alive), 1)
  H = H.astype(w.dtype) + jnp.diag(jnp.where(alive, 0, 1) + ridge).astype(
    w.dtype
  )
  order = jnp.arange(len(w))
  if activation_order:
    order = jnp.argsort(-jnp.diagonal(H))
  factor = _inverse_factor(H[jnp.ix_(order, order)])

  def round_row(rest, row):
    k, u, scale, zero = row
    spec = UniformSpec(scale, zero, bits)
    codes = quantize(rest[k], spec)
    error = (rest[k] - scale * (codes - zero)) / u[k]
    return rest - u[:, None] * error, codes

  rows = jnp.arange(len(w)), factor, scale[order], zero[order]
  _, codes = jax.lax.scan(round_row, columns[order], rows)
  return jnp.zeros_like(codes).at[order].set(codes).reshape(w.shape)


@functools.partial(jax.jit, static_argnames=('bits', 'steps'))
def soft_round(
  w: ArrayLike,
  H: ArrayLike,
  scale: ArrayLike,
  zero: ArrayLike,
  bits: int,
  *,
  steps: int,
  key: jax.Array,
) -> jax.Array:
  """Learns for every weight whether it goes down or up.

  Adam on `dw^T H dw` with rectified sigmoids between the two neighbouring
  codes; from a fifth of the steps on a penalty drives them to 0 or 1. Each
  column keeps its nearest codes where those are better.

  Source: Nagel et al., AdaRound, ICML 2020, eqs. 21 to 25.

  Args:
    w: `[K]` or `[K, N]` weights.
    H: `[K, K]` positive semidefinite.
    scale: steps; a scalar or `[N]`.
    zero: codes of 0, likewise.
    bits: 1 to 8.
    steps: gradient steps.
    key: for the start, which is jittered so that ties are broken.

  Returns:
    int32 codes of the shape of `w`.
  """
  w = 1.0 * jnp.asarray(w)
  H = jnp.asarray(H, w.dtype)
  scale, zero = (jnp.asarray(x, w.dtype) for x in (scale, zero))
  top = top_code(bits)
  place = w / scale + zero
  # A weight outside of the grid may still leave its end.
  below = jnp.clip(jnp.floor(place), 0, top - 1)
  size = jnp.trace(H) / len(w)
  unit = H / jnp.where(size > 0, size, 1)

  def form(codes):
    error = codes - place
    return jnp.sum(error * (unit @ error), axis=0)

  nearest = rtn_round(w, scale, zero, bits).astype(w.dtype)
  # Relative to the present loss the penalty would vanish where it is 0, at the
  # weights themselves.
  strength = _PENALTY / len(w) * form(nearest)

  def loss(v, it):
    progress = (it / steps - _WARM_UP) / (1 - _WARM_UP)
    beta = _SOFTEST + (_SHARPEST - _SOFTEST) * jnp.maximum(progress, 0)
    penalty = rounding_penalty(v, beta, axis=0) * (progress > 0)
    reached = form(below + rectified_sigmoid(v))
    return jnp.sum(reached + strength * penalty)

  optimizer = optax.adam(optax.cosine_decay_schedule(_LEARNING_RATE, steps))

  def step(carry, it):
    v, state = carry
    updates, state = optimizer.update(jax.grad(loss)(v, it), state)
    return (optax.apply_updates(v, updates), state), None

  start = inverse_rectified_sigmoid(jnp.clip(place - below, 0, 1))
  start += _JITTER * jax.random.normal(key, w.shape, w.dtype)
  carry = start, optimizer.init(start)
  (v, _), _ = jax.lax.scan(step, carry, jnp.arange(steps, dtype=w.dtype))
  learned = below + (v >= 0)
  wins = form(learned) <= form(nearest)
  return jnp.where(wins, learned, nearest).astype(jnp.int32)


def rectified_sigmoid(v: ArrayLike) -> jax.Array:
  """`h(v) = clip(1.2 sigmoid(v) - 0.1, 0, 1)`, which reaches 0 and 1."""
  stretched = jax.nn.sigmoid(jnp.asarray(v)) * (_ZETA - _GAMMA) + _GAMMA
  return jnp.clip(stretched, 0, 1)


def inverse_rectified_sigmoid(h: ArrayLike) -> jax.Array:
  """The v with `rectified_sigmoid(v) = h`, for h from 0 to 1."""
  share = (jnp.asarray(h) - _GAMMA) / (_ZETA - _GAMMA)
  return jnp.log(share) - jnp.log1p(-share)


def rounding_penalty(
  v: ArrayLike, beta: ArrayLike, axis: int | None = None
) -> jax.Array:
  """`sum 1 - |2 h(v) - 1|^beta`: 0 where every h is 0 or 1.

  Args:
    v: rounding variables.
    beta: exponent; large ones leave the middle flat.
    axis: axis of the sum; None for all.
  """
  distance = jnp.abs(2 * rectified_sigmoid(v) - 1)
  # A power of 0 has no finite gradient for small exponents.
  distance = jnp.maximum(distance, jnp.finfo(distance.dtype).eps)
  return jnp.sum(1 - distance**beta, axis=axis)


def _inverse_factor(H: jax.Array) -> jax.Array:
  """The upper U with `inverse(H) = U^T U`, without forming the inverse."""
  lower = jnp.linalg.cholesky(H[::-1, ::-1])
  upper = lower[::-1, ::-1]
  eye = jnp.eye(len(H), dtype=H.dtype)
  return jax.scipy.linalg.solve_triangular(upper, eye, lower=False)


def _per_row(
  x: ArrayLike, columns: jax.Array, ndim: int, group_size: int | None
) -> jax.Array:
  """Scales or zeros as `[K, N]`."""
  x = jnp.asarray(x, columns.dtype)
  k = len(columns)
  if group_size is not None:
    if group_size < 1 or k % group_size:
      raise UserError(
        f'group_size = {group_size} does not divide the {k} inputs.'
      )
    if x.ndim == ndim:
      x = jnp.repeat(x.reshape(k // group_size, -1), group_size, axis=0)
  return jnp.broadcast_to(x, columns.shape)
