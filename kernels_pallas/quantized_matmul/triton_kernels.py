"""The Triton functions of `triton`; the output follows the inputs.

Bytes of `per` planes: a plane holds `span` rows of each block of `block` rows
of K. Where there are several groups, a block holds whole groups or a group
whole blocks. Arrays that there are not are given all the same, and not read.
"""

import triton
import triton.language as tl


@triton.jit
def _load(ref, rows, cols, m, n):
  """`[R, C]` of a row-major matrix `[m, n]`, 0 outside."""
  at = rows[:, None] * n + cols[None, :]
  mask = (rows[:, None] < m) & (cols[None, :] < n)
  return tl.load(ref + at, mask=mask, other=0)


@triton.jit
def _codes(
  low,
  high,
  place,
  plane,
  lanes,
  cols,
  n,
  bits: tl.constexpr,
  span: tl.constexpr,
):
  """`[T, C]` int32 stored codes of lanes of a plane of the block `place`."""
  mask = (lanes[:, None] < span) & (cols[None, :] < n)
  rows = (place * span + lanes)[:, None]
  if bits == 3:
    pair = (place * 2 + plane % 2) * span + lanes
    at = pair[:, None] * n + cols[None, :]
    wide = tl.load(low + at, mask=mask, other=0).to(tl.int32)
    top = tl.load(high + rows * n + cols[None, :], mask=mask, other=0)
    upper = (top.to(tl.int32) >> plane) & 1
    found = ((wide >> (plane // 2 * 2)) & 3) | (upper << 2)
  else:
    found = tl.load(low + rows * n + cols[None, :], mask=mask, other=0)
    found = found.to(tl.int32)
    if bits != 8:
      found = (found >> (plane * bits)) & ((1 << bits) - 1)
  return found


@triton.jit
def _multiplied(
  total,
  x,
  codes,
  zero,
  rows,
  first,
  lanes,
  end,
  m,
  k,
  integer: tl.constexpr,
):
  """Adds the product of columns `first + lanes` of x, up to `end`."""
  cols = tl.where(lanes < end, first + lanes, k)
  left = _load(x, rows, cols, m, k)
  if integer:
    return tl.dot(left, codes.to(tl.int8), total, out_dtype=tl.int32)
  right = (codes - zero).to(left.dtype)
  return tl.dot(left, right, total, input_precision='ieee')


@triton.jit
def _activated(y, activation: tl.constexpr):
  if activation == 'relu':
    y = tl.where(y < 0, 0.0, y)
  elif activation == 'silu':
    y = y / (1 + tl.exp(-y))
  elif activation == 'gelu_tanh':
    u = 0.7978845608028654 * (y + 0.044715 * y * y * y)
    y = y / (1 + tl.exp(-2 * u))
  elif activation == 'gelu_erf':
    y = 0.5 * y * (1 + tl.erf(y * 0.7071067811865476))
  return y


@triton.jit
def _added(
  y,
  projected,
  second,
  bias,
  residual,
  rows,
  cols,
  m,
  n,
  rank: tl.constexpr,
  lanes_of_rank: tl.constexpr,
  has_bias: tl.constexpr,
  has_residual: tl.constexpr,
):
  """Adds low rank, bias and residual."""
  if rank > 0:
    inner = tl.arange(0, lanes_of_rank)
    left = _load(projected, rows, inner, m, rank).to(tl.float32)
    right = _load(second, inner, cols, rank, n).to(tl.float32)
    y += tl.dot(left, right, input_precision='ieee')
  if has_bias:
    y += _load(bias, tl.arange(0, 1), cols, 1, n).to(tl.float32)
  if has_residual:
    y += _load(residual, rows, cols, m, n).to(tl.float32)
  return y


@triton.jit
def _rounded(y, scale: tl.constexpr, zero: tl.constexpr, bits: tl.constexpr):
  """Codes, less half of what there are."""
  # Adding and taking off 1.5 * 2^23 rounds half to even.
  small = tl.minimum(tl.maximum(y / scale, -65536.0), 65536.0)
  whole = (small + 12582912.0) - 12582912.0 + zero
  whole = tl.minimum(tl.maximum(whole, 0.0), (1 << bits) - 1.0)
  return whole - (1 << (bits - 1))


@triton.jit
def matmul(
  x,
  row_scale,
  row_zero,
  row_sum,
  low,
  high,
  scale,
  zero,
  colsum,
  projected,
  second,
  bias,
  residual,
  out,
  m: tl.constexpr,
  k: tl.constexpr,
  n: tl.constexpr,
  bits: tl.constexpr,
  groups: tl.constexpr,
  group_size: tl.constexpr,
  block: tl.constexpr,
  per: tl.constexpr,
  piece: tl.constexpr,
  tile: tl.constexpr,
  bm: tl.constexpr,
  bn: tl.constexpr,
  rank: tl.constexpr,
  lanes_of_rank: tl.constexpr,
  has_bias: tl.constexpr,
  has_residual: tl.constexpr,
  integer: tl.constexpr,
  activation: tl.constexpr,
  out_scale: tl.constexpr,
  out_zero: tl.constexpr,
  out_bits: tl.constexpr,
):
  """A tile of the finished product.

  `piece` rows share a plane and a group; `tile` lanes of them are multiplied
  at a time.
  """
  span: tl.constexpr = block // per
  rows = tl.program_id(0) * bm + tl.arange(0, bm)
  cols = tl.program_id(1) * bn + tl.arange(0, bn)
  steps = tl.arange(0, tile)
  one = tl.arange(0, 1)
  y = tl.full((bm, bn), 0, tl.float32)
  blocks: tl.constexpr = (k + block - 1) // block
  for group in range(groups):
    own = _load(zero, group + one, cols, groups, n)
    total = tl.full((bm, bn), 0, tl.int32 if integer else tl.float32)
    if groups == 1 or group_size % block == 0:
      each = blocks // groups
      for place in range(group * each, (group + 1) * each):
        for start in range(0, span, tile):
          lanes = start + steps
          for plane in tl.static_range(per):
            codes = _codes(low, high, place, plane, lanes, cols, n, bits, span)
            first = place * block + plane * span
            total = _multiplied(
              total, x, codes, own, rows, first, lanes, span, m, k, integer
            )
    else:
      for begin in range(group * group_size, (group + 1) * group_size, piece):
        place = begin // block
        plane = begin % block // span
        offset = begin % block % span
        for start in range(0, piece, tile):
          lanes = offset + start + steps
          end = offset + piece
          codes = _codes(low, high, place, plane, lanes, cols, n, bits, span)
          first = place * block + plane * span
          total = _multiplied(
            total, x, codes, own, rows, first, lanes, end, m, k, integer
          )
    factor = _load(scale, group + one, cols, groups, n)
    if integer:
      by_row = _load(row_zero, rows, one, m, 1)
      sums = _load(row_sum, rows, group + one, m, groups)
      columns = _load(colsum, group + one, cols, groups, n)
      total = total - by_row * columns - own * sums
      factor = _load(row_scale, rows, one, m, 1) * factor
    y += total.to(tl.float32) * factor
  y = _added(
    y,
    projected,
    second,
    bias,
    residual,
    rows,
    cols,
    m,
    n,
    rank,
    lanes_of_rank,
    has_bias,
    has_residual,
  )
  y = _activated(y, activation)
  if out_bits is not None:
    y = _rounded(y, out_scale, out_zero, out_bits)
  mask = (rows[:, None] < m) & (cols[None, :] < n)
  at = rows[:, None] * n + cols[None, :]
  tl.store(out + at, y.to(out.dtype.element_ty), mask=mask)


@triton.jit
def transposed(
  cotangent,
  low,
  high,
  scale,
  zero,
  out,
  m: tl.constexpr,
  k: tl.constexpr,
  n: tl.constexpr,
  bits: tl.constexpr,
  groups: tl.constexpr,
  group_size: tl.constexpr,
  block: tl.constexpr,
  per: tl.constexpr,
  tile: tl.constexpr,
  bm: tl.constexpr,
  bn: tl.constexpr,
):
  """A tile of the product with the transposed weights, of lanes of a plane."""
  span: tl.constexpr = block // per
  tiles: tl.constexpr = (span + tile - 1) // tile
  rows = tl.program_id(0) * bm + tl.arange(0, bm)
  lanes = tl.program_id(1) % tiles * tile + tl.arange(0, tile)
  plane = tl.program_id(1) // tiles % per
  place = tl.program_id(1) // (tiles * per)
  own = place * block + plane * span + lanes
  own = tl.where(lanes < span, own, k)
  group = tl.minimum(own // group_size, groups - 1)
  y = tl.full((bm, tile), 0, tl.float32)
  for start in range(0, n, bn):
    cols = start + tl.arange(0, bn)
    codes = _codes(low, high, place, plane, lanes, cols, n, bits, span)
    steps = codes - _load(zero, group, cols, groups, n)
    values = steps.to(tl.float32) * _load(scale, group, cols, groups, n)
    bar = _load(cotangent, rows, cols, m, n).to(tl.float32)
    y = tl.dot(bar, tl.trans(values), y, input_precision='ieee')
  mask = (rows[:, None] < m) & (own[None, :] < k)
  at = rows[:, None] * k + own[None, :]
  tl.store(out + at, y.to(out.dtype.element_ty), mask=mask)
