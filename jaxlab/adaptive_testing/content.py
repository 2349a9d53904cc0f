"""Content balancing: shares of the areas of a test.

Source: Kingsbury & Zara, Applied Measurement in Education, 1989 (constrained
CAT).
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.adaptive_testing.types import CatState
from jaxlab.errors import UserError


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ContentBalance:
  """Asks next from the area that is furthest behind its share.

  Attributes:
    areas: `[n]` the content area of each item, counted from 0.
    shares: `[A]` share of the test that each area should have.
  """

  areas: jax.Array
  shares: jax.Array

  def eligible(self, state: CatState) -> jax.Array:
    """Available items of the area whose turn it is, `[E, n]` bool.

    The area has an available item, if any has; ties go to the first area.
    """
    seen = state.items >= 0
    own = jnp.where(seen, self.areas[jnp.maximum(state.items, 0)], -1)
    numbers = jnp.arange(self.shares.shape[0])
    counts = jnp.sum(own[:, :, None] == numbers, axis=1)
    total = jnp.maximum(jnp.sum(seen, axis=1), 1)
    behind = self.shares - counts / total[:, None]
    none = jnp.zeros(numbers.shape, bool)
    left = jax.vmap(none.at[self.areas].max)(state.available)
    turn = jnp.argmax(jnp.where(left, behind, -jnp.inf), axis=-1)
    return state.available & (self.areas == turn[:, None])


def content_balance(areas: ArrayLike, shares: ArrayLike) -> ContentBalance:
  """Checked areas and shares; not to be traced.

  Args:
    areas: `[n]` integers from 0 to A - 1.
    shares: `[A]`, not negative; they are divided by their sum.

  Raises:
    UserError: an area without share, shares that are negative or all 0.
  """
  areas, shares = np.asarray(areas), np.asarray(shares, float)
  if areas.ndim != 1 or not np.issubdtype(areas.dtype, np.integer):
    raise UserError('areas: give one integer for each item.')
  if shares.ndim != 1 or not np.all(shares >= 0) or not shares.sum() > 0:
    raise UserError(f'shares = {shares}: give numbers >= 0, not all 0.')
  wrong = np.flatnonzero((areas < 0) | (areas >= len(shares)))
  if wrong.size:
    raise UserError(
      f'areas[{wrong[0]}] = {areas[wrong[0]]}: there are {len(shares)} shares.'
    )
  return ContentBalance(jnp.asarray(areas), jnp.asarray(shares / shares.sum()))
