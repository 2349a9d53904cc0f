"""Products with packed weights, checked, for the device that is here."""

import functools
import importlib
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import checkify
from jax.typing import DTypeLike

from kernels_pallas import dispatch
from kernels_pallas.quantized_matmul import adjoint, reference, xla
from kernels_pallas.quantized_matmul.activations import (
  ACTIVATIONS,
  MODES,
  ActQuant,
  Extras,
  Finish,
  OutQuant,
  exact_limit,
  fake_quantize,
  to_rows,
)
from kernels_pallas.quantized_matmul.adjoint import Kernels
from kernels_pallas.quantized_matmul.packing import PackedTensor

IMPLEMENTATIONS = (
  'xla',
  'pallas',
  'triton',
  'interpret',
  'interpret_tpu',
  'reference',
)

_MODULES = {
  'triton': 'triton',
  'interpret': 'pallas_gpu',
  'interpret_tpu': 'pallas_tpu',
}


def quantized_matmul(
  x: jax.Array,
  w: PackedTensor,
  *,
  act_quant: ActQuant | None = None,
  lowrank: tuple[jax.Array, jax.Array] | None = None,
  bias: jax.Array | None = None,
  residual: jax.Array | None = None,
  activation: str = 'none',
  out_dtype: DTypeLike | None = None,
  out_quant: OutQuant | tuple[float, int, int] | None = None,
  lowrank_input: str = 'float',
  implementation: str | None = None,
  block: tuple[int, int] | None = None,
  check: bool = False,
) -> jax.Array:
  """activation(x W + (x A) B + bias + residual), W staying packed.

  Differentiable once in x, the scales (and levels) of w, the scale of
  `act_quant`, A, B, bias and residual; rounding of x has the straight-through
  gradient. A mapped axis (`vmap`) of x is so many more rows; one of w, as of
  experts, is an axis of the kernel's grid.

  Args:
    x: `[..., K]` float; or with `act_quant` integer codes from 0 to 2^bits - 1,
      and int8 codes with 2^(bits-1) subtracted, as `out_quant` leaves them.
    w: `[K, N]` packed weights. With `levels` there are no integer sums, and
      implementations are 'xla' and 'reference'.
    act_quant: how x becomes codes; None for a product of floats.
    lowrank: A `[K, r]` and B `[r, N]`.
    bias: `[N]`.
    residual: `[..., N]`.
    activation: one of `ACTIVATIONS`.
    out_dtype: of the result; None for that of a float x, else float32.
    out_quant: numbers (scale, zero, bits) that make the result int8 codes.
    lowrank_input: 'float' for x before it is rounded, 'codes' for after; codes
      have the latter only.
    implementation: one of `IMPLEMENTATIONS`; None takes what is fastest on the
      default device.
    block: rows and columns of a tile of the Pallas kernels.
    check: adds a `checkify` check that x has no nan where it becomes codes.

  Returns:
    `[..., N]`.

  Raises:
    ValueError: what does not fit, by the name of the argument.
    NotImplementedError: an implementation that does not work here.
  """
  x = x if isinstance(x, jax.Array) else jnp.asarray(x)
  kernels = _kernels(implementation, w, block)
  if activation not in ACTIVATIONS:
    known = ', '.join(ACTIVATIONS)
    raise ValueError(f'activation = {activation!r}: choose one of {known}.')
  if lowrank_input not in ('float', 'codes'):
    raise ValueError(
      f"lowrank_input = {lowrank_input!r}: choose 'float' or 'codes'."
    )
  _check_rows(x, w, act_quant)
  lead = x.shape[:-1]
  _check_extras(lead, w, lowrank, bias, residual)
  if check and act_quant is not None and jnp.issubdtype(x.dtype, jnp.floating):
    checkify.check(
      ~jnp.any(jnp.isnan(x)), 'x holds nan, which has no integer code.'
    )
  out_quant = None if out_quant is None else OutQuant(*out_quant)
  out_dtype = None if out_dtype is None else jnp.dtype(out_dtype)
  how = _finish(x.dtype, activation, out_dtype, out_quant)
  if 0 in (*lead, w.n, w.k):
    kernels = _kernels('xla', w, None)
  return _run(
    x, w, act_quant, lowrank, bias, residual, how, lowrank_input, kernels
  )


def matmul_nonuniform(
  x: jax.Array, w: PackedTensor, **options: Any
) -> jax.Array:
  """`quantized_matmul` with a codebook: values are looked up, not computed.

  Args:
    x: `[..., K]` float.
    w: `[K, N]` weights with `levels`.
    **options: of `quantized_matmul`, but `act_quant`.

  Returns:
    `[..., N]`.

  Raises:
    ValueError: as there, or weights without levels.
  """
  if w.levels is None:
    raise ValueError('w has no levels; quantized_matmul takes uniform codes.')
  return quantized_matmul(x, w, **options)


def backends() -> dict[str, str]:
  """Implementations: '' where one runs here, else why not."""
  return {name: _why_not(name) for name in IMPLEMENTATIONS}


@functools.partial(jax.jit, static_argnames=('how', 'lowrank_input', 'kernels'))
def _run(x, w, act, lowrank, bias, residual, how, lowrank_input, kernels):
  rows = to_rows(x, act)
  carrier = rows.x if act is None else fake_quantize(x, act)
  projected = second = None
  if lowrank is not None:
    first, second = lowrank
    raw = jnp.issubdtype(x.dtype, jnp.integer) or lowrank_input == 'codes'
    given = carrier if raw else x.reshape(carrier.shape)
    projected = jnp.dot(
      given.astype(jnp.promote_types(given.dtype, jnp.float32)),
      first.astype(jnp.promote_types(first.dtype, jnp.float32)),
      precision='highest',
    )
  extras = Extras(
    projected,
    second,
    None if bias is None else bias[None],
    None if residual is None else residual.reshape(len(rows.x), w.n),
  )
  rows = jax.lax.stop_gradient(rows)
  y = adjoint.product(carrier, rows, w, extras, how, kernels)
  return y.reshape(*x.shape[:-1], w.n)


@functools.cache
def _is_a(dtype: Any, kind: Any) -> bool:
  return jnp.issubdtype(dtype, kind)


@functools.cache
def _finish(given, activation, out_dtype, out_quant) -> Finish:
  if out_quant is not None:
    if out_dtype is not None:
      raise ValueError('out_dtype and out_quant exclude each other; give one.')
    if not (out_quant.scale > 0 and 2 <= out_quant.bits <= 8):
      raise ValueError(
        f'out_quant = {tuple(out_quant)}: give a positive scale, a zero point, '
        'and 2 to 8 bits.'
      )
    return Finish(activation, 'int8', out_quant)
  if out_dtype is None:
    out_dtype = given if _is_a(given, jnp.floating) else jnp.float32
  if not jnp.issubdtype(out_dtype, jnp.floating):
    raise ValueError(
      f'out_dtype = {jnp.dtype(out_dtype)}: give a float type, or out_quant.'
    )
  return Finish(activation, jnp.dtype(out_dtype).name)


def _check_rows(x: jax.Array, w: PackedTensor, act: ActQuant | None) -> None:
  if x.ndim == 0 or x.shape[-1] != w.k:
    raise ValueError(
      f'x has the shape {x.shape}; its last axis is to be K = {w.k} of w.'
    )
  floating = _is_a(x.dtype, jnp.floating)
  integer = _is_a(x.dtype, jnp.integer)
  if not floating and not integer:
    raise ValueError(f'x is {x.dtype}; give floats or integer codes.')
  if act is None:
    if integer:
      raise ValueError(f'x is {x.dtype}; codes need act_quant.')
    return
  if w.levels is not None:
    raise ValueError('act_quant needs uniform codes; w has levels.')
  if not 2 <= act.bits <= 8:
    raise ValueError(f'act_quant has bits = {act.bits}; give 2 to 8.')
  if act.mode not in MODES:
    raise ValueError(
      f'act_quant has mode = {act.mode!r}; choose one of {", ".join(MODES)}.'
    )
  if act.mode == 'dynamic' and integer:
    raise ValueError(
      'act_quant is dynamic, which needs a float x; give a scale with codes.'
    )
  if act.mode != 'dynamic':
    _check_scale(x, act)
  if integer:
    _check_codes(x, act)
  if exact_limit(w, act.bits) >= 2**31:
    most = 2**31 // ((2**act.bits - 1) * (2**w.bits - 1))
    raise ValueError(
      f'group_size = {w.group_size} lets int32 sums overflow at {act.bits} x '
      f'{w.bits} bits; pack with groups of at most {most} rows.'
    )


def _check_scale(x: jax.Array, act: ActQuant) -> None:
  for name in ('scale', 'zero'):
    value = getattr(act, name)
    if value is None:
      raise ValueError(
        f"act_quant has no {name}, which only mode = 'dynamic' does without."
      )
    shape = jnp.shape(value)
    try:
      fits = jnp.broadcast_shapes(shape, x.shape[:-1]) == x.shape[:-1]
    except ValueError:
      fits = False
    if not fits or (act.mode == 'static' and name == 'scale' and shape):
      fits = act.mode == 'per_token' and fits
    if not fits:
      raise ValueError(
        f'act_quant has a {name} of shape {shape}, which in mode {act.mode!r} '
        f'does not fit the rows {x.shape[:-1]} of x.'
      )


def _check_codes(x: jax.Array, act: ActQuant) -> None:
  if isinstance(x, jax.core.Tracer) or not x.size:
    return
  shift = 2 ** (act.bits - 1) if x.dtype == jnp.int8 else 0
  low, high = -shift, 2**act.bits - 1 - shift
  least, most = int(x.min()), int(x.max())
  if least < low or most > high:
    raise ValueError(
      f'x holds {x.dtype} codes from {least} to {most}; {act.bits} bits have '
      f'{low} to {high} in this type.'
    )


def _check_extras(lead, w, lowrank, bias, residual) -> None:
  if lowrank is not None:
    first, second = map(jnp.shape, lowrank)
    fits = len(first) == len(second) == 2 and first[1] == second[0]
    if not fits or (first[0], second[1]) != (w.k, w.n):
      raise ValueError(
        f'lowrank has the shapes {first} and {second}; they are to be '
        f'({w.k}, r) and (r, {w.n}).'
      )
  for name, array, shape in (
    ('bias', bias, (w.n,)),
    ('residual', residual, (*lead, w.n)),
  ):
    if array is not None and jnp.shape(array) != shape:
      raise ValueError(
        f'{name} has the shape {jnp.shape(array)}; it is to be {shape}.'
      )


def _kernels(
  implementation: str | None, w: PackedTensor, block: Any
) -> Kernels:
  """The kernels of an implementation.

  Raises:
    ValueError: no such implementation, or a block that it cannot have.
    NotImplementedError: it does not work here.
  """
  if implementation is None:
    here = dispatch.default_platform()
    kernels = here in ('gpu', 'tpu') and w.levels is None
    implementation = 'pallas' if kernels else 'xla'
  if implementation not in IMPLEMENTATIONS:
    raise ValueError(
      f'implementation = {implementation!r}: choose one of '
      f'{", ".join(IMPLEMENTATIONS)}.'
    )
  if why := _why_not(implementation):
    raise NotImplementedError(
      f'implementation {implementation!r} does not run here ({why}); take '
      "'xla', or 'interpret' for a test of the kernel."
    )
  if w.levels is not None and implementation not in ('xla', 'reference'):
    raise NotImplementedError(
      f"implementation {implementation!r} has no codebooks; take 'xla'."
    )
  if block is not None:
    block = tuple(block)
    whole = len(block) == 2 and all(
      size >= 16 and size & (size - 1) == 0 for size in block
    )
    if not whole:
      raise ValueError(f'block = {block}: give two powers of 2 from 16 up.')
  return _loaded(implementation, dispatch.default_platform(), block)


# One object for each, since what is static is compared by identity.
@functools.cache
def _loaded(implementation: str, platform: str, block: Any) -> Kernels:
  if implementation == 'xla':
    return Kernels(xla.matmul, xla.transposed)
  if implementation == 'reference':
    return Kernels(reference.matmul, xla.transposed)
  name = _MODULES.get(implementation, f'pallas_{platform}')
  module = importlib.import_module(f'kernels_pallas.quantized_matmul.{name}')
  options: dict[str, Any] = {'block': block}
  if implementation.startswith('interpret'):
    options['interpret'] = True
  return Kernels(
    functools.partial(module.matmul, **options),
    functools.partial(module.transposed, **options),
  )


def _why_not(implementation: str) -> str:
  if implementation == 'pallas' and dispatch.default_platform() != 'tpu':
    return dispatch.why_not_on('gpu')
  if implementation == 'triton':
    return dispatch.why_not_on('gpu') or dispatch.why_missing(
      'triton', 'jax_triton'
    )
  return ''
