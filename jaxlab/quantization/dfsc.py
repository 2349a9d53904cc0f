"""Reconstruction of a block: learned rounding, steps, gains and biases.

The loop of AdaRound (arXiv:2004.10568), BRECQ (arXiv:2102.05426) and QDrop
(arXiv:2203.05740). What the error costs is an `Objective`; dynamic
Fisher-subspace compensation builds it anew while it learns, from the path
between the float output and the output as it is rounded now.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxlab.quantization import fit, objectives, rounding
from jaxlab.quantization.types import Linear, States

_TINY = 1e-8
_OF_WEIGHTS = ('soft', 'log_gain', 'bias')
_FIRST_BETA, _LAST_BETA = 20.0, 2.0


class Hyper(NamedTuple):
  """Settings of the loop that may be mapped over; numbers or arrays.

  Attributes:
    rounding: learning rate of the rounding variables.
    steps: learning rate of steps and levels of activations, relative to the
      step.
    offsets: learning rate of their offsets, relative to the step.
    gains: learning rate of gains and biases.
    drop: share of the numbers of a block's input that are taken from the
      float network.
    penalty: weight of the push of rounding variables to 0 or 1, relative to
      the loss.
    warm_up: share of the updates before that push.
  """

  rounding: Any = 3e-2
  steps: Any = 2e-3
  offsets: Any = 0.0
  gains: Any = 0.0
  drop: Any = 0.5
  penalty: Any = 1.0
  warm_up: Any = 0.2


class History(NamedTuple):
  """What happened in a block.

  Attributes:
    losses: `[T]` of each update, without the push.
    change: `[refreshes]` relative change of the objective at each refresh:
      |new - old| / |old| of the values it gives to the errors of a batch.
    diverged: `[]` bool, whether the start was kept as a loss was not finite.
  """

  losses: jax.Array
  change: jax.Array
  diverged: jax.Array


def learnable(states: States) -> dict[str, dict[str, jax.Array]]:
  """What the loop changes, by site."""
  found = {}
  for name, state in states.items():
    entry = {'scale': state.act.scale, 'offset': state.act.offset}
    if state.act.levels is not None:
      entry['levels'] = state.act.levels
    if isinstance(state, Linear):
      entry |= {field: getattr(state, field) for field in _OF_WEIGHTS}
    found[name] = entry
  return found


@jax.jit
def _unmoved(start):
  """The loop's variables at the start: moves of activations are relative."""
  return {
    name: {f: x if f in _OF_WEIGHTS else 0 * x for f, x in entry.items()}
    for name, entry in start.items()
  }


def _moved(start, moves):
  """What is learned: steps times e^move, offsets and levels plus move steps.

  So one rate serves activations of all sizes, and a step stays positive.
  """
  found = {}
  for name, move in moves.items():
    entry, result = start[name], dict(move)
    scale = entry['scale']
    result['scale'] = scale * jnp.exp(move['scale'])
    result['offset'] = entry['offset'] + scale * move['offset']
    if 'levels' in entry:
      levels = entry['levels']
      gap = (levels[-1] - levels[0]) / max(len(levels) - 1, 1)
      result['levels'] = _rising(levels + gap * move['levels'])
    found[name] = result
  return found


def _rising(levels: jax.Array) -> jax.Array:
  """Sorts `[L]` few numbers by counting, which compiles sooner than a sort."""
  place = jnp.arange(len(levels))
  lower = levels < levels[:, None]
  equal = (levels == levels[:, None]) & (place < place[:, None])
  rank = jnp.sum(lower | equal, axis=1)
  return jnp.sum(jnp.where(rank == place[:, None], levels, 0), axis=1)


def merged(states: States, moves: dict[str, dict[str, jax.Array]]) -> States:
  """The states with what was learned."""
  return _placed(states, _moved(learnable(states), moves))


def _placed(states: States, learned) -> States:
  """The states with learned numbers in their places; computes nothing."""
  found = {}
  for name, state in states.items():
    entry = learned[name]
    act = {f: entry[f] for f in ('scale', 'offset', 'levels') if f in entry}
    changed = {'act': state.act._replace(**act)}
    if isinstance(state, Linear):
      changed |= {field: entry[field] for field in _OF_WEIGHTS}
    found[name] = state._replace(**changed)
  return found


def _rates(learned, hyper: Hyper):
  by_field = {
    'soft': hyper.rounding,
    'scale': hyper.steps,
    'levels': hyper.steps,
    'offset': hyper.offsets,
    'log_gain': hyper.gains,
    'bias': hyper.gains,
  }
  return {
    name: {field: by_field[field] for field in entry}
    for name, entry in learned.items()
  }


@functools.partial(
  jax.jit, static_argnames=('block_fn', 'steps', 'total', 'batch')
)
def learn(
  block_fn: Callable,
  context: Any,
  states: States,
  carry: tuple,
  objective: objectives.Objective,
  data: tuple[jax.Array, jax.Array, jax.Array],
  hyper: Hyper,
  key: jax.Array,
  first: jax.Array,
  *,
  steps: int,
  total: int,
  batch: int,
) -> tuple[tuple, jax.Array]:
  """Some updates of the loop, as one scan.

  Args:
    block_fn: `(context, states, x) -> y` with soft rounding.
    context: what the block needs besides, such as its parameters.
    states: of its sites.
    carry: learned tree, optimizer's state.
    objective: what errors cost.
    data: inputs from the quantized prefix, from the float network, and float
      outputs, each `[n, ...]`.
    hyper: rates.
    key: of all `total` updates.
    first: number of the first of these.
    steps: how many.
    total: of the whole loop.
    batch: examples an update.

  Returns:
    The carry and `[steps]` losses.
  """
  x_q, x_float, z = data

  def loss_fn(learned, index, key, progress):
    dropped = jax.random.bernoulli(key, hyper.drop, x_q[index].shape)
    x = jnp.where(dropped, x_float[index], x_q[index])
    y = block_fn(context, merged(states, learned), x)
    loss = objectives.value(objectives.pick(objective, index), y - z[index])
    push, count = _push(learned, progress, hyper)
    weight = hyper.penalty * jax.lax.stop_gradient(loss) / max(count, 1)
    return loss + weight * push, loss

  def update(carry, number):
    learned, opt_state = carry
    key_index, key_drop = jax.random.split(jax.random.fold_in(key, number))
    index = jax.random.choice(key_index, len(z), (batch,), replace=False)
    progress = number / total
    grads, loss = jax.grad(loss_fn, has_aux=True)(
      learned, index, key_drop, progress
    )
    directions, opt_state = _ADAM.update(grads, opt_state, learned)
    cosine = 0.5 * (1 + jnp.cos(jnp.pi * progress))
    learned = jax.tree.map(
      lambda x, d, rate: x - cosine * rate * d,
      learned,
      directions,
      _rates(learned, hyper),
    )
    return (learned, opt_state), loss

  return jax.lax.scan(update, carry, first + jnp.arange(steps))


_ADAM = optax.scale_by_adam()
_start = jax.jit(_ADAM.init)
_learned = jax.jit(_moved)


def _push(learned, progress, hyper: Hyper):
  """Sum of what pushes rounding variables to their ends, and their number."""
  share = jnp.clip(
    (progress - hyper.warm_up) / jnp.maximum(1 - hyper.warm_up, _TINY), 0, 1
  )
  beta = _FIRST_BETA + (_LAST_BETA - _FIRST_BETA) * share
  soft = [entry['soft'] for entry in learned.values() if 'soft' in entry]
  total = sum(jnp.sum(rounding.rounding_penalty(v, beta)) for v in soft)
  on = progress > hyper.warm_up
  return jnp.where(on, total, 0.0), sum(v.size for v in soft)


def reconstruct_block(
  block_fn: Callable,
  context: Any,
  states: States,
  data: tuple[jax.Array, jax.Array, jax.Array],
  objective_fn: Callable[[jax.Array | None], objectives.Objective],
  key: jax.Array,
  *,
  hyper: Hyper,
  steps: int,
  batch: int = 32,
  refreshes: int = 0,
  pieces: int = 1,
  soft_fn: Callable | None = None,
) -> tuple[States, History]:
  """Learns the rounding of a block.

  Args:
    block_fn: `(context, states, x) -> y` with hard rounding; hashable.
    context: tree of what the block needs besides.
    states: of its sites, at the start.
    data: inputs from the quantized prefix, from the float network, and float
      outputs, each `[n, ...]`.
    objective_fn: from None, or the outputs as they are rounded now, to what
      errors cost.
    key: of batches and drops.
    hyper: learning rates and shares.
    steps: T, updates.
    batch: examples an update.
    refreshes: how often, at equal distances, the objective is built anew.
    pieces: without refreshes, into how many equal parts the updates are
      divided where that is possible; loops with as many refreshes plus 1 then
      run the same compiled program. It changes nothing else.
    soft_fn: `block_fn` with soft rounding; by default the same function.

  Returns:
    The states with their rounding decided, and what happened. Where a loss
    was not finite, these are the states of the start.
  """
  soft_fn = block_fn if soft_fn is None else soft_fn
  batch = min(batch, len(data[2]))
  learned = learnable(states)
  moves = _unmoved(learned)
  carry: tuple = (moves, _start(moves))
  objective = objective_fn(None)
  if refreshes or steps % pieces:
    pieces = refreshes + 1
  parts = [steps // pieces] * pieces
  parts[-1] += steps - sum(parts)
  losses, changes, first = [], [], 0
  for number, count in enumerate(parts):
    if number and refreshes:
      current = _placed(states, _learned(learned, carry[0]))
      now = outputs(block_fn, context, current, data[0])
      fresh = objective_fn(now)
      error = now[:batch] - data[2][:batch]
      changes.append(_change(objective, fresh, error))
      objective = fresh
    if not count:
      continue
    carry, found = learn(
      soft_fn,
      context,
      states,
      carry,
      objective,
      data,
      hyper,
      key,
      jnp.asarray(first),
      steps=count,
      total=steps,
      batch=batch,
    )
    losses.append(found)
    first += count
  all_losses = jnp.concatenate(losses) if losses else jnp.zeros(0)
  final, diverged = _settled(learned, carry[0], moves, all_losses)
  change = jnp.stack(changes) if changes else jnp.zeros(0)
  return _placed(states, final), History(all_losses, change, diverged)


@jax.jit
def _settled(start, moves, first, losses):
  """Learned numbers with decided rounding; after divergence, the start."""
  leaves = [losses, *jax.tree.leaves(moves)]
  diverged = ~jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in leaves]))
  kept = jax.tree.map(
    lambda new, old: jnp.where(diverged, old, new), moves, first
  )
  found = {
    name: entry
    | ({'soft': fit.settled(entry['soft'])} if 'soft' in entry else {})
    for name, entry in _moved(start, kept).items()
  }
  return found, diverged


@functools.partial(jax.jit, static_argnames='block_fn')
def outputs(block_fn, context, states, x):
  """`block_fn(context, states, x)`, compiled."""
  return block_fn(context, states, x)


@jax.jit
def _change(old, new, error):
  """Relative change of the costs of single examples."""

  def costs(objective):
    each = lambda i: objectives.value(  # noqa: E731
      objectives.pick(objective, i[None]), error[i][None]
    )
    return jax.vmap(each)(jnp.arange(len(error)))

  before, after = costs(old), costs(new)
  norm = jnp.linalg.norm
  return norm(after - before) / jnp.maximum(norm(before), _TINY)
