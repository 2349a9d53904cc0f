"""Cells of one GPU program, and its walk through the steps of a schedule."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from kernels_pallas.lowering import plt
from kernels_pallas.tree_solver.schedule import KernelTables, TreeSchedule


@dataclasses.dataclass(frozen=True)
class Negative:
  """A band that is stored with the other sign."""

  ref: Any


@dataclasses.dataclass(frozen=True)
class Tile:
  """The cells of one program, and its walk over the tree.

  Row indices are `[W, 1]`; n, the index of no node, reads as 0 and is not
  written. `[n, 1]` arrays are shared by the cells; written to an output with a
  column for each program, values are summed over the program's cells.
  """

  tables: KernelTables
  n: int
  batch: int
  program: jax.Array
  cells: jax.Array
  summed: frozenset[int]
  barrier: Callable[[], None]

  def read(self, ref: Any, rows: jax.Array, other: float = 0) -> jax.Array:
    """`[W, cells]` values of these rows."""
    if isinstance(ref, Negative):
      return -self.read(ref.ref, rows)
    shared = ref.shape[1] == 1
    cells = jnp.zeros((1, 1), jnp.int32) if shared else self.cells
    index = jnp.broadcast_arrays(rows, cells)
    mask = (index[0] < self.n) & (index[1] < self.batch)
    values = plt.load(ref.at[tuple(index)], mask=mask, other=other)
    return jnp.broadcast_to(values, (rows.shape[0], self.cells.shape[1]))

  def write(self, ref: Any, rows: jax.Array, values: jax.Array) -> None:
    """Writes `[W, cells]` values, or their sums."""
    cells, limit = self.cells, self.batch
    if id(ref) in self.summed:
      values = jnp.where(cells < self.batch, values, 0)
      values = jnp.sum(values, axis=1, keepdims=True)
      limit = ref.shape[1]
      cells = jnp.full((1, 1), self.program, jnp.int32)
    index = jnp.broadcast_arrays(rows, cells)
    mask = (index[0] < self.n) & (index[1] < limit)
    plt.store(ref.at[tuple(index)], values, mask=mask)

  def up(self, visit: Callable) -> None:
    """Visits all steps, children first: `visit(rows, parents, pull)`."""

    def step(s, _):
      def pull(body, carry):
        def row(r, carry):
          return body(self.tables.children[r, :][:, None], carry)

        bounds = self.tables.first[s], self.tables.first[s + 1]
        return lax.fori_loop(*bounds, row, carry)

      visit(*self._nodes(s), pull)
      self.barrier()

    self._loop(step)

  def down(self, visit: Callable) -> None:
    """Visits all steps, parents first: `visit(rows, parents)`."""
    last = self.tables.nodes.shape[0] - 1

    def step(s, _):
      visit(*self._nodes(last - s))
      self.barrier()

    self._loop(step)

  def _nodes(self, s) -> tuple[Any, Any]:
    nodes, parents = self.tables.nodes, self.tables.parents
    return nodes[s, :][:, None], parents[s, :][:, None]

  def _loop(self, step: Callable) -> None:
    steps = self.tables.nodes.shape[0]
    lax.fori_loop(jnp.int32(0), jnp.int32(steps), step, None)

  def inner(self, rows: jax.Array, parents: jax.Array) -> jax.Array:
    """The rows of nodes with a parent: bands are not read at a root."""
    return jnp.where(parents < self.n, rows, self.n)


def block_sizes(n: int, width: int, batch: int) -> tuple[int, int, int]:
  """Cells of a program, programs, and warps of a program.

  A single lane takes 128 cells, so that each thread has its own; else 32 cells
  fill the memory transactions of a warp. Few cells make small programs.

  Raises:
    ValueError: if the kernels' 32-bit offsets cannot reach the last number.
  """
  if n * batch >= 2**31:
    raise ValueError(
      f'n * B = {n} * {batch} is above 2^31 - 1; solve the batch in parts'
    )
  most = 128 if width == 1 else 32
  block = max(32 // width, min(most, pl.next_power_of_2(batch)))
  return block, pl.cdiv(batch, block), min(4, width * block // 32)


def launch(
  name: str,
  kernel: Callable,
  schedule: TreeSchedule,
  arrays: Sequence[jax.Array],
  outs: Sequence[tuple[int, ...]],
  interpret: bool,
) -> list[jax.Array]:
  """Runs a kernel; outputs `[n, 1]` come back summed over the batch.

  The last array tells the batch: it is `[n, B]`.
  """
  batch = arrays[-1].shape[1]
  tables = schedule.gpu_tables
  width = tables.nodes.shape[1]
  block, blocks, warps = block_sizes(schedule.n, width, batch)
  summed = [k for k, shape in enumerate(outs) if shape[1] != batch]

  def body(*refs):
    table_refs = KernelTables(*refs[: len(tables)])
    out_refs = refs[-len(outs) :]
    program = pl.program_id(0)
    tile = Tile(
      table_refs,
      schedule.n,
      batch,
      program,
      program * block + jnp.arange(block, dtype=jnp.int32)[None, :],
      frozenset(id(out_refs[k]) for k in summed),
      (lambda: None) if interpret else plt.debug_barrier,
    )
    kernel(tile, *refs[len(tables) :])

  found = pl.pallas_call(
    body,
    grid=(blocks,),
    out_shape=[
      jax.ShapeDtypeStruct(
        (shape[0], blocks if k in summed else batch), arrays[-1].dtype
      )
      for k, shape in enumerate(outs)
    ],
    compiler_params=plt.CompilerParams(num_warps=warps, num_stages=1),
    interpret=interpret,
    name=name,
  )(*map(jnp.asarray, tables), *arrays)
  return [
    jnp.sum(array, axis=1, keepdims=True) if k in summed else array
    for k, array in enumerate(found)
  ]
