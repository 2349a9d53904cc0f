"""Training of many configurations in one program.

Everything that a search changes is a traced scalar in `hyper`, so that the
members of a population share one compiled step:

    parts = lanes.learner_parts(network, 'sabr', num_steps=1000)
    learner = gradient_learner(*parts, has_extra=True)
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxlab.certified import (
  loss_latent,
  loss_terms,
  regularizers,
  schedules,
)
from jaxlab.certified.interval import input_box
from jaxlab.certified.loss_terms import Clip
from jaxlab.certified.losses import LOSSES
from jaxlab.certified.networks import Network
from jaxlab.errors import UserError

Hyper = Mapping[str, Any]

# Knobs that every method reads, besides those of its loss.
SHARED = ('learning_rate', 'l1', 'eps_train', 'warmup', 'ramp', 'regularizer')
# Knobs that go from one value to another as the radius grows.
RAMPED = ('kappa', 'beta')


class Parts(NamedTuple):
  """What a learner by gradients is made of.

  Attributes:
    init: `key -> (params, extra)`; extra holds the number of the step and the
      running statistics of batch normalization.
    loss: `(params, batch, key, hyper, *, extra) -> (loss, (metrics, extra))`;
      a batch is `{'x': [B, *shape], 'y': [B]}`.
    optimizer: `hyper -> GradientTransformation`.
  """

  init: Callable[..., Any]
  loss: Callable[..., Any]
  optimizer: Callable[[Hyper], optax.GradientTransformation]


def knobs(method: str) -> tuple[str, ...]:
  """Names that `hyper` has for a method, all of them scalars.

  The shared ones: `learning_rate`; `l1` the weight of the kernels' absolute
  sum; `eps_train` the radius after the ramp; `warmup` and `ramp` the shares of
  all steps with radius 0 and with a growing one; `regularizer` the weight of
  the warm-up regularizers. `kappa_start`, `kappa_end` and the like are the
  two ends of a knob that follows the radius.

  Raises:
    UserError: if there is no such method.
  """
  own: list[str] = []
  for knob in _method(method).knobs:
    own += [f'{knob}_start', f'{knob}_end'] if knob in RAMPED else [knob]
  return (*SHARED, *own)


def learner_parts(
  network: Network,
  method: str,
  *,
  num_steps: int,
  milestones: tuple[float, ...] = (5 / 7, 6 / 7),
  decay: float = 0.2,
  momentum: float = 0.9,
  max_norm: float = 10.0,
  split: int | None = None,
  clip: Clip = (0, 1),
  **settings: Any,
) -> Parts:
  """Makes the parts of a learner for one method.

  Args:
    network: what is trained.
    method: a name in `losses.LOSSES`.
    num_steps: steps of the whole training.
    milestones: shares of the steps at which the learning rate falls.
    decay: factor by which it falls.
    momentum: with which running statistics keep their past.
    max_norm: at which the norm of the gradient is cut.
    split: of taps and staps: number of layers before the latent box; by
      default all but the last two.
    clip: range of the data.
    **settings: further static arguments of the loss, such as `steps`.

  Returns:
    The parts; `hyper` must have all of `knobs(method)`.

  Raises:
    UserError: for an unknown method or a split that is not inside the network.
  """
  if num_steps < 1:
    raise UserError(f'num_steps is {num_steps}: give at least 1.')
  loss = _method(method).loss
  if method in ('taps', 'staps'):
    settings['split'] = _split(network, split)
  loss = functools.partial(loss, clip=clip, **settings)

  def init(key):
    extra = {
      'step': jnp.int32(0),
      'statistics': network.initial_statistics(),
    }
    return network.init(key), extra

  def optimizer(hyper):
    turns = [share * num_steps for share in milestones]
    rate = hyper['learning_rate']
    return optax.chain(
      optax.clip_by_global_norm(max_norm),
      optax.adam(lambda step: schedules.step_decay(rate, step, turns, decay)),
    )

  def total(params, batch, key, hyper, *, extra):
    x, y = batch['x'], batch['y']
    share = schedules.progress(
      extra['step'], hyper['warmup'] * num_steps, hyper['ramp'] * num_steps
    ).astype(x.dtype)
    grown = schedules.smooth(share)
    eps = hyper['eps_train'] * grown
    fresh = network.statistics(params, x)
    full = network.with_statistics(params, fresh)
    box = input_box(x, eps, clip)
    passed = loss_terms.interval_pass(network.apply, full, box)
    value, terms = loss(
      *(network.apply, full, x, y, eps, _at(method, hyper, grown), key),
      **({'passed': passed} if LOSSES[method].whole else {}),
    )
    layers = regularizers.relu_bounds(passed)
    penalty = regularizers.tightness(layers, box) + regularizers.balance(layers)
    value += hyper['regularizer'] * (1 - grown) * penalty
    value += hyper['l1'] * regularizers.l1(params)
    extra = {
      'step': extra['step'] + 1,
      'statistics': _blend(extra['statistics'], fresh, momentum),
    }
    return value, ({**terms, 'eps': eps, 'penalty': penalty}, extra)

  return Parts(init, total, optimizer)


def sequential(
  step: Callable[..., Any], *, unroll: bool = False
) -> Callable[..., Any]:
  """A step whose `vmap` takes the members one after the other.

  On a CPU the products of batched kernels are slow: convolutional networks
  train faster so. An accelerator is better off without.

  Args:
    step: a pure function of arrays, such as the step of a learner.
    unroll: whether the program has a copy of the step for each member, which
      takes longer to compile, in place of a loop. XLA's convolutions are fast
      on a CPU only outside of loops: right for `convolution='lax'` and losses
      without an attack; else use a loop and `convolution='patches'`.
  """
  if not unroll:
    return jax.custom_batching.sequential_vmap(step)
  unrolled = jax.custom_batching.custom_vmap(step)

  @unrolled.def_vmap
  def rule(size, batched, *arguments):
    def member(index):
      return step(
        *jax.tree.map(
          lambda own, x: x[index] if own else x, tuple(batched), arguments
        )
      )

    members = [member(index) for index in range(size)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
    return stacked, jax.tree.map(lambda _: True, stacked)

  return unrolled


def deployed(network: Network, params: Any, extra: Any) -> Any:
  """Parameters of a trained member with its running statistics."""
  return network.with_statistics(params, extra['statistics'])


def _method(name: str):
  if name not in LOSSES:
    raise UserError(f'method {name!r} is unknown: use one of {list(LOSSES)}.')
  return LOSSES[name]


def _at(method: str, hyper: Hyper, grown: jax.Array) -> dict[str, Any]:
  """Knobs of the loss where the radius is this share of its last value."""
  return {
    knob: schedules.between(hyper[f'{knob}_start'], hyper[f'{knob}_end'], grown)
    if knob in RAMPED
    else hyper[knob]
    for knob in LOSSES[method].knobs
  }


def _split(network: Network, split: int | None) -> loss_latent.Split:
  depth = len(network.layers)
  at = max(depth - 2, 1) if split is None else split
  if not 0 < at < depth:
    raise UserError(
      f'split is {at}: it must be between 1 and {depth - 1}, for the network '
      f'has {depth} layers.'
    )
  example = jax.ShapeDtypeStruct((1, *network.input_shape), jnp.float32)
  shapes = jax.eval_shape(network.init, jax.random.key(0))
  shapes = network.with_statistics(shapes, network.initial_statistics())
  first = functools.partial(network.apply_layers, start=0, stop=at)
  shape = jax.eval_shape(first, shapes, example).shape[1:]

  def flat(params, x):
    return first(params, x).reshape(x.shape[0], -1)

  def second(params, latent):
    latent = latent.reshape(latent.shape[0], *shape)
    return network.apply_layers(params, latent, at, depth)

  return flat, second


def _blend(old: Any, new: Any, momentum: float) -> Any:
  return jax.tree.map(
    lambda a, b: momentum * a + (1 - momentum) * jax.lax.stop_gradient(b),
    old,
    new,
  )
