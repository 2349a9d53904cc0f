"""Random instances: groups of random calibrated scores."""

import jax
import jax.numpy as jnp

from jaxlab.fairness.types import GroupScores


def random_groups(
  key: jax.Array, *, num_groups: int, max_atoms: int, least: int, most: int
) -> GroupScores:
  """Draws groups with Beta(1, 1) to Beta(3, 3) scores and Dirichlet masses.

  Args:
    key: PRNG key.
    num_groups: K.
    max_atoms: m to pad to, at least `most`.
    least: fewest scores of a group.
    most: most scores of a group.

  Returns:
    `GroupScores` of K groups with `least` to `most` atoms each.
  """
  keys = jax.random.split(key, 5)
  shape = num_groups, max_atoms
  n_atoms = jax.random.randint(keys[0], (num_groups,), least, most + 1)
  is_real = jnp.arange(max_atoms) < n_atoms[:, None]
  a, b = jax.random.uniform(keys[1], (2, num_groups, 1), minval=1, maxval=3)
  scores = jax.random.beta(keys[2], a, b, shape)
  scores = -jnp.sort(-jnp.where(is_real, scores, -1), axis=1)
  last = jnp.take_along_axis(scores, n_atoms[:, None] - 1, axis=1)
  mass = jnp.where(is_real, jax.random.exponential(keys[3], shape), 0)
  weight = jax.random.exponential(keys[4], (num_groups,))
  return GroupScores(
    scores=jnp.where(is_real, scores, last),
    mass=mass / jnp.sum(mass, axis=1, keepdims=True),
    weight=weight / jnp.sum(weight),
    n_atoms=n_atoms,
  )
