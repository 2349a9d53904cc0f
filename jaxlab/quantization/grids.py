"""Steps and zero points that fit given numbers.

The candidates are clips of the range: 35 from 0.15 to 1 for weights, in a
symmetric and an asymmetric form, and pairs of clips of the two ends for
activations. Each is judged by the weighted square error of its codes.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from jaxlab.errors import UserError
from jaxlab.quantization.quantizers import (
  UniformSpec,
  dequantize,
  quantize,
  top_code,
)

RULES = ('minmax', 'mse', 'hessian')
_CLIPS = np.linspace(0.15, 1, 35)
_STRETCHES = (0.85, 0.92, 0.97, 1.03, 1.08, 1.15)
_NARROWEST = 0.02
_BINS = 2048
_LLOYD_ROUNDS = 4


class _Grid(NamedTuple):
  """Step, zero and loss of the best quantizer so far, `[N]` each."""

  scale: jax.Array
  zero: jax.Array
  loss: jax.Array


def fit_grid(w: ArrayLike, bits: int, **options) -> UniformSpec:
  """`fit_grids` for one output channel.

  Args:
    w: `[K]` weights.
    bits: 1 to 8.
    **options: those of `fit_grids`.

  Returns:
    Quantizer with a scalar scale and zero.
  """
  spec = fit_grids(jnp.asarray(w)[:, None], bits, **options)
  return UniformSpec(spec.scale[0], spec.zero[0], bits)


@functools.partial(
  jax.jit,
  static_argnames=(
    'bits',
    'rule',
    'symmetric',
    'refine',
    'half_integer',
    'scale_dtype',
  ),
)
def fit_grids(
  w: ArrayLike,
  bits: int,
  *,
  rule: str = 'minmax',
  h: ArrayLike | None = None,
  H: ArrayLike | None = None,
  symmetric: bool | None = None,
  refine: int = 2,
  half_integer: bool = False,
  scale_dtype: DTypeLike = jnp.float32,
) -> UniformSpec:
  """Uniform quantizers of the columns of a weight matrix.

  The forms, at a clip f (always 1 for `minmax`):
  symmetric `scale = 2 f max|w| / (2^bits - 1)`, `zero = 2^(bits-1)`;
  asymmetric `scale = f (max(w, 0) - min(w, 0)) / (2^bits - 1)`,
  `zero = round(-f min(w, 0) / scale)`; half-integer, the symmetric scale with
  `zero = 2^(bits-1) - 1/2`, whose levels are -1/2, 1/2, 3/2 ... steps.

  Args:
    w: `[K, N]` weights. A column of zeros gets the scale 1 and returns zeros.
    bits: 1 to 8.
    rule: 'minmax' takes the whole range; 'mse' the clip of the least square
      error; 'hessian' that of the least `sum_k h_k (w_k - Q(w)_k)^2`.
    h: `[K]` weights of the rows for 'hessian'; None for the diagonal of `H`.
      Where all are 0, all rows count alike.
    H: `[K, K]` positive semidefinite; 'hessian' then refines scale and zero on
      `dw^T H dw`.
    symmetric: True or False for one form, None for the better of both.
    refine: rounds of refinement, scale first, then zero.
    half_integer: whether to try half-integer zeros as well.
    scale_dtype: the scales are rounded to this dtype, except those that would
      become 0 or infinite in it.

  Returns:
    Quantizer with `[N]` scales and zeros in the dtype of `w`.

  Raises:
    UserError: unknown `bits` or `rule`, or 'hessian' without `h` and `H`.
  """
  top_code(bits)
  if rule not in RULES:
    raise UserError(f'rule = {rule!r} is unknown; choose from {RULES}.')
  if rule == 'hessian' and h is None and H is None:
    raise UserError("rule = 'hessian' needs h, the diagonal of H, or H.")
  w = 1.0 * jnp.asarray(w)
  rows, full = jnp.ones(w.shape[:1], w.dtype), None
  if rule == 'hessian':
    full = None if H is None else jnp.asarray(H, w.dtype)
    if h is not None:
      rows = jnp.asarray(h, w.dtype)
    elif full is not None:
      rows = jnp.diagonal(full)
  rows = jnp.where(rows.any(), rows, 1)
  clips = _CLIPS if rule != 'minmax' else _CLIPS[-1:]
  scales, zeros = _candidates(w, bits, symmetric, half_integer, clips)
  scales = _stored(scales, scale_dtype)

  def loss(grid):
    scale, zero = grid
    return rows @ _error(w, UniformSpec(scale, zero, bits)) ** 2

  losses = jax.lax.map(loss, (scales, zeros))
  first = jnp.argmin(losses, axis=0)[None]
  scale, zero = (jnp.take_along_axis(x, first, 0)[0] for x in (scales, zeros))
  if full is not None and refine:
    move = symmetric is not True
    scale, zero = _refine(w, full, scale, zero, bits, refine, move, scale_dtype)
  return UniformSpec(scale, zero, bits)


@functools.partial(
  jax.jit, static_argnames=('bits', 'signed', 'offset', 'steps')
)
def fit_activation(
  x: ArrayLike,
  bits: int,
  *,
  weights: ArrayLike | None = None,
  signed: bool | None = None,
  offset: bool = False,
  steps: int = 40,
) -> tuple[jax.Array, jax.Array]:
  """Step and offset of `x_hat = scale q + offset` by square error.

  Both ends of the range are clipped, each by its own of `steps` factors.

  Args:
    x: `[...]` numbers, at least one.
    bits: 1 to 8.
    weights: weights of the square errors; broadcasts against `x`.
    signed: False makes 0 the lowest level, True takes ranges that are symmetric
      about 0 (about the mean with `offset`), None any range.
    offset: False keeps 0 a level, at an integer code (`-offset / scale` is an
      integer); True takes any offset, refined by least squares of `x` on its
      codes.
    steps: clips of one end, geometric from 1 to 0.02; 1 takes the whole range.

  Returns:
    Scalar scale > 0 and offset. Constant numbers are met exactly.
  """
  x = 1.0 * jnp.asarray(x)
  mass = jnp.broadcast_to(1 if weights is None else weights, x.shape)
  mass = mass.astype(x.dtype)
  present = mass > 0
  low = jnp.min(x, where=present, initial=jnp.inf)
  high = jnp.max(x, where=present, initial=-jnp.inf)
  low, high = (jnp.where(present.any(), end, 0) for end in (low, high))
  x, mass = condense(x.ravel(), mass.ravel(), _BINS)
  middle = jnp.zeros((), x.dtype)
  if offset:
    middle = mass @ x / jnp.maximum(jnp.sum(mass), jnp.finfo(x.dtype).tiny)
  else:
    low, high = jnp.minimum(low, 0), jnp.maximum(high, 0)
  lows, highs = _ranges(low - middle, high - middle, signed, steps)
  lows, highs = lows + middle, highs + middle
  scales = (highs - lows) / top_code(bits)
  constant = jnp.where(high != 0, jnp.abs(high), 1) / top_code(bits)
  scales = jnp.where(scales > 0, scales, constant)
  if not offset:
    lows = jnp.round(lows / scales) * scales

  def loss(candidate):
    scale, low = candidate
    return mass @ (scale * _codes(x, scale, low, bits) + low - x) ** 2

  best = jnp.argmin(jax.lax.map(loss, (scales, lows)))
  scale, low = scales[best], lows[best]
  if offset:
    scale, low = _regress(x, mass, scale, low, bits, loss)
  return scale, low


def condense(
  x: jax.Array, weights: jax.Array, bins: int
) -> tuple[jax.Array, jax.Array]:
  """A weighted histogram whose values are the means of its bins.

  Args:
    x: `[n]` numbers; returned as they are where `n <= bins`.
    weights: `[n]` weights >= 0.
    bins: bins of equal width from the smallest to the largest number.

  Returns:
    `[bins]` ascending values and their weights; an empty bin has weight 0.
  """
  if len(x) <= bins:
    return x, weights
  low, high = jnp.min(x), jnp.max(x)
  width = jnp.where(high > low, (high - low) / bins, 1)
  place = jnp.clip((x - low) / width, 0, bins - 1).astype(jnp.int32)
  zeros = jnp.zeros(bins, x.dtype)
  mass = zeros.at[place].add(weights)
  # Sums of distances to the centre of a bin lose less than sums of values.
  centres = low + width * (jnp.arange(bins, dtype=x.dtype) + 0.5)
  shift = zeros.at[place].add(weights * (x - centres[place]))
  return centres + shift / jnp.where(mass > 0, mass, 1), mass


def _candidates(w, bits, symmetric, half_integer, clips):
  top = top_code(bits)
  clips = jnp.asarray(clips, w.dtype)[:, None]
  even = _positive(2 * clips * jnp.max(jnp.abs(w), axis=0) / top)
  scales, zeros = [], []
  if symmetric is not False:
    scales.append(even)
    zeros.append(jnp.full_like(even, 2 ** (bits - 1)))
  if symmetric is not True:
    low = clips * jnp.minimum(jnp.min(w, axis=0), 0)
    high = clips * jnp.maximum(jnp.max(w, axis=0), 0)
    scales.append(_positive((high - low) / top))
    zeros.append(jnp.round(-low / scales[-1]))
  if half_integer:
    scales.append(even)
    zeros.append(jnp.full_like(even, 2 ** (bits - 1) - 0.5))
  return jnp.concatenate(scales), jnp.concatenate(zeros)


def _positive(scale: jax.Array) -> jax.Array:
  return jnp.where(scale > 0, scale, 1)


def _stored(scale: jax.Array, dtype: DTypeLike) -> jax.Array:
  rounded = scale.astype(dtype).astype(scale.dtype)
  return jnp.where((rounded > 0) & jnp.isfinite(rounded), rounded, scale)


def _error(w: jax.Array, spec: UniformSpec) -> jax.Array:
  return dequantize(quantize(w, spec), spec) - w


def _refine(w, full, scale, zero, bits, rounds, move_zero, scale_dtype):
  """Coordinate descent on `dw^T H dw`; never ends above where it starts."""

  def judged(scale, zero):
    error = _error(w, UniformSpec(scale, zero, bits))
    return _Grid(scale, zero, jnp.sum(error * (full @ error), axis=0))

  def better(best, scale, zero):
    new = judged(_stored(scale, scale_dtype), zero)
    wins = new.loss < best.loss
    return jax.tree.map(lambda a, b: jnp.where(wins, a, b), new, best)

  def fitted(best):
    steps = quantize(w, UniformSpec(best.scale, best.zero, bits)) - best.zero
    pulled = full @ steps
    along = jnp.sum(steps * pulled, axis=0)
    fit = jnp.sum(w * pulled, axis=0) / jnp.where(along > 0, along, 1)
    return jnp.where((along > 0) & (fit > 0), fit, best.scale)

  def one_round(_, best):
    scales = best.scale * jnp.asarray(_STRETCHES, w.dtype)[:, None]
    best, _ = jax.lax.scan(
      lambda best, scale: (better(best, scale, best.zero), None), best, scales
    )
    best = better(best, fitted(best), best.zero)
    if move_zero:
      zeros = best.zero + jnp.asarray([[-1], [1]], w.dtype)
      best, _ = jax.lax.scan(
        lambda best, zero: (better(best, best.scale, zero), None),
        best,
        jnp.clip(zeros, 0, top_code(bits)),
      )
    return best

  best = jax.lax.fori_loop(0, rounds, one_round, judged(scale, zero))
  return best.scale, best.zero


def _ranges(low, high, signed, steps):
  """All clipped ranges about 0, as two `[candidates]` arrays."""
  clips = jnp.geomspace(1, _NARROWEST, steps, dtype=low.dtype)
  if signed:
    ends = clips * jnp.maximum(-low, high)
    return -ends, ends
  if signed is False:
    return jnp.zeros_like(clips), clips * high
  lows, highs = jnp.meshgrid(clips * low, clips * high, indexing='ij')
  return lows.ravel(), highs.ravel()


def _codes(x, scale, low, bits):
  return jnp.clip(jnp.round((x - low) / scale), 0, top_code(bits))


def _regress(x, mass, scale, low, bits, loss: Callable):
  """Alternates codes and the least-squares line through them."""
  total = jnp.maximum(jnp.sum(mass), jnp.finfo(x.dtype).tiny)
  mean_x = mass @ x / total

  def one_round(_, best):
    codes = _codes(x, best[0], best[1], bits)
    mean_code = mass @ codes / total
    spread = mass @ (codes - mean_code) ** 2
    slope = mass @ ((codes - mean_code) * (x - mean_x))
    slope = slope / jnp.where(spread > 0, spread, 1)
    line = slope, mean_x - slope * mean_code
    new = *line, loss(line)
    wins = (slope > 0) & (new[2] < best[2])
    return jax.tree.map(lambda a, b: jnp.where(wins, a, b), new, best)

  start = scale, low, loss((scale, low))
  return jax.lax.fori_loop(0, _LLOYD_ROUNDS, one_round, start)[:2]
