"""Exact minimum where the sign of every ReLU is decided: a linear program."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize

from jaxlab.certified.beta_crown import Problem
from jaxlab.certified.domains import stack, unstack
from jaxlab.certified.graph import Net, capture, evaluate

# Constraints are loosened by this, so that rounding cuts no point off.
_SLACK = 1e-6
_INFEASIBLE = 2


def solve(
  net: Net, problem: Problem, row: int, signs: np.ndarray
) -> tuple[float, np.ndarray] | None:
  """Minimises a row over the part of the box where all signs are as given.

  Args:
    net: network.
    problem: box, rows and bounds of the neurons.
    row: index of the row.
    signs: `[N]` signs of the neurons that were split; the others are stable.

  Returns:
    The minimum and a point `[*shape]` where it is attained, or None where no
    input has these signs.

  Raises:
    RuntimeError: if the linear program is not solved.
  """
  slope, value, centre = _pieces(net, problem, jnp.asarray(signs), row)
  slope, value = np.asarray(slope, float), np.asarray(value, float)
  centre = np.asarray(centre, float)
  constant = value - slope @ centre
  chosen = np.flatnonzero(signs)
  sign = signs[chosen].astype(float)
  box = [np.asarray(part, float).reshape(-1) for part in problem.box]
  found = optimize.linprog(
    slope[-1],
    A_ub=-sign[:, None] * slope[chosen],
    b_ub=sign * constant[chosen] + _SLACK,
    bounds=np.stack(box, axis=1),
    method='highs',
  )
  if found.status == _INFEASIBLE:
    return None
  if not found.success:
    raise RuntimeError(f'linear program of a leaf: {found.message}')
  shape = problem.box.lower.shape[1:]
  return float(found.fun + constant[-1]), found.x.reshape(shape)


@functools.partial(jax.jit, static_argnames='net')
def _pieces(
  net: Net, problem: Problem, signs: jax.Array, row: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """The affine functions of this activation pattern.

  Returns:
    `[N+1, n]` slopes of the inputs of all neurons and of the row, their
    `[N+1]` values at the centre of the box, and that centre `[n]`.
  """
  graph = capture(net, problem.params, problem.box.lower)
  active = (signs > 0) | ((signs == 0) & (problem.neurons.lower >= 0))
  mask = unstack(graph, active.astype(problem.box.lower.dtype))
  centre = (problem.box.lower + problem.box.upper) / 2

  def outputs(flat):
    values = evaluate(
      graph, flat.reshape(centre.shape), lambda i, z: z * mask[i]
    )
    inputs = {i: values[source] for i, source in graph.relus.items()}
    margin = values[graph.output] @ problem.C[row]
    return jnp.concatenate([stack(graph, inputs), margin])

  flat = centre.reshape(-1)
  return jax.jacfwd(outputs)(flat), outputs(flat), flat
