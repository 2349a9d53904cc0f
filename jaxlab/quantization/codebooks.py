"""Codebooks: levels that are not equally spaced.

K-means levels follow the numbers. The others have a fixed shape, given as unit
levels with largest magnitude 1, and only a scale is fitted. Every codebook of
b bits has `2^b` ascending levels; where a format has fewer, one is repeated.
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.quantization.grids import condense
from jaxlab.quantization.quantizers import nearest_level, top_code

KINDS = ('softmax', 'gelu')
BASES = tuple(2 ** (1 / k) for k in (0.5, 1, 1.5, 2, 3, 4, 6, 8))
_BINS = 2048
_SCALES = 80
_NARROWEST = 0.02
_OCTAVES = 16
# The lowest value of the GELU, -0.16997 at -0.7518.
_GELU_LOWEST = -0.17


@functools.partial(jax.jit, static_argnames='n_levels')
def kmeans_codebook(
  x: ArrayLike, n_levels: int, weights: ArrayLike | None = None
) -> jax.Array:
  """The levels of the least square error: k-means in one dimension.

  Exact, by dynamic programming over the sorted values; memory `O(n^2)`.

  Source: Wang and Song, Ckmeans.1d.dp, The R Journal 3/2, 2011.

  Args:
    x: `[n]` numbers.
    n_levels: L.
    weights: `[n]` weights >= 0 of the square errors.

  Returns:
    `[L]` ascending levels; repeated where fewer give the same error.
  """
  x = 1.0 * jnp.asarray(x)
  order = jnp.argsort(x)
  mass = jnp.broadcast_to(1 if weights is None else weights, x.shape)
  x, mass = x[order], mass[order].astype(x.dtype)
  total = jnp.sum(mass)
  middle = mass @ x / jnp.where(total > 0, total, 1)
  sums = _prefix(
    jnp.stack([mass, mass * (x - middle), mass * (x - middle) ** 2])
  )
  n = len(x)
  every = jnp.arange(n + 1)

  def spread(start, end):
    """Square error of the sorted numbers from `start` to before `end`."""
    weight, first, second = (s[end] - s[start] for s in sums)
    inside = second - first**2 / jnp.where(weight > 0, weight, 1)
    return jnp.where(start <= end, jnp.maximum(inside, 0), jnp.inf)

  def add_cluster(reached, _):
    errors = reached[:, None] + spread(every[:, None], every)
    return jnp.min(errors, axis=0), reached

  nothing = jnp.full(n + 1, jnp.inf, x.dtype).at[0].set(0)
  _, before = jax.lax.scan(add_cluster, nothing, length=n_levels)

  def trace_back(end, reached):
    start = jnp.argmin(reached + spread(every, end))
    return start, (start, end)

  _, (first, last) = jax.lax.scan(trace_back, n, before, reverse=True)
  place = jnp.arange(n)
  member = (place >= first[:, None]) & (place < last[:, None])
  weight = member @ mass
  level = member @ (mass * (x - middle)) / jnp.where(weight > 0, weight, 1)
  # A cluster without weight repeats the level below it, or the lowest.
  lowest = jnp.min(level, where=weight > 0, initial=jnp.inf)
  level = jnp.where(weight > 0, level, jnp.where(total > 0, lowest, 0))
  return middle + jax.lax.cummax(level)


@functools.partial(jax.jit, static_argnames=('n_levels', 'bins'))
def kmeans_binned(
  x: ArrayLike,
  n_levels: int,
  bins: int = 1024,
  weights: ArrayLike | None = None,
) -> jax.Array:
  """`kmeans_codebook` of a histogram, for many numbers.

  Args:
    x: `[n]` numbers.
    n_levels: L.
    bins: bins of equal width, each represented by the mean of its numbers.
    weights: `[n]` weights >= 0 of the square errors.

  Returns:
    `[L]` ascending levels.
  """
  x = 1.0 * jnp.asarray(x)
  mass = jnp.broadcast_to(1 if weights is None else weights, x.shape)
  values, mass = condense(x, mass.astype(x.dtype), bins)
  return kmeans_codebook(values, n_levels, mass)


def apot_levels(bits: int, *, signed: bool = True) -> jax.Array:
  """Unit levels that are sums of powers of two (additive powers-of-two).

  A magnitude of m bits is a sum of m // 2 terms of 2 bits (0 or one of three
  powers), and for odd m > 1 one term of 1 bit; the powers are dealt to the
  terms in turn.

  Source: Li, Dong and Wang, APoT, ICLR 2020, eq. 5, and the 3-bit case of the
  code published with it.

  Args:
    bits: 1 to 8.
    signed: whether one bit is the sign; 0 is then there twice.

  Returns:
    `[2^bits]` levels.
  """
  top_code(bits)
  magnitude_bits = bits - 1 if signed else bits
  pairs = magnitude_bits // 2
  single = 2 * pairs + 1 if magnitude_bits % 2 else None
  powers = [p for p in range(1, 3 * pairs + 2) if p != single][: 3 * pairs]
  terms = [[0.0, *(2.0**-p for p in powers[i::pairs])] for i in range(pairs)]
  if single:
    terms.append([0.0, 2.0**-single])
  sums = [0.0 if magnitude_bits else 1.0]
  for term in terms:
    sums = [s + t for s in sums for t in term]
  return _unit([-s for s in sums] + sums if signed else sums)


def log2_levels(bits: int, *, signed: bool = True) -> jax.Array:
  """Unit levels at powers of two.

  Args:
    bits: 1 to 8.
    signed: True for `-1, -1/2, ... 1/2, 1` without 0; False for `0, ... 1/2,
      1`.

  Returns:
    `[2^bits]` levels.
  """
  return _log_levels(bits, 2.0, signed)


def log_sqrt2_levels(bits: int) -> jax.Array:
  """Unit levels at powers of `sqrt 2`, without 0: `2^(-q/2)`.

  Source: Li et al., RepQ-ViT, ICCV 2023, eq. 16, for the output of a softmax.
  """
  return _unit([2 ** (-code / 2) for code in range(top_code(bits) + 1)])


@jax.jit
def fit_scaled_levels(
  x: ArrayLike, unit_levels: jax.Array, weights: ArrayLike | None = None
) -> jax.Array:
  """The scale of a codebook of fixed shape, by square error.

  Args:
    x: `[n]` numbers.
    unit_levels: `[L]` ascending levels with largest magnitude 1, or `[S, L]`
      for the best of S codebooks.
    weights: `[n]` weights >= 0 of the square errors.

  Returns:
    `[L]` levels `scale * unit_levels`; the scale is one of 80 clips of max|x|,
    or 1 where all numbers are 0.
  """
  x = 1.0 * jnp.asarray(x)
  mass = jnp.broadcast_to(1 if weights is None else weights, x.shape)
  x, mass = condense(x, mass.astype(x.dtype), _BINS)
  # The mean of an empty bin is no number that was seen.
  largest = jnp.max(jnp.abs(x), where=mass > 0, initial=0)
  largest = jnp.where(largest > 0, largest, 1)
  scales = largest * jnp.geomspace(1, _NARROWEST, _SCALES, dtype=x.dtype)
  shapes = jnp.atleast_2d(jnp.asarray(unit_levels, x.dtype))
  candidates = (scales[:, None, None] * shapes).reshape(-1, shapes.shape[1])
  return _best(x, mass, candidates)


@functools.partial(jax.jit, static_argnames=('bits', 'bases'))
def adalog_levels(
  x: ArrayLike,
  bits: int,
  bases: Sequence[float] = BASES,
  weights: ArrayLike | None = None,
) -> jax.Array:
  """Logarithmic levels of the best base, with a sign or without.

  Source: Wu et al., AdaLog, ECCV 2024 (its search of the base).

  Args:
    x: `[n]` numbers.
    bits: 1 to 8.
    bases: bases > 1 to try.
    weights: `[n]` weights >= 0 of the square errors.

  Returns:
    `[2^bits]` levels.
  """
  shapes = [_log_levels(bits, b, s) for b in bases for s in (True, False)]
  return fit_scaled_levels(x, jnp.stack(shapes), weights)


@functools.partial(jax.jit, static_argnames=('bits', 'kind'))
def twin_uniform_levels(
  x: ArrayLike, bits: int, kind: str, weights: ArrayLike | None = None
) -> jax.Array:
  """Two uniform ranges whose steps differ by a power of two.

  One bit tells the range, the others count steps from 0. For 'softmax' the
  coarse step is `2^(1-bits)`; for 'gelu' the negative range is that of the
  GELU, its step `0.17 / 2^(bits-1)`. The other step is searched.

  Source: Yuan et al., PTQ4ViT, ECCV 2022, section 3.3.

  Args:
    x: `[n]` numbers.
    bits: 2 to 8.
    kind: 'softmax' or 'gelu'.
    weights: `[n]` weights >= 0 of the square errors.

  Returns:
    `[2^bits]` levels; 0 is there twice.

  Raises:
    UserError: unknown `kind`, or `bits` outside 2 to 8.
  """
  if kind not in KINDS:
    raise UserError(f'kind = {kind!r} is unknown; choose from {KINDS}.')
  if top_code(bits) < 3:
    raise UserError(f'twin uniform levels need 2 bits or more, got {bits}.')
  x = 1.0 * jnp.asarray(x)
  mass = jnp.broadcast_to(1 if weights is None else weights, x.shape)
  x, mass = condense(x, mass.astype(x.dtype), _BINS)
  half = 2 ** (bits - 1)
  counts = jnp.arange(half, dtype=x.dtype)
  octaves = 2.0 ** jnp.arange(_OCTAVES, dtype=x.dtype)[:, None]
  if kind == 'softmax':
    fixed, searched = counts / half, counts / half / octaves
  else:
    step = -_GELU_LOWEST / half
    fixed, searched = -step * counts, step * counts * octaves
  fixed = jnp.broadcast_to(fixed, searched.shape)
  candidates = jnp.concatenate([fixed, searched], axis=1)
  return _best(x, mass, jnp.sort(candidates, axis=1))


def _prefix(rows: jax.Array) -> jax.Array:
  return jnp.pad(jnp.cumsum(rows, axis=1), ((0, 0), (1, 0)))


def _unit(levels: Sequence[float]) -> jax.Array:
  largest = max(abs(level) for level in levels)
  return jnp.array(sorted(level / largest for level in levels))


def _log_levels(bits: int, base: float, signed: bool) -> jax.Array:
  top = top_code(bits)
  if not signed:
    return _unit([0.0, *(base**-code for code in range(top))])
  magnitudes = [base**-code for code in range((top + 1) // 2)]
  return _unit([-m for m in magnitudes] + magnitudes)


def _best(x: jax.Array, mass: jax.Array, candidates: jax.Array) -> jax.Array:
  """The row of `[candidates, L]` levels with the least square error."""

  def loss(levels):
    return mass @ (levels[nearest_level(x, levels)] - x) ** 2

  return candidates[jnp.argmin(jax.lax.map(loss, candidates))]
