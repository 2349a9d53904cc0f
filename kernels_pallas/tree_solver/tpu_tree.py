"""Blocks of cells on a TPU, and their walk over the tree."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from kernels_pallas.lowering import pltpu
from kernels_pallas.tree_solver.schedule import TreeSchedule

BLOCK = 1024
"""Cells of a tile."""
VMEM_BYTES = 100 * 2**20
"""What a kernel may take of a core's 128 MiB."""


@dataclasses.dataclass(frozen=True)
class Tree:
  """The tree in SMEM, and the number of the block.

  Attributes:
    sequence: `[n]` int32: nodes in the order of elimination.
    parent: `[n]` int32.
    program: number of this block of cells.
    summed: the outputs that are sums over all blocks.
  """

  sequence: Any
  parent: Any
  program: jax.Array
  summed: frozenset[int]

  def up(self, visit: Callable) -> None:
    """`visit(node, parent)` for all nodes, children first."""
    self._loop(lambda k: k, visit)

  def down(self, visit: Callable) -> None:
    """`visit(node, parent)` for all nodes, parents first."""
    last = self.sequence.shape[0] - 1
    self._loop(lambda k: last - k, visit)

  def _loop(self, place: Callable, visit: Callable) -> None:
    def body(k, _):
      node = self.sequence[place(k)]
      visit(node, self.parent[node])

    count = self.sequence.shape[0]
    lax.fori_loop(jnp.int32(0), jnp.int32(count), body, None)

  def start(self, out: Any) -> None:
    """Clears an output that blocks add to."""
    if id(out) in self.summed:

      @pl.when(self.program == 0)
      def _():
        def clear(i, _):
          out[i] = jnp.zeros_like(out[i])

        self.up(clear)

  def add(self, out: Any, node: jax.Array, values: jax.Array) -> None:
    """Writes a tile, or adds it where the output is a sum over blocks."""
    out[node] = out[node] + values if id(out) in self.summed else values


def above_of(ref, parent):
  """The parent's tile; 0 above a root."""
  return jnp.where(parent >= 0, ref[jnp.maximum(parent, 0)], 0)


def band_of(ref, i, parent):
  """A node's off-diagonal, a scalar or a tile; 0 at a root."""
  return jnp.where(parent >= 0, ref[i], jnp.zeros_like(ref[i]))


def launch(
  name: str,
  kernel: Callable,
  schedule: TreeSchedule,
  arrays: Sequence[jax.Array],
  outs: Sequence[tuple[int, ...]],
  interpret: bool,
  ones: Sequence[int] = (),
) -> list[jax.Array]:
  """Runs a kernel; outputs `[n, 1]` come back summed over the batch.

  `ones` are the arrays whose padding is 1.
  """
  n, batch = arrays[-1].shape
  dtype = arrays[-1].dtype
  if dtype.itemsize > 4 and not interpret:
    raise ValueError(f'rhs is {dtype}: a TPU kernel takes float32')
  blocks = pl.cdiv(batch, BLOCK)
  shared = [a.shape[1] != batch for a in arrays]
  summed = [shape[1] != batch for shape in outs]
  buffers = _buffers(n, len(arrays) - sum(shared) + len(outs), dtype)
  mode = pl.Buffered(buffers)
  tile = pl.BlockSpec((n, 8, 128), lambda j, *_: (0, j, 0), pipeline_mode=mode)
  column = pl.BlockSpec(memory_space=pltpu.SMEM)
  total = pl.BlockSpec((n, 8, 128), lambda j, *_: (0, 0, 0), pipeline_mode=mode)

  def body(sequence, parent, *refs):
    out_refs = refs[-len(outs) :]
    added = (id(r) for r, s in zip(out_refs, summed, strict=True) if s)
    tree = Tree(sequence, parent, pl.program_id(0), frozenset(added))
    kernel(tree, *refs)

  found = pl.pallas_call(
    body,
    grid_spec=pltpu.PrefetchScalarGridSpec(
      num_scalar_prefetch=2,
      grid=(blocks,),
      in_specs=[column if s else tile for s in shared],
      out_specs=[total if s else tile for s in summed],
    ),
    out_shape=[
      jax.ShapeDtypeStruct((n, 8 if s else 8 * blocks, 128), dtype)
      for s in summed
    ],
    compiler_params=pltpu.CompilerParams(
      dimension_semantics=('arbitrary' if any(summed) else 'parallel',),
      vmem_limit_bytes=VMEM_BYTES,
    ),
    interpret=interpret,
    name=name,
  )(
    jnp.asarray(schedule.sequence),
    jnp.asarray(np.asarray(schedule.parent, np.int32)),
    *(
      a[:, 0] if s else _tiled(a, blocks, fill=int(k in ones))
      for k, (a, s) in enumerate(zip(arrays, shared, strict=True))
    ),
  )
  return [
    jnp.sum(a, axis=(1, 2))[:, None] if s else a.reshape(n, -1)[:, :batch]
    for a, s in zip(found, summed, strict=True)
  ]


def _tiled(array: jax.Array, blocks: int, fill: int) -> jax.Array:
  """`[n, 8 * blocks, 128]`: the cells, padded to whole tiles."""
  n, batch = array.shape
  padding = ((0, 0), (0, blocks * BLOCK - batch))
  padded = jnp.pad(array, padding, constant_values=fill)
  return padded.reshape(n, 8 * blocks, 128)


def _buffers(n: int, tiled: int, dtype: jnp.dtype) -> int:
  """2 where the next block can be fetched meanwhile, else 1.

  Raises:
    ValueError: if one block is too large.
  """
  size = n * tiled * BLOCK * dtype.itemsize
  if size > VMEM_BYTES:
    raise ValueError(
      f'n = {n}: a block of {tiled} arrays takes {size >> 20} MiB, more than'
      f" {VMEM_BYTES >> 20}; take implementation='xla'"
    )
  return 2 if 2 * size <= VMEM_BYTES else 1
