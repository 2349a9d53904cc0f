"""Random products, compiled and compared, for rows in microseconds."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import cpu_time, timing
from benchmarks.timing import Goal, Row
from jaxlab.dendrites import experiment_timing as timed
from jaxlab.dendrites.experiment_timing import Program
from kernels_pallas.quantized_matmul import PackedTensor, pack

UNIT = 'us CPU'


class Shape(NamedTuple):
  """Sizes of a product `[M, K] x [K, N]`."""

  m: int
  k: int
  n: int

  def __str__(self) -> str:
    return f'{self.m} x {self.k} x {self.n}'


def activations(shape: Shape) -> jax.Array:
  """`[M, K]` float32."""
  rng = np.random.default_rng(shape.m)
  return jnp.asarray(rng.normal(size=(shape.m, shape.k)), jnp.float32)


def weights(
  shape: Shape, bits: int, group_size: int | None = None
) -> PackedTensor:
  """`[K, N]` symmetric codes of all values, and scales (bfloat16 has them)."""
  rng = np.random.default_rng(bits)
  groups = shape.k // (group_size or shape.k)
  scale = rng.uniform(0.5, 1.5, (groups, shape.n)) / 2**bits
  return pack(
    rng.integers(0, 2**bits, (shape.k, shape.n)),
    bits=bits,
    scale=jnp.asarray(scale, jnp.bfloat16).astype(jnp.float32),
    group_size=group_size,
  )


def program(function: Callable[..., Any], *args: Any) -> Program:
  """Compiles, for one thread, and runs once."""
  return timed.program(timed.Work(function, args, 1))


def near(tolerance: float) -> Callable[[Any, Any], str]:
  """A check that arrays differ by at most that much of the largest number."""

  def agree(found, expected) -> str:
    found, expected = np.asarray(found), np.asarray(expected)
    worst = float(np.abs(found - expected).max() / np.abs(expected).max())
    text = f'products differ by at most {worst:.1e} of the largest'
    if not worst <= tolerance:
      raise timing.DisagreementError(text)
    return text

  return agree


def compare(
  work: str,
  ours: Program,
  peer: Program,
  version: str,
  agree: Callable[[Any, Any], str] | None = None,
  *,
  goal: Goal | None = None,
  repeats: int = 7,
) -> Row:
  """As `cpu_time.compare`, in microseconds of a call."""
  row = cpu_time.compare(
    *(work, ours, peer, version, agree), goal=goal, repeats=repeats
  )
  ours_us, peer_us = (
    None if ns is None else ns / 1e3 for ns in (row.ours, row.peer)
  )
  return row._replace(ours=ours_us, peer=peer_us, unit=UNIT)
