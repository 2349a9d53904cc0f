"""Minima over the unit square of a cheap function with kinks."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

_WINDOW = 9
_SHRINK = 0.375  # 1.5 steps of a window of 9 points


def minimize_on_line(
  objective: Callable[[jax.Array], tuple[jax.Array, jax.Array]],
  dtype: jnp.dtype,
  *,
  starts: int = 2,
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Looks everywhere on a grid, then closes in on its best local minima.

  Needs no derivatives, so that kinks and edges of infeasibility do not matter.

  Args:
    objective: `[n]` points in [0, 1] -> `[n]` values, inf where infeasible, and
      `[n]` of something to keep with them.
    dtype: floating type of the points.
    starts: number of local minima that are followed up; the grid has 9 times as
      many points.

  Returns:
    The best point, its value (inf where no point is feasible) and what was kept
    with it, scalars.
  """
  size = starts * _WINDOW
  grid = jnp.linspace(0, 1, size, dtype=dtype)
  window = jnp.linspace(-1, 1, _WINDOW, dtype=dtype) / (size - 1)
  rounds = 22 if jnp.finfo(dtype).bits == 64 else 12  # to 1e-11, 1e-6

  def best_of_grid(values):
    padded = jnp.pad(values, 1, constant_values=jnp.inf)
    is_local = values <= jnp.minimum(padded[:-2], padded[2:])
    return jax.lax.top_k(-jnp.where(is_local, values, jnp.inf), starts)[1]

  def best_of_windows(values):
    first = jnp.arange(starts) * _WINDOW
    return first + jnp.argmin(values.reshape(starts, _WINDOW), axis=1)

  def close_in(i, state):
    points = state[0]
    values, kept = objective(points)
    best = jnp.where(i == 0, best_of_grid(values), best_of_windows(values))
    near = points[best][:, None] + _SHRINK**i * window
    winner = jnp.argmin(values)
    found = points[winner], values[winner], kept[winner]
    return (jnp.clip(near, 0, 1).ravel(), *found)

  nothing = jnp.zeros((), dtype)
  _, *found = jax.lax.fori_loop(
    0, rounds, close_in, (grid, nothing, nothing, nothing)
  )
  return tuple(found)


def minimize_on_square(
  objective: Callable[[jax.Array, jax.Array], jax.Array],
  dtype: jnp.dtype,
  *,
  starts: int = 2,
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """A line search in u whose objective is a line search in v.

  Unlike a search in both at once it is not held up by slanted valleys.

  Args:
    objective: scalar u, `[n]` v -> `[n]` values, inf where infeasible.
    dtype: floating type of u and v.
    starts: local minima followed up on each line.

  Returns:
    The best u, v and value, scalars.
  """

  def along_v(u):
    v, value, _ = minimize_on_line(
      lambda v: (objective(u, v), v), dtype, starts=starts
    )
    return value, v

  u, value, v = minimize_on_line(jax.vmap(along_v), dtype, starts=starts)
  return u, v, value
