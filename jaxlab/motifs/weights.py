"""Weights for a graph's edges. `W[j, i]` acts from i to j, an edge `A[i, j]`.

Scale: a gain g gives weights of root mean square g / sqrt(mean in-degree), so
that the spectral radius of a large random graph is about g.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.motifs import catalog
from jaxlab.motifs.dyads import edges_of
from jaxlab.motifs.measures import spectral_radius
from jaxlab.motifs.rewiring import rewire
from jaxlab.motifs.types import Placements

LAWS = ('gaussian', 'lognormal', 'dale', 'copied', 'loop_sign')
_CELLS = tuple(itertools.permutations(range(3), 2))


def weights(
  key: jax.Array,
  A: ArrayLike,
  law: str = 'gaussian',
  *,
  gain: ArrayLike = 1.0,
  placements: Placements | None = None,
  inhibitory: ArrayLike = 0.2,
  sigma: ArrayLike = 1.0,
  source: ArrayLike | None = None,
  s2: int = 0,
  s3: int = 0,
) -> jax.Array:
  """Draws weights for the edges of a graph.

  Args:
    key: PRNG key.
    A: `[N, N]` graph; entries other than 0 are edges, loops are left out.
    law: 'gaussian'; 'lognormal', all positive; 'dale', gaussian sizes with one
      sign for all edges of a node; 'copied', the values of `source` in random
      order; 'loop_sign', gaussian with signs that give the cycles within each
      placement the signs s2 and s3.
    gain: g; not used by 'copied'.
    placements: motif copies, for 'loop_sign'.
    inhibitory: share of inhibitory nodes, for 'dale'.
    sigma: standard deviation of the logarithm, for 'lognormal'.
    source: `[n]` values, at least one an edge, for 'copied'; with n edges all
      of them are used.
    s2: sign -1 or 1 of the product along each cycle of two nodes; 0 is free.
    s3: the same for cycles of three nodes.

  Returns:
    `[N, N]` W in JAX's default float type, 0 where there is no edge.

  Raises:
    UserError: if the law is unknown, lacks what it needs or asks for signs
      that a placed motif cannot have.
  """
  edge = edges_of(A)
  dtype = jnp.zeros(()).dtype
  scale = gain / jnp.sqrt(jnp.maximum(jnp.mean(jnp.sum(edge, 0)), 1))
  value_key, sign_key = jax.random.split(key)
  normal = jax.random.normal(value_key, edge.shape, dtype)
  if law == 'gaussian':
    values = normal * scale
  elif law == 'lognormal':
    # exp(sigma n) has the mean square exp(2 sigma^2).
    values = jnp.exp(sigma * normal - jnp.square(sigma)) * scale
  elif law == 'dale':
    size = len(edge)
    inhibits = jnp.arange(size) < jnp.round(inhibitory * size)
    sign = jnp.where(jax.random.permutation(sign_key, inhibits), -1, 1)
    values = jnp.abs(normal) * sign[:, None] * scale
  elif law == 'copied':
    values = _copied(value_key, edge, source, dtype)
  elif law == 'loop_sign':
    signs = _loop_signs(sign_key, normal, placements, s2, s3)
    values = jnp.abs(normal) * signs * scale
  else:
    raise UserError(f'unknown law {law!r}; use {", ".join(LAWS)}')
  return jnp.where(edge, values, 0).T.astype(dtype)


def rescale(W: ArrayLike, radius: ArrayLike) -> jax.Array:
  """Scales W to a spectral radius; a nilpotent W is returned as it is."""
  W = jnp.asarray(W)
  found = spectral_radius(W)
  # Eigenvalues of a nilpotent matrix come out as a root of the rounding.
  floor = jnp.sqrt(jnp.finfo(W.dtype).eps) * jnp.max(jnp.abs(W))
  return W * jnp.where(
    found > floor, radius / jnp.where(found > 0, found, 1), 1
  )


def control(key: jax.Array, W: ArrayLike, kind: str = 'degree') -> jax.Array:
  """Rewires a weighted graph and keeps what is not its motifs.

  Args:
    key: PRNG key.
    W: `[N, N]` weights, `W[j, i]` from i to j.
    kind: a null model of `rewire`.

  Returns:
    Weights on a graph of the null model with the same number of edges: the
    values of W in random order times one factor, which restores the spectral
    radius of W.
  """
  W = jnp.asarray(W)
  rewire_key, order_key = jax.random.split(key)
  A = edges_of(W.T)
  mixed = _shuffled(order_key, A, W.T, rewire(rewire_key, A, kind))
  return rescale(mixed.T, spectral_radius(W))


def _shuffled(key, A, values, B) -> jax.Array:
  """Deals the values on the edges of A to the edges of B, which has as many."""
  order = jnp.argsort(~A.ravel(), stable=True)
  count = jnp.sum(A, dtype=jnp.int32)
  ticket = jax.random.uniform(key, order.shape)
  ticket = jnp.where(jnp.arange(len(order)) < count, ticket, 2)
  dealt = values.ravel()[order][jnp.argsort(ticket)]
  rank = jnp.cumsum(B.ravel()) - 1
  return jnp.where(B.ravel(), dealt[rank], 0).reshape(B.shape)


def _copied(key, edge, source, dtype) -> jax.Array:
  if source is None or np.ndim(source) != 1:
    raise UserError("law='copied' takes its values from source, an array [n]")
  needed = 0 if isinstance(edge, jax.core.Tracer) else int(edge.sum())
  if np.shape(source)[0] < max(needed, 1):
    raise UserError(
      f'source has {np.shape(source)[0]} values for {needed} edges; give at '
      'least one an edge'
    )
  values = jax.random.permutation(key, jnp.asarray(source, dtype))
  rank = jnp.cumsum(edge.ravel()) - 1
  return values[jnp.clip(rank, 0, len(values) - 1)].reshape(edge.shape)


def _loop_signs(key, normal, placements, s2: int, s3: int) -> jax.Array:
  """Signs of all edges: those of `normal`, but within the placements others.

  All sign patterns of a motif that give its cycles the asked signs are equally
  likely, as if gaussian weights were drawn until they have them.
  """
  if placements is None or s2 not in (-1, 0, 1) or s3 not in (-1, 0, 1):
    raise UserError(
      f"law='loop_sign' takes placements and signs of -1, 0 or 1; got s2={s2}, "
      f's3={s3}' + ('' if placements else ' and no placements')
    )
  right, patterns = _sign_patterns(s2, s3)
  if not isinstance(placements.motif, jax.core.Tracer):
    for motif in np.unique(placements.motif):
      if not right[motif].any():
        raise UserError(
          f'no weights give {catalog.NAMES[motif]} cycles of the signs s2={s2} '
          f'and s3={s3}; leave one of them free (0)'
        )
  log_chance = jnp.where(jnp.asarray(right), 0.0, -jnp.inf)[placements.motif]
  chosen = jnp.asarray(patterns)[jax.random.categorical(key, log_chance)]
  rows, cols = (placements.nodes[:, side] for side in np.array(_CELLS).T)
  return jnp.sign(normal).at[rows, cols].set(chosen.astype(normal.dtype))


@functools.cache
def _sign_patterns(s2: int, s3: int) -> tuple[np.ndarray, np.ndarray]:
  """`[13, 64]` which patterns are right, and the `[64, 6]` patterns."""
  patterns = np.array(list(itertools.product((1, -1), repeat=6)))
  sign = np.zeros((64, 3, 3), int)
  rows, cols = np.array(_CELLS).T
  sign[:, rows, cols] = patterns
  right = np.ones((13, 64), bool)
  for motif in range(13):
    signed = sign * catalog.adjacency(motif)
    for cycle in ((0, 1), (0, 2), (1, 2), (0, 1, 2), (0, 2, 1)):
      wanted = s2 if len(cycle) == 2 else s3
      ends = zip(cycle, (*cycle[1:], cycle[0]), strict=True)
      product = np.prod([signed[:, a, b] for a, b in ends], axis=0)
      right[motif] &= product * wanted >= 0
  return right, patterns
