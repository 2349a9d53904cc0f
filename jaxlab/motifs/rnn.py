"""Recurrent networks with a fixed graph, and the gated ones beside them.

    h' = (1 - a) h + a phi((Mask * W) h + B u + b) + noise

Time comes first: inputs are `[T, batch, I]`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.motifs.models import activation_fn

Variables = Any
GATED_CELLS = {'lstm': nn.OptimizedLSTMCell, 'gru': nn.GRUCell}


class RNNOutput(NamedTuple):
  """What a network returns.

  Attributes:
    outputs: `[T, batch, O]` readout, logits for tasks with choices.
    states: `[T, batch, N]` state after each step.
  """

  outputs: jax.Array
  states: jax.Array


class MotifRNN(nn.Module):
  """Leaky rate units on a fixed graph, with a linear readout.

  The graph is given once, to `init`: it is kept in the collection `graph` as
  the mask of the weights `W[j, i]`, from unit i to unit j. Weights and their
  gradients are exactly 0 outside it. Variables of many graphs stack, and
  `jax.vmap` trains them together:

      model = MotifRNN(num_units=48, num_outputs=10)
      variables = model.init(key, inputs, adjacency=A, weights=W)
      outputs, states = model.apply(variables, inputs)

  Attributes:
    num_units: N.
    num_outputs: O.
    alpha: share of the state that is renewed in a step, dt / tau.
    gain: standard deviation of the initial weights times the square root of
      the mean in-degree, where no weights are given.
    activation: name of phi.
  """

  num_units: int
  num_outputs: int
  alpha: float = 0.2
  gain: float = 1.0
  activation: str = 'tanh'

  @nn.compact
  def __call__(
    self,
    inputs: jax.Array,
    *,
    adjacency: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    initial_state: jax.Array | None = None,
    recurrent_noise: ArrayLike | None = None,
  ) -> RNNOutput:
    """Runs the network.

    Args:
      inputs: `[T, batch, I]`.
      adjacency: `[N, N]`, `A[i, j]` is an edge i -> j; read by `init` only, and
        None is all edges without self-loops.
      weights: `[N, N]` initial `W[j, i]`; read by `init` only.
      initial_state: `[batch, N]`; None is 0.
      recurrent_noise: standard deviation of the noise that is added to the
        state in each step; needs `rngs={'noise': key}`. None adds none.

    Returns:
      Readout and states.
    """
    phi = activation_fn(self.activation)
    mask = self._mask(adjacency, inputs.dtype)
    W = mask * self.param(
      'recurrent', _masked_init(mask, weights, self.gain), mask.shape
    )
    fed = nn.Dense(self.num_units, name='input')(inputs)
    state = initial_state
    if state is None:
      state = jnp.zeros((*inputs.shape[1:-1], self.num_units), fed.dtype)
    key = None if recurrent_noise is None else self.make_rng('noise')

    def step(h, xs):
      t, u = xs
      after = (1 - self.alpha) * h + self.alpha * phi(h @ W.T + u)
      if key is not None:
        draw = jax.random.normal(jax.random.fold_in(key, t), h.shape, h.dtype)
        after = after + jnp.asarray(recurrent_noise, h.dtype) * draw
      return after, after

    times = jnp.arange(inputs.shape[0])
    _, states = jax.lax.scan(step, state, (times, fed))
    outputs = nn.Dense(self.num_outputs, name='readout')(states)
    return RNNOutput(outputs, states)

  def _mask(self, adjacency: ArrayLike | None, dtype: Any) -> jax.Array:
    """The fixed mask `[N, N]` in the orientation of the weights."""
    n = self.num_units

    def init():
      A = 1 - jnp.eye(n) if adjacency is None else jnp.asarray(adjacency)
      if A.shape != (n, n):
        raise UserError(
          f'adjacency has shape {A.shape}, but the network has {n} units'
        )
      return (A != 0).T.astype(dtype)

    return self.variable('graph', 'mask', init).value


def _masked_init(
  mask: jax.Array, weights: ArrayLike | None, gain: float
) -> Callable[..., jax.Array]:
  """Given weights, or normal ones scaled by the mean in-degree, on the mask."""

  def init(key, shape):
    if weights is not None:
      return mask * jnp.asarray(weights, mask.dtype)
    degree = jnp.maximum(jnp.sum(mask) / shape[0], 1)
    normal = jax.random.normal(key, shape, mask.dtype)
    return mask * normal * gain / jnp.sqrt(degree)

  return init


class GatedRNN(nn.Module):
  """An LSTM or GRU with a linear readout.

  Attributes:
    num_units: units of the cell.
    num_outputs: O.
    cell: 'lstm' or 'gru'.
  """

  num_units: int
  num_outputs: int
  cell: str = 'gru'

  @nn.compact
  def __call__(self, inputs: jax.Array) -> RNNOutput:
    """Runs `[T, batch, I]` inputs."""
    cell = _gated_cell(self.cell)(self.num_units, name='cell')
    states = jnp.asarray(nn.RNN(cell, time_major=True)(inputs))
    return RNNOutput(nn.Dense(self.num_outputs, name='readout')(states), states)


def _gated_cell(name: str) -> Any:
  if name not in GATED_CELLS:
    raise UserError(
      f'unknown cell {name!r}; choose one of {", ".join(GATED_CELLS)}'
    )
  return GATED_CELLS[name]


def num_trainable(variables: Variables) -> jax.Array:
  """Trainable parameters; of the recurrent weights only those on the graph."""
  total = sum(leaf.size for leaf in jax.tree.leaves(variables['params']))
  mask = variables.get('graph', {}).get('mask')
  if mask is None:
    return jnp.asarray(total)
  return total - mask.size + jnp.sum(mask).astype(jnp.int32)


def parameter_count(
  kind: str,
  num_units: int,
  num_inputs: int,
  num_outputs: int,
  num_edges: int | None = None,
) -> int:
  """Trainable parameters of a network of a kind.

  Args:
    kind: 'motif', 'lstm' or 'gru'.
    num_units: N.
    num_inputs: I.
    num_outputs: O.
    num_edges: E of a 'motif' network; None is all edges.

  Returns:
    Their number.

  Raises:
    UserError: if `kind` is unknown.
  """
  n = num_units
  readout = (n + 1) * num_outputs
  if kind == 'motif':
    edges = n * (n - 1) if num_edges is None else num_edges
    return edges + (num_inputs + 1) * n + readout
  _gated_cell(kind)
  if kind == 'lstm':
    return 4 * n * (num_inputs + n + 1) + readout
  # The GRU has one bias for each input gate and one for the candidate's state.
  return 3 * n * (num_inputs + n + 1) + n + readout


def matched_units(
  kind: str, num_parameters: int, num_inputs: int, num_outputs: int
) -> int:
  """The number of units with which a network comes nearest to a budget.

  Args:
    kind: 'motif' (with all edges), 'lstm' or 'gru'.
    num_parameters: the budget.
    num_inputs: I.
    num_outputs: O.

  Returns:
    Units, at least 1.
  """

  def excess(n):
    count = parameter_count(kind, n, num_inputs, num_outputs)
    return abs(count - num_parameters)

  return min(range(1, num_parameters + 2), key=excess)
