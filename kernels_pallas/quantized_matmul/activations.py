"""Codes of activations, and what is done to a product before it is stored."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kernels_pallas.quantized_matmul.packing import PackedTensor

MODES = ('static', 'per_token', 'dynamic')


@functools.partial(
  jax.tree_util.register_dataclass,
  data_fields=['scale', 'zero'],
  meta_fields=['bits', 'mode'],
)
@dataclasses.dataclass(frozen=True)
class ActQuant:
  """How activations become codes: x = scale * (code - zero).

  Attributes:
    scale: a scalar ('static'), or numbers that broadcast to the axes of x but
      the last ('per_token'); None for 'dynamic'.
    zero: code of 0, of the same shape as `scale` or a scalar; None for
      'dynamic'.
    bits: of a code, 2 to 8.
    mode: 'static', 'per_token', or 'dynamic', where each row of x is scaled
      from its smallest to its largest number.
  """

  scale: Any
  zero: Any
  bits: int
  mode: str = 'static'


class Rows(NamedTuple):
  """Activations as the kernels take them: arrays, references or blocks.

  Attributes:
    x: `[M, K]` float, or int8 codes from which 2^(bits-1) was subtracted.
    scale: `[M, 1]` float32; None for float x.
    zero: `[M, 1]` int32 zero points, with 2^(bits-1) subtracted; None for
      float x.
  """

  x: Any
  scale: Any = None
  zero: Any = None


class Extras(NamedTuple):
  """What is added to a product, as `Rows`; None where there is none.

  Attributes:
    projected: `[M, r]` input times the first low-rank factor.
    second: `[r, N]` the second low-rank factor.
    bias: `[1, N]`.
    residual: `[M, N]`.
  """

  projected: Any = None
  second: Any = None
  bias: Any = None
  residual: Any = None


class OutQuant(NamedTuple):
  """Codes of an output: round(y / scale) + zero, cut off to `bits` bits.

  Attributes:
    scale: a number.
    zero: the code of 0.
    bits: 2 to 8.
  """

  scale: float
  zero: int
  bits: int


class Finish(NamedTuple):
  """What follows the product, apart from arrays; static.

  Attributes:
    activation: a name in `ACTIVATIONS`.
    dtype: name of the type of the result.
    out_quant: how the result becomes codes, or None.
  """

  activation: str
  dtype: str
  out_quant: OutQuant | None = None


def _gelu_erf(y: jax.Array) -> jax.Array:
  return 0.5 * y * (1 + jax.lax.erf(y * 0.5**0.5))


def _gelu_tanh(y: jax.Array) -> jax.Array:
  # (1 + tanh(u)) / 2 = logistic(2 u), which compilers for GPUs have.
  u = (2 / jnp.pi) ** 0.5 * (y + 0.044715 * y * y * y)
  return y * jax.lax.logistic(2 * u)


def gelu_erf_by_exp(y: jax.Array) -> jax.Array:
  """Exact GELU for compilers without erf; erf's error is below 2e-7.

  Abramowitz and Stegun (1964), 7.1.26.
  """
  x = jnp.abs(y) * 0.5**0.5
  t = 1 / (1 + 0.3275911 * x)
  tail: jax.Array | float = 0.0
  for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736):
    tail = (tail + factor) * t
  tail = (tail + 0.254829592) * t * jnp.exp(-x * x)
  # Half the tail of the normal distribution, on the side of y.
  return y * jnp.where(y < 0, 0.5 * tail, 1 - 0.5 * tail)


ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
  'none': lambda y: y,
  'relu': lambda y: jnp.maximum(y, 0),
  'gelu_tanh': _gelu_tanh,
  'gelu_erf': _gelu_erf,
  'silu': lambda y: y * jax.lax.logistic(y),
}


def finish(
  y: jax.Array,
  extras: Extras,
  how: Finish,
  dot: Callable = jnp.dot,
  activations: dict[str, Callable] = ACTIVATIONS,
) -> jax.Array:
  """Adds low rank, bias and residual, then activates and rounds, in this order.

  Args:
    y: `[M, N]` float, a tile of the scaled product.
    extras: what is added, tiles that fit.
    how: activation and type.
    dot: product of matrices, for where it takes arguments.
    activations: by name, for compilers that lack some.

  Returns:
    `[M, N]` of type `how.dtype`.
  """
  if extras.projected is not None:
    y += dot(extras.projected.astype(y.dtype), extras.second.astype(y.dtype))
  if extras.bias is not None:
    y += extras.bias.astype(y.dtype)
  if extras.residual is not None:
    y += extras.residual.astype(y.dtype)
  y = activations[how.activation](y)
  if how.out_quant is None:
    return y.astype(how.dtype)
  scale, zero, bits = how.out_quant
  codes = jnp.clip(jnp.round(y / scale) + zero, 0, 2**bits - 1)
  return (codes.astype(jnp.int32) - 2 ** (bits - 1)).astype(jnp.int8)


def to_rows(x: jax.Array, act: ActQuant | None) -> Rows:
  """Quantizes `[..., K]` activations, or takes the codes that they are.

  int8 codes have 2^(bits-1) subtracted already, as those of `out_quant` do;
  other integers have not.
  """
  rows = _as_rows(x)
  if act is None:
    return Rows(rows)
  scale, zero = scale_and_zero(x, act)
  centre = 2 ** (act.bits - 1)
  if rows.dtype == jnp.int8:
    codes = rows
  elif jnp.issubdtype(rows.dtype, jnp.integer):
    codes = (rows.astype(jnp.int32) - centre).astype(jnp.int8)
  else:
    exact = _codes(rows, scale, zero, act.bits)
    # What is not a number has no code: 0 stands for it.
    codes = jnp.nan_to_num(exact, nan=centre).astype(jnp.int32) - centre
    codes = codes.astype(jnp.int8)
  return Rows(codes, scale.astype(jnp.float32), zero.astype(jnp.int32) - centre)


def fake_quantize(x: jax.Array, act: ActQuant) -> jax.Array:
  """`[M, K]` values of the codes of x, with the straight-through gradient.

  The gradient by x passes where x is not cut off; that by the scale is that of
  a learned step size (Esser et al., ICLR 2020).
  """
  rows = _as_rows(x)
  scale, zero = scale_and_zero(x, act)
  zero = jax.lax.stop_gradient(zero.astype(scale.dtype))
  if jnp.issubdtype(rows.dtype, jnp.integer):
    shift = 2 ** (act.bits - 1) if rows.dtype == jnp.int8 else 0
    return scale * (rows.astype(scale.dtype) + shift - zero)
  steps = rows / scale + zero
  inside = jnp.clip(steps, 0, 2**act.bits - 1)
  rounding = jax.lax.stop_gradient(_codes(rows, scale, zero, act.bits) - inside)
  return scale * (inside + rounding - zero)


def scale_and_zero(x: jax.Array, act: ActQuant) -> tuple[jax.Array, jax.Array]:
  """`[M, 1]` scales and zero points of the rows of x `[..., K]`."""
  if act.mode != 'dynamic':
    shape = x.shape[:-1]
    pair = jnp.asarray(act.scale), jnp.asarray(act.zero)
    scale, zero = (jnp.broadcast_to(a, shape).reshape(-1, 1) for a in pair)
    return scale.astype(jnp.promote_types(scale.dtype, jnp.float32)), zero
  rows = jax.lax.stop_gradient(_as_rows(x))
  low = jnp.min(rows, axis=1, keepdims=True, initial=0)
  high = jnp.max(rows, axis=1, keepdims=True, initial=0)
  scale = (high - low).astype(jnp.float32) / (2**act.bits - 1)
  scale = jnp.where(scale > 0, scale, 1)
  return scale, jnp.round(-low / scale)


def _as_rows(x: jax.Array) -> jax.Array:
  return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _codes(x: jax.Array, scale: jax.Array, zero: jax.Array, bits: int):
  codes = jnp.round(x / scale) + zero
  return jnp.clip(codes, 0, 2**bits - 1)


def exact_limit(w: PackedTensor, bits: int) -> int:
  """Bound of a group's sum of products of codes with `bits` bits."""
  return w.group_size * (2**bits - 1) * (2**w.bits - 1)
