"""Quantizers: numbers to integer codes, back, and through with a gradient.

A uniform quantizer has equal steps; a codebook has levels at any place. What
rounds here is exact in the forward pass, so that a network evaluated with
these functions equals one that runs on the stored codes.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.errors import UserError

_FEW_LEVELS = 16


def top_code(bits: int) -> int:
  """The largest code, `2^bits - 1`.

  Args:
    bits: 1 to 8.

  Raises:
    UserError: if `bits` is no integer from 1 to 8.
  """
  if isinstance(bits, bool) or not isinstance(bits, int) or not 1 <= bits <= 8:
    raise UserError(f'bits must be an integer from 1 to 8, got {bits!r}.')
  return 2**bits - 1


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class UniformSpec:
  """Equal steps: code q stands for `scale (q - zero)`.

  Attributes:
    scale: step, > 0; a scalar, or `[N]` for the last axis of what is
      quantized.
    zero: like `scale`: the code of 0, an integer in a float array, or half an
      integer where 0 lies between two levels.
    bits: 1 to 8, static.
  """

  scale: jax.Array
  zero: jax.Array
  bits: int = dataclasses.field(metadata={'static': True})

  def __post_init__(self):
    top_code(self.bits)


def quantize(x: ArrayLike, spec: UniformSpec) -> jax.Array:
  """Nearest codes, `clip(round(x / scale) + zero, 0, 2^bits - 1)`.

  Halves of `x / scale` go to the even integer. For a zero at half an integer
  the half is added before rounding.

  Args:
    x: `[...]` numbers.
    spec: quantizer that broadcasts against `x`.

  Returns:
    `[...]` int32 codes.
  """
  whole = jnp.floor(spec.zero)
  codes = jnp.round(x / spec.scale + (spec.zero - whole)) + whole
  return jnp.clip(codes, 0, top_code(spec.bits)).astype(jnp.int32)


def dequantize(codes: ArrayLike, spec: UniformSpec) -> jax.Array:
  """The numbers `scale (codes - zero)`, in the dtype of the scale."""
  scale = jnp.asarray(spec.scale)
  return scale * (jnp.asarray(codes).astype(scale.dtype) - spec.zero)


def fake_quant(x: ArrayLike, spec: UniformSpec) -> jax.Array:
  """`dequantize(quantize(x))` with straight-through gradients.

  Args:
    x: `[...]` numbers; their gradient is 1 inside the range of the codes and 0
      outside.
    spec: quantizer; the gradient of its scale is that of `lsq_fake_quant`.

  Returns:
    `[...]` numbers on the grid.
  """
  place = jnp.asarray(x) / spec.scale + spec.zero
  inside = _clamp(place, spec.bits)
  codes = quantize(x, spec).astype(inside.dtype)
  return spec.scale * (_pass_through(codes, inside) - spec.zero)


def lsq_fake_quant(
  x: ArrayLike,
  scale: ArrayLike,
  offset: ArrayLike,
  bits: int,
  grad_scale: ArrayLike = 1.0,
) -> jax.Array:
  """`scale q + offset` with learnable step and offset (LSQ+).

  `q = clip(round(u), 0, 2^bits - 1)` with `u = (x - offset) / scale`. The
  gradients are those of the paper: inside the range 1 for x, `q - u` for the
  scale, 0 for the offset; outside 0, the end code and 1.

  Source: Bhalgat et al., LSQ+, 2020, eqs. 4 and 5; Esser et al., LSQ, 2020.

  Args:
    x: `[...]` numbers.
    scale: step > 0 that broadcasts against `x`.
    offset: the value of code 0; broadcasts likewise.
    bits: 1 to 8.
    grad_scale: what the gradients of scale and offset are multiplied by; LSQ
      takes `1 / sqrt(numbers per step * (2^bits - 1))`.

  Returns:
    `[...]` numbers on the grid.
  """
  scale = _scale_gradient(jnp.asarray(scale), grad_scale)
  offset = _scale_gradient(jnp.asarray(offset), grad_scale)
  inside = _clamp((jnp.asarray(x) - offset) / scale, bits)
  codes = jnp.round(jax.lax.stop_gradient(inside))
  return scale * _pass_through(codes, inside) + offset


def levels_fake_quant(x: ArrayLike, levels: jax.Array) -> jax.Array:
  """The nearest of given levels; a tie goes to the lower one.

  Args:
    x: `[...]` numbers; their gradient is 1 between the outermost levels.
    levels: `[L]` sorted; each receives the gradients of the numbers that take
      it.

  Returns:
    `[...]` levels.
  """
  x = jnp.asarray(x)
  chosen = levels[nearest_level(x, levels)]
  within = (x >= levels[0]) & (x <= levels[-1])
  return chosen + jnp.where(within, x - jax.lax.stop_gradient(x), 0)


def nearest_level(x: ArrayLike, levels: jax.Array) -> jax.Array:
  """`[...]` int32 places of the nearest of `[L]` sorted levels."""
  middles = jax.lax.stop_gradient((levels[1:] + levels[:-1]) / 2)
  method = 'compare_all' if len(levels) <= _FEW_LEVELS else 'scan'
  return jnp.searchsorted(middles, jax.lax.stop_gradient(x), method=method)


def _clamp(place: jax.Array, bits: int) -> jax.Array:
  # jnp.clip would pass half of a gradient at the ends, the papers pass none.
  low = jnp.zeros((), place.dtype)
  return jax.lax.clamp(low, place, jnp.full((), top_code(bits), place.dtype))


def _pass_through(rounded: jax.Array, x: jax.Array) -> jax.Array:
  # Adding an exact 0 keeps the value of `rounded` to the last bit.
  return jax.lax.stop_gradient(rounded) + (x - jax.lax.stop_gradient(x))


@jax.custom_jvp
def _scale_gradient(x: jax.Array, factor: ArrayLike) -> jax.Array:
  del factor
  return x


@_scale_gradient.defjvp
def _scale_gradient_jvp(primals, tangents):
  x, factor = primals
  return x, tangents[0] * jnp.asarray(factor, x.dtype)
