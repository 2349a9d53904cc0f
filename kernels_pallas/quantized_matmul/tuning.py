"""Search for the tiles that are fastest on the device that is here."""

import itertools
import statistics
import time
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from kernels_pallas.dispatch import default_platform
from kernels_pallas.quantized_matmul.activations import ActQuant
from kernels_pallas.quantized_matmul.api import quantized_matmul
from kernels_pallas.quantized_matmul.packing import PackedTensor

BLOCKS = {
  'gpu': tuple(itertools.product((16, 32, 64, 128), (32, 64, 128, 256))),
  'tpu': tuple(itertools.product((32, 64, 128, 256), (128, 256, 512))),
}
"""Rows and columns of tiles that are tried, by platform."""


def tune(
  w: PackedTensor,
  rows: Sequence[int],
  *,
  act_quant: ActQuant | None = None,
  dtype: DTypeLike = jnp.float32,
  implementation: str = 'pallas',
  blocks: Iterable[tuple[int, int]] | None = None,
  repeats: int = 9,
) -> list[dict[str, Any]]:
  """Times the product with tiles of several sizes.

  Args:
    w: the weights.
    rows: M, numbers of rows of activations.
    act_quant: of the activations.
    dtype: of the activations.
    implementation: one that has tiles; see `quantized_matmul`.
    blocks: rows and columns of the tiles; None for those of `BLOCKS`. Those for
      which a kernel does not compile are left out.
    repeats: calls of each, of which the median counts.

  Returns:
    For each M a record that JSON can hold: the device, what was multiplied,
    the fastest `block`, which `quantized_matmul` takes, and under `seconds`
    [rows, columns, seconds] of all that were tried, the fastest first.

  Raises:
    ValueError: if no tile of the list can be had.
    NotImplementedError: if the implementation does not work here.
  """
  if implementation in ('xla', 'reference'):
    raise ValueError(
      f"implementation = {implementation!r} has no tiles; take 'pallas' or "
      "'triton'."
    )
  if blocks is None:
    blocks = BLOCKS['tpu' if default_platform() == 'tpu' else 'gpu']
  blocks = [(bm, bn) for bm, bn in blocks]
  records = []
  for m in rows:
    x = jnp.ones((m, w.k), dtype)
    tried = []
    for block in blocks:
      call = _compiled(x, w, act_quant, implementation, block)
      if call is not None:
        tried.append([*block, _median_seconds(call, repeats)])
    if not tried:
      raise ValueError(f'blocks = {blocks}: none of them compiles here.')
    tried.sort(key=lambda row: row[2])
    records.append(
      {
        'device': jax.devices()[0].device_kind,
        'implementation': implementation,
        'bits': w.bits,
        'activation_bits': act_quant.bits if act_quant else None,
        'dtype': jnp.dtype(dtype).name,
        'm': m,
        'k': w.k,
        'n': w.n,
        'group_size': w.group_size,
        'block': tried[0][:2],
        'seconds': tried,
      }
    )
  return records


def _compiled(x, w, act_quant, implementation, block) -> Any:
  """A call that waits for its result; None where it does not compile."""

  @jax.jit
  def product(x, w):
    return quantized_matmul(
      x, w, act_quant=act_quant, implementation=implementation, block=block
    )

  try:
    compiled = product.lower(x, w).compile()
  except jax.errors.JaxRuntimeError:  # Too large for the device, mostly.
    return None

  def call():
    return jax.block_until_ready(compiled(x, w))

  call()
  return call


def _median_seconds(call: Any, repeats: int) -> float:
  seconds = []
  for _ in range(repeats):
    start = time.perf_counter()
    call()
    seconds.append(time.perf_counter() - start)
  return statistics.median(seconds)
