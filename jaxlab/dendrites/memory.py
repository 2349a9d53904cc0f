"""How much memory the gradient of a run takes, known before it is compiled."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlab.dendrites.network import Network
from jaxlab.dendrites.remat import Remat, checkpointing_scan, chosen
from jaxlab.dendrites.simulate import step
from jaxlab.dendrites.state import init_params, init_state
from jaxlab.errors import UserError

GIB = 2**30
# XLA allots each array a multiple of this many bytes.
_ALIGNMENT = 64


class MemoryPlan(NamedTuple):
  """Bytes that the gradient of a run holds at its peak, by part.

  Attributes:
    parameters: parameters, their gradients as summed over a step, a block and
      the run, and what all steps share.
    state: the state before and after a step, what that step computes, and the
      cotangents of both.
    stored: the states that the way there leaves for the way back.
    residuals: what the steps between two stored states leave for it.
    recordings: recorded voltages of all steps, and their cotangent.
  """

  parameters: int
  state: int
  stored: int
  residuals: int
  recordings: int

  @property
  def total(self) -> int:
    """Sum of the parts."""
    return sum(self)


class _Loops(NamedTuple):
  """What nested loops keep: states, and steps with all their residuals."""

  states: int
  steps: int


def memory_plan(
  net: Network,
  steps: int,
  dt: float = 0.1,
  batch: int = 1,
  remat: Remat = 'auto',
  *,
  recorded: int | None = None,
) -> MemoryPlan:
  """Plans the memory of a gradient to all parameters of a network.

  It is counted from the shapes of one step and of what its derivative keeps;
  nothing is compiled or run. A gradient to fewer parameters takes less.

  Args:
    net: the network.
    steps: T, the number of steps.
    dt: ms; it matters where the state keeps spikes for the longest delay.
    batch: B, the number of runs side by side.
    remat: as in `simulate`.
    recorded: number of nodes whose voltage is recorded; None is one a cell.

  Returns:
    The plan, in bytes.

  Raises:
    UserError: steps or batch below 1.
  """
  if steps < 1 or batch < 1:
    raise UserError(
      f'memory_plan: steps = {steps} and batch = {batch} must be 1 or more.'
    )
  params = jax.eval_shape(lambda: init_params(net))
  state = jax.eval_shape(
    lambda p: init_state(net, p, batch=batch, dt=dt), params
  )
  changing = (state.v, state.channels, state.synapses)
  loops = _loops(chosen(remat, changing, steps), steps)
  shared, each = _residuals(net, params, state, dt)
  nodes = len(net.cells) if recorded is None else recorded
  return MemoryPlan(
    parameters=4 * _size(params) + _size(shared),
    state=4 * _size(state) + 2 * _size(each),
    stored=_size(state, loops.states),
    residuals=_size(each, loops.steps),
    recordings=2 * steps * nodes * batch * state.v.dtype.itemsize,
  )


def _size(tree: Any, copies: int = 1) -> int:
  """Bytes of arrays, or of stacks of so many of each."""
  sizes = [copies * x.size * x.dtype.itemsize for x in jax.tree.leaves(tree)]
  return sum(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)


def _residuals(net: Network, params, state, dt: float) -> tuple[list, list]:
  """Arrays that the derivative keeps: for all steps together, and for each."""

  def kept(params, state):
    _, pull = jax.vjp(lambda p, s: step(net, p, s, dt=dt), params, state)
    return jax.tree.leaves(pull)

  jaxpr = jax.make_jaxpr(kept)(params, state).jaxpr
  # What depends on the parameters alone is the same in all steps.
  changing = set(jaxpr.invars[len(jax.tree.leaves(params)) :])
  for eqn in jaxpr.eqns:
    if any(v in changing for v in eqn.invars if not hasattr(v, 'val')):
      changing.update(eqn.outvars)
  leaves = {v for v in jaxpr.outvars if not hasattr(v, 'val')}
  return (
    [v.aval for v in leaves if v not in changing],
    [v.aval for v in leaves if v in changing],
  )


def _loops(remat: Remat, steps: int) -> _Loops:
  """Counts on a loop without content what the real one would keep."""

  def empty(carry, x):
    return carry, x

  def run(carry):
    return checkpointing_scan(remat, steps)(
      empty, carry, jnp.arange(steps), steps
    )

  return _kept(jax.make_jaxpr(run)(0.0).jaxpr)


def _kept(jaxpr) -> _Loops:
  found = []
  for eqn in jaxpr.eqns:
    if eqn.primitive.name != 'scan':
      continue
    inner = list(_checkpoints(eqn.params['jaxpr'].jaxpr))
    length = eqn.params['length']
    if inner:
      below = _kept(inner[0])
      found.append(_Loops(length + below.states, below.steps))
    else:
      found.append(_Loops(0, length))
  # One loop after the other: the way back frees the last before the first.
  return _Loops(
    sum(each.states for each in found),
    max((each.steps for each in found), default=1),
  )


def _checkpoints(jaxpr) -> Iterator[Any]:
  for eqn in jaxpr.eqns:
    if eqn.primitive.name in ('checkpoint', 'remat', 'remat2'):
      yield eqn.params['jaxpr']
