"""Scans over time that store few states and compute the others again."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Remat = str | int
# What a gradient may keep before it is cheaper to compute it again.
_CACHE_BYTES = 2**24


def chosen(remat: Remat, state: Any, steps: int) -> Remat:
  """What 'auto' stands for.

  Args:
    remat: as for `simulate`.
    state: arrays, or their shapes, of what a step changes.
    steps: T.

  Returns:
    'none' where what all steps leave behind fits a core's cache, else 'sqrt';
    anything but 'auto' as it is.
  """
  if remat != 'auto':
    return remat
  # A step leaves about three numbers behind for each of its state.
  size = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(state))
  return 'none' if 3 * steps * size <= _CACHE_BYTES else 'sqrt'


def checkpointing_scan(remat: Remat, steps: int) -> Callable[..., Any]:
  """A scan that stores few of the states it passes.

  Args:
    remat: as for `simulate`.
    steps: T.

  Returns:
    (body, carry, xs, T) -> what `jax.lax.scan` returns.
  """
  if remat == 'none':
    return lambda body, carry, xs, n: jax.lax.scan(body, carry, xs, length=n)
  if remat == 'sqrt':
    depth, chunk = 1, _near_root(steps)
  elif isinstance(remat, int):
    depth, chunk = 1, remat
  else:
    slots = int(remat.partition(':')[2])
    # Depths beyond 3 repeat too much, and compile for long.
    depth = next(
      (d for d in (1, 2) if d * math.ceil(steps ** (1 / (d + 1))) <= slots), 3
    )
    chunk = math.ceil(steps ** (depth / (depth + 1)))

  def scan(body, carry, xs, n, depth=depth, chunk=chunk):
    if depth == 0 or n <= chunk:
      return jax.lax.scan(body, carry, xs, length=n)
    smaller = math.ceil(chunk ** ((depth - 1) / depth))

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def block(carry, xs):
      return scan(body, carry, xs, chunk, depth - 1, smaller)

    whole = n // chunk
    head = jax.tree.map(
      lambda x: x[: whole * chunk].reshape(whole, chunk, *x.shape[1:]), xs
    )
    carry, out = jax.lax.scan(block, carry, head, length=whole)
    out = jax.tree.map(lambda x: x.reshape(whole * chunk, *x.shape[2:]), out)
    if n % chunk:
      rest = jax.tree.map(lambda x: x[whole * chunk :], xs)
      remainder = jax.checkpoint(
        lambda carry, xs: jax.lax.scan(body, carry, xs, length=n % chunk),
        prevent_cse=False,
      )
      carry, tail = remainder(carry, rest)
      out = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), out, tail)
    return carry, out

  return scan


def _near_root(steps: int) -> int:
  """A divisor near the square root, which saves compiling a remainder."""
  root = math.isqrt(steps - 1) + 1
  near = range(max(1, root // 2), 2 * root + 1)
  divisors = [chunk for chunk in near if steps % chunk == 0]
  return min(divisors, key=lambda chunk: abs(chunk - root), default=root)


def windowed(scan, window):
  """Cuts the gradient of the state every `window` steps.

  Args:
    scan: of `checkpointing_scan`; the first of its xs is the step.
    window: steps.

  Returns:
    The scan.
  """

  def cut(body, carry, xs, n):
    def guarded(carry, x):
      border = x[0] % window == 0
      # Leaves without a gradient, such as the count of steps, pass as they are.
      carry = jax.tree.map(
        lambda a: jnp.where(border, jax.lax.stop_gradient(a), a), carry
      )
      return body(carry, x)

    return scan(guarded, carry, xs, n)

  return cut
