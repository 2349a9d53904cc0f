"""Rules `P(R=1 | S, A)` with a given PPV and FOR in each group."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxlab.errors import UserError
from jaxlab.fairness.quadratic import safe_divide, tolerance


def realize(
  scores: jax.Array,
  mass: jax.Array,
  rate: jax.Array,
  positive: jax.Array,
  *,
  how: str = 'mixture',
) -> jax.Array:
  """A rule with given `P(R=1)` and `P(R=1, Y=1)` in each group.

  All of them give the same PPV, FOR and loss:

  - `mixture`: a soft threshold mixed with a constant rate; monotone.
  - `window`: positive on one interval of scores, so that at most two scores
    are randomized, but the highest scores may be denied.
  - `three_level`: 1 above, one probability in the middle, 0 below; monotone.
    Of the middles with an end between two scores, that which randomizes least
    mass; its other end may split one score.

  Args:
    scores: `[K, m]` float, falling.
    mass: `[K, m]` float; rows sum to 1.
    rate: `[K]` float `P(R=1)`.
    positive: `[K]` float `P(R=1, Y=1)`, between `rate` times the base rate and
      the group's upper boundary.
    how: one of the above.

  Returns:
    `[K, m]` float in [0, 1].

  Raises:
    UserError: for another `how`.
  """
  if how not in REALIZERS:
    raise UserError(f'realize must be one of {list(REALIZERS)}, got {how!r}')
  return jax.vmap(REALIZERS[how])(scores, mass, rate, positive)


def _mixture(
  scores: jax.Array, mass: jax.Array, rate: jax.Array, positive: jax.Array
) -> jax.Array:
  slack = tolerance(scores.dtype)
  threshold = _share(mass, jnp.zeros_like(rate), rate)
  flat = jnp.sum(mass * scores) * rate
  room = jnp.sum(mass * scores * threshold) - flat
  theta = jnp.where(room > slack, safe_divide(positive - flat, room, 1.0), 1.0)
  theta = jnp.clip(jnp.where(theta > 1 - slack, 1, theta), 0, 1)
  return theta * threshold + (1 - theta) * rate


def _window(
  scores: jax.Array, mass: jax.Array, rate: jax.Array, positive: jax.Array
) -> jax.Array:
  taken, gained = _vertices(scores, mass)
  # The positives in a window of mass `rate` fall as it starts later; they are
  # linear between the starts at which one of its ends is a vertex.
  starts = jnp.concatenate([taken, taken - rate])
  starts = jnp.clip(starts, 0, 1 - rate)
  found = jnp.interp(starts + rate, taken, gained)
  found = found - jnp.interp(starts, taken, gained)
  enough = found >= positive
  before = jnp.argmax(jnp.where(enough, starts, -1))
  after = jnp.argmin(jnp.where(enough, 2, starts))
  after = jnp.where(jnp.all(enough), before, after)
  share = safe_divide(
    found[before] - positive, found[before] - found[after], 0.0
  )
  start = starts[before] + jnp.clip(share, 0, 1) * (
    starts[after] - starts[before]
  )
  return _share(mass, start, start + rate)


def _three_level(
  scores: jax.Array, mass: jax.Array, rate: jax.Array, positive: jax.Array
) -> jax.Array:
  """The better of a middle that starts, and one that ends, at a vertex."""
  total = jnp.sum(mass * scores)
  starting, cost = _chord(scores, mass, rate, positive)
  # Deciding against the lowest scores first is the same problem mirrored.
  ending, mirrored_cost = _chord(
    1 - scores[::-1],
    mass[::-1],
    1 - rate,
    1 - rate - total + positive,
  )
  return jnp.where(cost <= mirrored_cost, starting, 1 - ending[::-1])


def _chord(
  scores: jax.Array, mass: jax.Array, rate: jax.Array, positive: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """The least random middle that starts at a vertex, and its mass.

  A middle from mass t to mass u is a chord of the boundary through
  (rate, positive).
  """
  slack = tolerance(scores.dtype)
  taken, gained = _vertices(scores, mass)
  m = mass.shape[0]
  run = rate - taken
  slope = safe_divide(positive - gained, run, -1.0)

  def height(k: jax.Array) -> jax.Array:
    """Vertex k above the line from each vertex through the point."""
    return gained[k] - positive - slope * (taken[k] - rate)

  def halve(_, ends: tuple[jax.Array, jax.Array]):
    low, high = ends
    middle = (low + high) // 2
    below = (height(middle) <= 0) & (middle > low)
    low = jnp.where(below, low, middle)
    return low, jnp.where(below, middle, high)

  last_taken = jnp.searchsorted(taken, rate, side='right') - 1
  ends = jnp.full(m + 1, jnp.minimum(last_taken, m - 1)), jnp.full(m + 1, m)
  low, high = jax.lax.fori_loop(0, m.bit_length() + 1, halve, ends)
  over, under = height(low), height(high)
  share = jnp.clip(safe_divide(over, over - under, 1.0), 0, 1)
  stop = taken[low] + share * (taken[high] - taken[low])
  end = jnp.where(stop > taken[low] + slack, taken[high], taken[low])
  usable = (run > slack) & (under <= slack)
  cost = jnp.where(usable, end - taken, jnp.inf)
  best = jnp.argmin(cost)
  start, stop = taken[best], jnp.maximum(stop[best], rate)
  alpha = safe_divide(rate - start, stop - start, 0.0)
  alpha = jnp.where(alpha > 1 - slack, 1, alpha)
  above = _share(mass, jnp.zeros_like(start), start)
  middle = alpha * _share(mass, start, stop)
  return jnp.where(above == 1, 1, middle), cost[best]


def _vertices(
  scores: jax.Array, mass: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """`P(R=1)` and `P(R=1, Y=1)` after each of 0..m atoms."""
  zero = jnp.zeros_like(mass[:1])
  return (
    jnp.concatenate([zero, jnp.cumsum(mass)]),
    jnp.concatenate([zero, jnp.cumsum(mass * scores)]),
  )


def _share(mass: jax.Array, start: jax.Array, stop: jax.Array) -> jax.Array:
  """The share of each atom between masses `start` and `stop` from the top.

  An end within rounding of the border of an atom counts as lying on it.
  """
  slack = tolerance(mass.dtype)
  after = jnp.cumsum(mass)
  before = after - mass
  overlap = jnp.minimum(after, stop) - jnp.maximum(before, start)
  whole = (before >= start - slack) & (after <= stop + slack)
  share = jnp.clip(safe_divide(overlap, mass, 0.0), 0, 1)
  return jnp.where(whole, 1, jnp.where(overlap <= slack, 0, share))


REALIZERS: dict[str, Callable] = {
  'mixture': _mixture,
  'window': _window,
  'three_level': _three_level,
}
