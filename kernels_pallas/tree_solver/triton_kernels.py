"""The Triton functions of `triton`; outputs follow the inputs.

Tables and masks as in `gpu_tile`: row n is no node, and is neither read nor
written.
"""

import triton
import triton.language as tl


@triton.jit
def _read(
  ref, rows, cells, n, batch, shared: tl.constexpr, other: tl.constexpr
):
  """Values of rows `[W, 1]` and cells `[1, C]`; `other` where there is none."""
  if shared:
    values = tl.load(ref + rows, mask=rows < n, other=other)
  else:
    mask = (rows < n) & (cells < batch)
    values = tl.load(ref + rows * batch + cells, mask=mask, other=other)
  return values


@triton.jit
def _write(ref, rows, cells, n, batch, values):
  mask = (rows < n) & (cells < batch)
  tl.store(ref + rows * batch + cells, values, mask=mask)


@triton.jit
def _add(a, b):
  return a + b


@triton.jit
def _write_band(
  ref, rows, cells, n, batch, blocks, values, shared: tl.constexpr
):
  """Writes values, or their sum over the program's cells."""
  if shared:
    inside = tl.where(cells < batch, values, 0.0)
    total = tl.reduce(inside, 1, _add, keep_dims=True)
    tl.store(ref + rows * blocks + tl.program_id(0), total, mask=rows < n)
  else:
    _write(ref, rows, cells, n, batch, values)


@triton.jit
def _eliminate_rhs(
  nodes,
  children,
  first,
  inverse,
  side,
  rhs,
  x,
  cells,
  n: tl.constexpr,
  batch: tl.constexpr,
  steps: tl.constexpr,
  width: tl.constexpr,
  side_shared: tl.constexpr,
):
  lanes = tl.arange(0, width)
  for s in range(steps):
    rows = tl.load(nodes + s * width + lanes)[:, None]
    b = _read(rhs, rows, cells, n, batch, False, 0.0)
    for r in range(tl.load(first + s), tl.load(first + s + 1)):
      child = tl.load(children + r * width + lanes)[:, None]
      u = _read(side, child, cells, n, batch, side_shared, 0.0)
      b -= u * _read(x, child, cells, n, batch, False, 0.0)
    pivot = _read(inverse, rows, cells, n, batch, False, 0.0)
    _write(x, rows, cells, n, batch, b * pivot)
    tl.debug_barrier()


@triton.jit
def solve(
  nodes,
  parents,
  children,
  first,
  diag,
  lower,
  upper,
  rhs,
  x,
  inverse,
  factor,
  n: tl.constexpr,
  batch: tl.constexpr,
  steps: tl.constexpr,
  width: tl.constexpr,
  block: tl.constexpr,
  lower_shared: tl.constexpr,
  upper_shared: tl.constexpr,
):
  """A x = rhs; leaves 1 / d, and the factors where they are asked for."""
  lanes = tl.arange(0, width)
  cells = (tl.program_id(0) * block + tl.arange(0, block))[None, :]
  for s in range(steps):
    rows = tl.load(nodes + s * width + lanes)[:, None]
    d = _read(diag, rows, cells, n, batch, False, 1.0)
    b = _read(rhs, rows, cells, n, batch, False, 0.0)
    for r in range(tl.load(first + s), tl.load(first + s + 1)):
      child = tl.load(children + r * width + lanes)[:, None]
      u = _read(upper, child, cells, n, batch, upper_shared, 0.0)
      own = u * _read(lower, child, cells, n, batch, lower_shared, 0.0)
      d -= own * _read(inverse, child, cells, n, batch, False, 0.0)
      b -= u * _read(x, child, cells, n, batch, False, 0.0)
    _write(inverse, rows, cells, n, batch, 1 / d)
    _write(x, rows, cells, n, batch, b / d)
    if factor is not None:
      above = tl.load(parents + s * width + lanes)[:, None]
      inner = tl.where(above < n, rows, n)
      u = _read(upper, inner, cells, n, batch, upper_shared, 0.0)
      _write(factor, rows, cells, n, batch, u / d)
    tl.debug_barrier()
  _substitute(
    nodes,
    parents,
    inverse,
    lower,
    x,
    cells,
    n,
    batch,
    steps,
    width,
    lower_shared,
    True,
  )


@triton.jit
def _substitute(
  nodes,
  parents,
  inverse,
  back,
  x,
  cells,
  n: tl.constexpr,
  batch: tl.constexpr,
  steps: tl.constexpr,
  width: tl.constexpr,
  back_shared: tl.constexpr,
  scale: tl.constexpr,
):
  lanes = tl.arange(0, width)
  for t in range(steps):
    place = (steps - 1 - t) * width + lanes
    rows = tl.load(nodes + place)[:, None]
    above = tl.load(parents + place)[:, None]
    inner = tl.where(above < n, rows, n)
    own = _read(back, inner, cells, n, batch, back_shared, 0.0)
    if scale:
      own = own * _read(inverse, rows, cells, n, batch, False, 0.0)
    mine = _read(x, rows, cells, n, batch, False, 0.0)
    mine -= own * _read(x, above, cells, n, batch, False, 0.0)
    _write(x, rows, cells, n, batch, mine)
    tl.debug_barrier()


@triton.jit
def resolve(
  nodes,
  parents,
  children,
  first,
  inverse,
  side,
  back,
  rhs,
  x,
  n: tl.constexpr,
  batch: tl.constexpr,
  steps: tl.constexpr,
  width: tl.constexpr,
  block: tl.constexpr,
  side_shared: tl.constexpr,
  back_shared: tl.constexpr,
  scale: tl.constexpr,
):
  """A x = rhs with pivots; `side` couples to the parent, `back` from it."""
  cells = (tl.program_id(0) * block + tl.arange(0, block))[None, :]
  _eliminate_rhs(
    nodes,
    children,
    first,
    inverse,
    side,
    rhs,
    x,
    cells,
    n,
    batch,
    steps,
    width,
    side_shared,
  )
  _substitute(
    nodes,
    parents,
    inverse,
    back,
    x,
    cells,
    n,
    batch,
    steps,
    width,
    back_shared,
    scale,
  )


@triton.jit
def backward(
  nodes,
  parents,
  children,
  first,
  inverse,
  factor,
  lower,
  x,
  cotangent,
  adjoint,
  diag_bar,
  lower_bar,
  upper_bar,
  n: tl.constexpr,
  batch: tl.constexpr,
  steps: tl.constexpr,
  width: tl.constexpr,
  block: tl.constexpr,
  blocks: tl.constexpr,
  lower_shared: tl.constexpr,
  upper_shared: tl.constexpr,
):
  """A^T adjoint = cotangent, and the products with x."""
  lanes = tl.arange(0, width)
  cells = (tl.program_id(0) * block + tl.arange(0, block))[None, :]
  _eliminate_rhs(
    nodes,
    children,
    first,
    inverse,
    lower,
    cotangent,
    adjoint,
    cells,
    n,
    batch,
    steps,
    width,
    lower_shared,
  )
  for t in range(steps):
    place = (steps - 1 - t) * width + lanes
    rows = tl.load(nodes + place)[:, None]
    parent = tl.load(parents + place)[:, None]
    above = _read(adjoint, parent, cells, n, batch, False, 0.0)
    mine = _read(adjoint, rows, cells, n, batch, False, 0.0)
    mine -= _read(factor, rows, cells, n, batch, False, 0.0) * above
    x_mine = _read(x, rows, cells, n, batch, False, 0.0)
    x_above = _read(x, parent, cells, n, batch, False, 0.0)
    _write(adjoint, rows, cells, n, batch, mine)
    _write(diag_bar, rows, cells, n, batch, -mine * x_mine)
    _write_band(
      lower_bar,
      rows,
      cells,
      n,
      batch,
      blocks,
      -mine * x_above,
      lower_shared,
    )
    _write_band(
      upper_bar,
      rows,
      cells,
      n,
      batch,
      blocks,
      -above * x_mine,
      upper_shared,
    )
    tl.debug_barrier()
