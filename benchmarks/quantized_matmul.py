"""Products with packed weights: python -m benchmarks.quantized_matmul.

On a CPU, on one core, in CPU time of a product, beside float32 products in XLA
of the same numbers. Other packages are in `quantized_matmul_peers`.
"""

import functools
import sys
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import cpu_time, quantized_matmul_peers, timing
from benchmarks.quantized_matmul_programs import (
  UNIT,
  Shape,
  activations,
  compare,
  near,
  program,
  weights,
)
from benchmarks.timing import Goal, Row
from jaxlab.dendrites import experiment_timing as timed
from kernels_pallas.quantized_matmul import (
  ActQuant,
  PackedTensor,
  dequantize,
  pack,
  quantized_matmul,
  unpack,
)

_FLOAT32 = f'XLA float32 x @ W, jax {jax.__version__}'
_BITS = (2, 3, 4, 8)
_MIDDLE = Shape(64, 1024, 1024)
_ORDER_TURNS = 5


def rows(quick: bool) -> Iterator[Row]:
  """Yields the rows, with fewer and smaller instances if `quick`."""
  with cpu_time.one_core():
    yield from _rows(quick)


def _rows(quick: bool) -> Iterator[Row]:
  shapes = [Shape(1, 1024, 1024), _MIDDLE]
  if not quick:
    shapes += [Shape(256, 512, 2048), Shape(1, 4096, 4096)]
  repeats = 5 if quick else 20
  for shape in shapes:
    yield from beside_float32(shape, repeats)
  yield call_overhead()
  yield epilogue(repeats)
  sizes = (512, 1024, 2048) if quick else (512, 1024, 2048, 4096)
  for axis in 'KN':
    yield growth(axis, sizes, repeats)
  for bits in (2, 4):
    yield codebook(bits)
  yield from quantized_matmul_peers.rows(quick)


def beside_float32(shape: Shape, repeats: int) -> Iterator[Row]:
  """Each width, with float activations and with codes."""
  x = activations(shape)
  for bits in _BITS:
    w = weights(shape, bits)
    act = ActQuant(np.float32(6 / 2**bits), 2 ** (bits - 1), bits)
    for name, act_quant in (('float x', None), (f'{bits}-bit x', act)):
      ours = functools.partial(quantized_matmul, act_quant=act_quant)
      given = x if act_quant is None else _rounded(x, act)
      yield compare(
        f'{bits}-bit W, {name}, {shape}',
        program(ours, x, w),
        program(jnp.matmul, given, dequantize(w)),
        _FLOAT32,
        near(1e-5),
        goal=cpu_time.at_most(_limit(shape.m, bits)),
        repeats=repeats,
      )


def call_overhead() -> Row:
  """What a call costs besides its compiled program."""
  shape = Shape(1, 64, 16)
  x, w = activations(shape), weights(shape, 4)
  compiled = program(quantized_matmul, x, w)
  eager = timed.Program(
    lambda: jax.block_until_ready(quantized_matmul(x, w)), 1
  )
  eager.call()
  whole, inner = timed.cpu_ns([eager, compiled], 9).min(axis=1) / 1e3
  return timing.measured(
    'A call of quantized_matmul, less its compiled program',
    *(float(whole - inner), UNIT),
    goal=cpu_time.up_to(30, UNIT),
    note=f'{whole:.1f} us with checks of its arguments, {inner:.1f} us without',
  )


def epilogue(repeats: int) -> Row:
  """Bias, activation and low rank beside the bare product."""
  rank, shape = 16, _MIDDLE
  x, w = activations(shape), weights(shape, 4)
  rng = np.random.default_rng(1)
  first, second, bias = (
    jnp.asarray(rng.normal(size=size), jnp.float32)
    for size in ((shape.k, rank), (rank, shape.n), (shape.n,))
  )

  def finished(x, w, first, second, bias):
    return quantized_matmul(
      x, w, lowrank=(first, second), bias=bias, activation='relu'
    )

  return compare(
    f'4-bit W, float x, {shape}: rank {rank}, bias and ReLU',
    program(finished, x, w, first, second, bias),
    program(quantized_matmul, x, w),
    'the product alone',
    goal=cpu_time.at_most(1.1),
    repeats=repeats,
  )


def growth(axis: str, sizes: tuple[int, ...], repeats: int) -> Row:
  """Log-log slope of the time over K or N."""
  programs = []
  for size in sizes:
    pair = (size, 1024) if axis == 'K' else (1024, size)
    shape = Shape(_MIDDLE.m, *pair)
    programs.append(
      program(quantized_matmul, activations(shape), weights(shape, 4))
    )
  taken = timed.cpu_ns(programs, repeats).min(axis=1)
  return timing.measured(
    f'4-bit W, float x, M=64: slope of time over {axis} = {sizes[0]} to '
    f'{sizes[-1]}',
    *(float(timed.slope(sizes, taken)), ''),
    goal=timing.between(0.9, 1.15),
    note=', '.join(f'{t / 1e3:.0f}' for t in taken) + ' us',
  )


def codebook(bits: int) -> Row:
  """Weights that are looked up beside the same ones that are computed."""
  shape = _MIDDLE
  x, w = activations(shape), weights(shape, bits)
  looked_up = _with_levels(w)
  programs = (
    program(quantized_matmul, x, looked_up),
    program(quantized_matmul, x, w),
  )
  near(1e-5)(*(each.call() for each in programs))
  turns = timed.cpu_ns(programs, _ORDER_TURNS) / 1e3
  least = float((turns[0] / turns[1]).min())
  goal = Goal(f'slower in all of {_ORDER_TURNS} turns', lambda *_: least >= 1)
  ours, uniform = turns.min(axis=1)
  return cpu_time.against(
    f'{bits}-bit codebook, float x, {shape}',
    *(ours, uniform, 'uniform codes of as many bits'),
    unit=UNIT,
    goal=goal,
    note=f'in each turn at least {least:.2f}x the time',
  )


def _limit(m: int, bits: int) -> float:
  if m < 64:
    return 2.2
  return 1.0 if bits == 8 else 1.3


def _rounded(x: jax.Array, act: ActQuant) -> jax.Array:
  codes = jnp.clip(jnp.round(x / act.scale) + act.zero, 0, 2**act.bits - 1)
  return act.scale * (codes - act.zero)


def _with_levels(w: PackedTensor) -> PackedTensor:
  """The same values from a table."""
  line = jnp.arange(2**w.bits, dtype=jnp.float32) - 2 ** (w.bits - 1)
  levels = jnp.broadcast_to(line, (w.groups, w.n, 2**w.bits))
  return pack(unpack(w), bits=w.bits, scale=w.scale, levels=levels)


if __name__ == '__main__':
  from benchmarks.__main__ import main

  sys.exit(main(['quantized_matmul', *sys.argv[1:]]))
