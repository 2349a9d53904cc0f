"""Matching of gradients over the whole ability space (BECAT).

The asked items S should stand for all items Q of an examinee: the bound
`sum_{i in Q} min_{j in S} d_ij` on the difference of the gradients is made
small greedily, which is a facility-location problem. `d_ij` is the distance of
the gradients of items i and j, expected over answers at the estimate. Source:
Zhuang et al., A Bounded Ability Estimation for Computerized Adaptive Testing,
NeurIPS 2023.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from scipy.stats import qmc

from jaxlab.adaptive_testing import models
from jaxlab.adaptive_testing.selectors.classical import no_params
from jaxlab.adaptive_testing.types import Bank, CatState, Selector

_ENTRIES = 2**16  # distances of all examinees that take part at a time
_ANSWERS = ((0, 0), (0, 1), (1, 0), (1, 1))


@functools.cache
def becat_full(*, num_points: int = 81, bound: float = 4.0) -> Selector:
  """Largest distances over `[-bound, bound]`, expected at the estimate.

  The parameters are the table of `distance_table`, which is computed once.

  Args:
    num_points: equally spaced abilities; for D > 1 a Halton sequence.
    bound: of each dimension.
  """

  def init(key, bank):
    del key
    return distance_table(bank, ability_grid(bank, num_points, bound))

  def score(params, key, bank, state):
    del key
    distance = functools.partial(expected_distance, params)
    chance = models.prob(bank, state.theta)
    return _by_examinee(
      functools.partial(marginal_gain, distance), state, chance
    )

  return Selector(init, score, 'becat_full')


@functools.cache
def becat_point() -> Selector:
  """Distances of the gradients at the estimate."""

  def score(params, key, bank, state):
    del params, key

    def one(theta, *sets):
      slopes = _slopes(bank, theta)
      distance = functools.partial(point_distance, slopes)
      return marginal_gain(distance, models.prob(bank, theta), *sets)

    return _by_examinee(one, state, state.theta)

  return Selector(no_params, score, 'becat_point')


def ability_grid(bank: Bank, num_points: int, bound: float) -> jax.Array:
  """`[G, *latent]` abilities that fill the space."""
  if not bank.latent_shape:
    return jnp.linspace(-bound, bound, num_points)
  draws = qmc.Halton(bank.latent_shape[0], scramble=False).random(num_points)
  return jnp.asarray(bound * (2 * draws - 1), float)


def distance_table(bank: Bank, grid: ArrayLike) -> jax.Array:
  """Largest distance of the gradients of two items over abilities.

  Args:
    bank: of n items.
    grid: `[G, *latent]`.

  Returns:
    `[2, 2, n, n]`, by the answers to both items and the items.
  """
  grid = jnp.asarray(grid, float)
  n = bank.num_items

  def widen(most, theta):
    slopes = _slopes(bank, theta)
    gaps = [_distance(slopes[y], slopes[z]) for y, z in _ANSWERS]
    return jnp.maximum(most, jnp.stack(gaps).reshape(2, 2, n, n)), None

  return jax.lax.scan(widen, jnp.zeros((2, 2, n, n), grid.dtype), grid)[0]


def _slopes(bank: Bank, theta: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Gradients of items after a wrong and after a right answer."""
  wrong, right = jnp.zeros(bank.num_items), jnp.ones(bank.num_items)
  at = functools.partial(models.item_grads, bank, theta)
  return at(wrong), at(right)


def _distance(left: jax.Array, right: jax.Array) -> jax.Array:
  """Distances of all pairs of gradients `[n, *latent]`, `[n, n]`."""
  gap = left[:, None] - right[None]
  return jnp.abs(gap) if gap.ndim == 2 else jnp.linalg.norm(gap, axis=-1)


def expected_distance(table: jax.Array, chance: jax.Array) -> jax.Array:
  """Expectation over independent answers, for an item and itself as well.

  Args:
    table: `[2, 2, n, n]`, from `distance_table`.
    chance: `[n]` probabilities of right answers.

  Returns:
    `[n, n]`.
  """
  wrong = 1 - chance
  first_wrong = wrong * table[0, 0] + chance * table[0, 1]
  first_right = wrong * table[1, 0] + chance * table[1, 1]
  return wrong[:, None] * first_wrong + chance[:, None] * first_right


def point_distance(
  slopes: tuple[jax.Array, jax.Array], chance: jax.Array
) -> jax.Array:
  """As `expected_distance`, from gradients `[n, *latent]` at one ability."""
  weight = (1 - chance, chance)
  return jnp.asarray(
    sum(
      weight[y][:, None] * weight[z] * _distance(slopes[y], slopes[z])
      for y, z in _ANSWERS
    )
  )


def marginal_gain(
  distance: Callable[[jax.Array], jax.Array],
  chance: jax.Array,
  asked: jax.Array,
  pool: jax.Array,
) -> jax.Array:
  """What an item adds to `sum_i max_{j in S} (max d - d_ij)`.

  Args:
    distance: gives `[n, n]` symmetric distances from `chance`. It is called
      for each of three reductions: to compute n^2 numbers again is several
      times as fast as to hold them for each examinee.
    chance: `[n]` probabilities of right answers.
    asked: `[n]` bool, S.
    pool: `[n]` bool, the items Q that i runs over.

  Returns:
    `[n]`.
  """
  apart = jax.lax.optimization_barrier  # else the three calls become one
  farthest = jnp.max(jnp.where(pool[:, None], distance(chance), 0), axis=0)
  farthest = jnp.max(jnp.where(pool, apart(farthest), 0))
  chance, farthest = apart((chance, farthest))
  own = jnp.where(asked[:, None], distance(chance), farthest)
  chance, nearest = apart((chance, jnp.min(own, axis=0)))
  gain = jnp.maximum(nearest[:, None] - distance(chance), 0)
  return jnp.sum(jnp.where(pool[:, None], gain, 0), axis=0)


def cluster_sizes(distance: jax.Array, asked: jax.Array) -> jax.Array:
  """Weights gamma of the asked items: how many items each stands for.

  Args:
    distance: `[n, n]`.
    asked: `[n]` bool, at least one.

  Returns:
    `[n]`, which sums to n; 0 where an item was not asked.
  """
  nearest = jnp.argmin(jnp.where(asked, distance, jnp.inf), axis=1)
  return jnp.zeros(asked.shape, distance.dtype).at[nearest].add(1)


def _by_examinee(one, state: CatState, *args: jax.Array) -> jax.Array:
  """Maps over examinees, some at a time."""
  n = state.asked.shape[1]
  pool = state.asked | state.available
  rows = (*args, state.asked, pool)
  at_once = min(max(_ENTRIES // n**2, 1), state.asked.shape[0])
  return jax.lax.map(lambda row: one(*row), rows, batch_size=at_once)
