"""The result: packed weights, and the two ways of running them."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab import errors
from jaxlab.quantization import operators, quantizers, sites
from jaxlab.quantization.network import Plan
from jaxlab.quantization.types import (
  Activation,
  Linear,
  Operand,
  Site,
  States,
)
from kernels_pallas import quantized_matmul as qm
from kernels_pallas.quantized_matmul import packing

MODES = ('fake', 'integer')


@functools.partial(
  jax.tree_util.register_dataclass,
  data_fields=[
    *('weights', 'bias', 'scale', 'offset', 'levels', 'shift', 'divide'),
    *('signs', 'part', 'first', 'second', 'offset_row'),
  ],
  meta_fields=['per_token'],
)
@dataclasses.dataclass(frozen=True)
class PackedLinear:
  """A linear site as it is stored.

  Attributes:
    weights: packed `[K, N]`; for groups `[K, N]` of each column's own group.
    bias: `[N]`.
    scale: `[]` step of activations.
    offset: `[]` value of their code 0.
    levels: `[2^bits]` of activations in a codebook, else None.
    shift: `[C]` subtracted from the input, or None.
    divide: `[C]` that divide the input, or None.
    signs: `[C]` int8 of its rotation, or None where there is none.
    part: `[N]` what half-integer zero points add for each unit of the sum of
      the coded input, or None.
    first: `[K, q]` first low-rank factor, or None.
    second: `[q, N]`.
    offset_row: `[N]` what the offset of activations adds for each unit of r.
    per_token: whether each token is divided by its root mean square r.
  """

  weights: qm.PackedTensor
  bias: jax.Array
  scale: jax.Array
  offset: jax.Array
  levels: jax.Array | None
  shift: jax.Array | None
  divide: jax.Array | None
  signs: jax.Array | None
  part: jax.Array | None
  first: jax.Array | None
  second: jax.Array | None
  offset_row: jax.Array
  per_token: bool


@functools.partial(
  jax.tree_util.register_dataclass,
  data_fields=['sites', 'params'],
  meta_fields=['plan'],
)
@dataclasses.dataclass(frozen=True)
class QuantModel:
  """A quantized network: a tree of arrays beside its static plan.

  Attributes:
    sites: `PackedLinear` or `Activation` by name, for each block.
    params: what stays in float, for each block.
    plan: blocks and sites.
  """

  sites: tuple[dict[str, Any], ...]
  params: tuple[Any, ...]
  plan: Plan


def stored_bits(bits: int) -> int:
  """Bits that a code takes in memory: the next of 2, 3, 4, 8."""
  return next(b for b in (2, 3, 4, 8) if b >= bits)


def pack_block(rows: int, bits: int, most: int = 256) -> int:
  """Rows of a block that leaves as few rows as can be to fill up."""
  unit = packing.UNIT[bits]
  whole = -(-rows // unit)  # units
  count = max(c for c in range(1, most // unit + 1) if whole % c == 0)
  return count * unit


def pack_model(
  plan: Plan, params: Sequence[Any], states: Sequence[States]
) -> QuantModel:
  """Packs what was learned; not to be traced.

  Args:
    plan: the network.
    params: of its blocks.
    states: of its sites.
  """
  packed = tuple(
    {
      site.name: _packed(site, group[site.name])
      for site in plan_sites
      if site.name in group
    }
    for plan_sites, group in zip(plan.sites, states, strict=True)
  )
  # Blocks that are functions of one tree share what is left of it.
  names: dict[int, list[str]] = {}
  for own, group in zip(params, states, strict=True):
    linear = [n for n, s in group.items() if isinstance(s, Linear)]
    names.setdefault(id(own), []).extend(linear)
  rest = {id(own): _without(own, names[id(own)]) for own in params}
  return QuantModel(packed, tuple(rest[id(own)] for own in params), plan)


def _packed(site: Site, state: Linear | Operand) -> Any:
  """A site as it is stored; all in NumPy, where nothing is compiled."""
  state = jax.device_get(state)
  if isinstance(state, Operand):
    return _plain_act(state.act)
  up = (state.soft >= 0) & (state.high > state.low)
  codes = state.code + up.astype(np.uint8)
  value = np.where(up, state.high, state.low) * np.exp(state.log_gain)
  scale = state.scale * np.exp(state.log_gain)
  bits = stored_bits(site.w_bits)
  zero, levels, part = None, None, None
  if state.levels is not None:
    missing = 2**bits - state.levels.shape[1]
    levels = np.pad(state.levels, ((0, 0), (0, missing)), mode='edge')[None]
  else:
    whole = np.clip(np.floor(state.zero), 0, 2**bits - 1)
    zero = whole[None].astype(np.uint8)
    # s (q - z) = s (q - floor z) - s (z - floor z): a product of rank 1.
    part = -scale * (state.zero - whole)
    part = part if part.any() else None
  weights = qm.pack(
    codes,
    bits=bits,
    scale=scale[None],
    zero=zero,
    levels=levels,
    pack_block=pack_block(site.rows, bits),
  )
  act, transform = _plain_act(state.act), state.transform
  total = np.sum(value, axis=0)
  if state.first is not None:
    total += np.sum(state.first, axis=0) @ state.second
  row = act.offset * total if act.levels is None else 0 * total
  return PackedLinear(
    weights=weights,
    bias=state.bias,
    scale=act.scale,
    offset=act.offset,
    levels=act.levels,
    shift=transform.shift if transform.shift.any() else None,
    divide=transform.scale if (transform.scale != 1).any() else None,
    signs=transform.signs.astype(np.int8) if transform.rotate else None,
    part=part,
    first=state.first,
    second=state.second,
    offset_row=row,
    per_token=bool(transform.per_token),
  )


def _plain_act(act: Activation) -> Activation:
  """The codes without what is not used."""
  levels = None if act.levels is None or act.uniform else act.levels
  return act._replace(levels=levels)


def _without(params: Any, names: Sequence[str]) -> Any:
  """Parameters without those of modules that are replaced."""
  if not isinstance(params, Mapping):
    return params
  inner = params.get('params', params)
  if isinstance(params.get('params'), Mapping):
    return {**params, 'params': _without(inner, names)}
  found: dict[str, Any] = {}
  for name, value in params.items():
    below = [n[len(name) + 1 :] for n in names if n.startswith(f'{name}/')]
    if name in names:
      continue
    found[name] = _without(value, below) if below else value
  return found


@functools.partial(jax.jit, static_argnames=('mode', 'implementation'))
def apply(
  model: QuantModel,
  x: jax.Array,
  mode: str = 'fake',
  *,
  implementation: str | None = None,
) -> jax.Array:
  """Logits of a quantized network.

  Args:
    model: from `quantize_model`.
    x: input of the network.
    mode: 'fake', where weights are unpacked and all products are of floats;
      or 'integer', where sites with weights on uniform grids multiply codes
      by `kernels_pallas.quantized_matmul`. Products of two activations, and
      sites that have codebooks for activations, multiply the rounded values.
    implementation: of the kernel.

  Returns:
    What the last block gives.

  Raises:
    UserError: if the mode is unknown.
  """
  if mode not in MODES:
    raise errors.UserError(f'mode = {mode!r}: choose one of fake, integer.')
  for block, own, plan_sites, packed in zip(
    model.plan.blocks, model.params, model.plan.sites, model.sites, strict=True
  ):
    x = _block(block, own, plan_sites, packed, x, mode, implementation)
  return x


def _block(block, own, plan_sites, packed, x, mode, implementation):
  by_name = {site.name: site for site in plan_sites}

  def replace(module, name, value, original):
    if name not in packed:
      return original()
    site, state = by_name[name], packed[name]
    if isinstance(state, Activation):
      return operators.coded(state, value, site.a_bits)
    return linear(site, state, value, mode, implementation)

  return sites.intercepted(block, own, x, replace)


def linear(
  site: Site,
  state: PackedLinear,
  x: jax.Array,
  mode: str = 'fake',
  implementation: str | None = None,
) -> jax.Array:
  """What a packed site gives for the input x of the network's layer."""
  x = operators.pad(site, x)
  x = x if state.shift is None else x - state.shift
  x = x if state.divide is None else x / state.divide
  if state.signs is not None:
    x = operators.rotate(x, state.signs.astype(x.dtype))
  size: Any = 1
  if state.per_token:
    size = operators.token_size(x)
    x = x / size
  if state.levels is not None or state.weights.levels is not None:
    y = _from_codebooks(site, state, x)
  else:
    y = _whole(site, state, x, mode, implementation)
  return size * (y + state.offset_row) + state.bias


def _has_kernel(site: Site) -> bool:
  """Whether the kernel multiplies codes at such a site."""
  return (
    site.a_bits > 1
    and site.groups == 1
    and set(site.dilation) <= {1}
    and len(site.window) in (0, 2)
  )


def _codes(site, state, x):
  """Codes of x, as floats, by one formula for both modes.

  A compiler may divide by multiplying with a reciprocal, which moves ties.
  """
  place = (x - state.offset) * (1 / state.scale)
  return jnp.clip(jnp.round(place), 0, quantizers.top_code(site.a_bits))


def _whole(site, state, x, mode, implementation):
  """(x - offset) W from sums of codes, which both modes give exactly.

  All that is rounded comes after the sums and is written once, and nowhere is
  a product added to a product, which a compiler may fuse in two ways: else a
  code of a later layer could fall to the other side of a tie in one mode.
  """
  codes, weights = _codes(site, state, x), state.weights
  steps = dataclasses.replace(weights, scale=jnp.ones_like(weights.scale))
  if mode == 'integer' and _has_kernel(site):
    sums = _kernel(site, codes.astype(jnp.uint8), steps, implementation)
  else:
    plain = qm.dequantize(steps, x.dtype)
    plain += _part_of_groups(site, state) / weights.scale[0]
    sums = operators.product(site, codes, plain)
  sums = sums.astype(x.dtype) + _part_of_all(site, state, codes)
  y = state.scale * weights.scale[0] * sums
  return y + _low_rank(site, state, codes)


def _low_rank(site, state, codes):
  """What the compensation adds."""
  if state.first is None:
    return 0
  narrow = dataclasses.replace(site, columns=state.first.shape[1])
  scaled = operators.product(narrow, state.scale * codes, state.first)
  return scaled @ state.second


def _part_of_all(site, state, codes):
  """What half-integer zero points add to sums of codes, exactly."""
  if state.part is None or site.groups > 1:
    return 0
  narrow = dataclasses.replace(site, columns=1)
  ones = jnp.ones((site.rows, 1), codes.dtype)
  sums = operators.product(narrow, codes, ones)
  return sums * (state.part / state.weights.scale[0])


def _from_codebooks(site, state, x):
  """(x - offset) W where levels are looked up."""
  uniform = state.levels is None
  act = Activation(
    state.scale,
    0 * state.offset if uniform else state.offset,
    state.levels,
    jnp.asarray(uniform),
    jnp.ones((), bool),
  )
  codes = operators.coded(act, x - state.offset if uniform else x, site.a_bits)
  weights = qm.dequantize(state.weights, x.dtype)
  weights += _part_of_groups(site, state)
  y = operators.product(site, codes, weights)
  if state.part is not None:
    y += state.weights.scale[0] * _part_of_all(site, state, codes)
  alone = dataclasses.replace(state, scale=jnp.ones_like(state.scale))
  return y + _low_rank(site, alone, codes)


def _part_of_groups(site, state):
  """What half-integer zero points add to weights of a convolution in groups.

  Their columns do not share an input, so that the product is not of rank 1.
  """
  return 0 if site.groups == 1 or state.part is None else state.part


def _kernel(site, codes, steps, implementation):
  """Sums of codes by the kernel."""
  one = jnp.ones((), steps.scale.dtype)
  act = qm.ActQuant(one, jnp.zeros((), jnp.int32), site.a_bits)
  options = {'act_quant': act, 'implementation': implementation}
  if site.kind == 'dense':
    return qm.quantized_matmul(codes, steps, **options)
  return qm.quantized_conv(
    codes,
    steps,
    kernel_size=site.window,
    strides=site.strides,
    padding='VALID',
    **options,
  )


def stored_bytes(model: QuantModel) -> dict[str, int]:
  """Bytes of a quantized network, by what they are for.

  Returns:
    `codes`, `scales` (of weights, with their zero points and codebooks),
    `compensation`, `other` (biases, transforms, steps of activations),
    `float` (parameters that are not quantized) and `total`.
  """
  found = dict.fromkeys(
    ('codes', 'scales', 'compensation', 'other', 'float'), 0
  )
  for group in model.sites:
    for state in group.values():
      if isinstance(state, Activation):
        found['other'] += _bytes((state.scale, state.offset, state.levels))
        continue
      codes = _bytes(state.weights.data)
      found['codes'] += codes
      found['scales'] += qm.nbytes(state.weights) - codes
      found['compensation'] += _bytes((state.first, state.second))
      kept = dataclasses.replace(state, weights=None, first=None, second=None)
      found['other'] += _bytes(kept)
  found['float'] = _bytes(model.params)
  return found | {'total': sum(found.values())}


def _bytes(tree: Any) -> int:
  shared = {id(x): x for x in jax.tree.leaves(tree)}
  return sum(x.size * x.dtype.itemsize for x in shared.values())
