"""What a trained network is worth: an attack, and one bound after the other."""

import functools
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.certified import attacks, bounds
from jaxlab.certified.interval import check_labels, input_box, margin_matrix
from jaxlab.certified.loss_terms import Clip
from jaxlab.certified.networks import Network
from jaxlab.errors import UserError

# Bounds that may be stages.
STAGES = ('ibp', 'crown_ibp', 'crown', 'alpha_crown')


class Evaluation(NamedTuple):
  """What a network is worth on some examples.

  Attributes:
    natural: `[n]` bool, whether the clean example is classified correctly.
    certified: stage -> `[n]` bool, proved by it or by one before; in order.
    attacked: `[n]` bool, whether the attack has not broken the example.
  """

  natural: np.ndarray
  certified: dict[str, np.ndarray]
  attacked: np.ndarray

  @property
  def natural_accuracy(self) -> float:
    """Share of the clean examples."""
    return float(self.natural.mean())

  @property
  def certified_accuracy(self) -> float:
    """Share that the last stage has left proved."""
    return float(self.proved.mean())

  @property
  def attacked_accuracy(self) -> float:
    """Share that the attack has left."""
    return float(self.attacked.mean())

  @property
  def proved(self) -> np.ndarray:
    """`[n]` bool, proved by some stage."""
    return list(self.certified.values())[-1]

  @property
  def violations(self) -> int:
    """Number of examples both proved and broken; only a bug gives one."""
    return int(np.sum(self.proved & ~self.attacked))


def evaluate(
  network: Network,
  params: Any,
  x: np.ndarray,
  y: np.ndarray,
  eps: float,
  key: jax.Array,
  *,
  stages: Sequence[str] = ('ibp', 'crown_ibp', 'alpha_crown'),
  intermediate: Literal['crown', 'ibp'] = 'crown',
  batch_size: int = 256,
  steps: int = 40,
  restarts: int = 1,
  clip: Clip = (0, 1),
) -> Evaluation:
  """Attacks examples, and proves them by one bound after the other.

  A stage keeps what those before it have proved, and sees only what is
  classified correctly and still to be proved. All batches have one size, so
  that a stage is compiled once for all networks of a shape.

  Args:
    network: the network.
    params: its parameters, with statistics where it has batch normalization.
    x: `[n, *input_shape]` examples.
    y: `[n]` labels.
    eps: radius that is certified.
    key: PRNG key of the attack.
    stages: names of functions of `bounds`, cheapest first.
    intermediate: bounds of the hidden layers in the stages `crown` and
      `alpha_crown`; `'ibp'` is much cheaper for convolutional networks.
    batch_size: examples at a time.
    steps: gradients of each restart of the attack.
    restarts: of the attack.
    clip: range of the data.

  Returns:
    Accuracies for each example.

  Raises:
    UserError: for an unknown stage, a bad radius or label, data outside `clip`,
      or a bound that is NaN.
  """
  unknown = [name for name in stages if name not in STAGES]
  if unknown or not stages:
    raise UserError(f'stages {unknown or stages} must be among {STAGES}.')
  if batch_size < 1 or len(x) != len(y) or not len(x):
    raise UserError(
      f'{len(x)} examples, {len(y)} labels, batch_size {batch_size}: give as '
      'many labels as examples, and at least one of each.'
    )
  box = input_box(jnp.asarray(x), eps, clip)
  check_labels(jnp.asarray(y), network.num_classes)
  x, y = np.asarray(x), np.asarray(y)
  attack = functools.partial(
    _attack, network, steps=steps, restarts=restarts, clip=clip
  )
  every = np.arange(len(x))
  natural, attacked = _in_batches(
    lambda x, y: attack(params, x, y, eps, key), every, (x, y), batch_size
  )
  proved = np.zeros(len(x), bool)
  certified = {}
  for name in stages:
    # What the attack has broken is bounded as well: a check of both.
    left = np.flatnonzero(natural & ~proved)
    if left.size:
      bound = functools.partial(_least_margin, network, name, intermediate)
      (least,) = _in_batches(
        lambda low, high, y, bound=bound: (bound(params, low, high, y),),
        left,
        (*map(np.asarray, box), y),
        batch_size,
      )
      if np.isnan(least).any():
        raise UserError(
          f'{name} gives NaN for {np.isnan(least).sum()} examples: the network '
          'has parameters that are not finite, or values that overflow.'
        )
      proved[left] = least > 0
    certified[name] = proved.copy()
  return Evaluation(natural, certified, attacked)


def _in_batches(fn, rows, arrays, size) -> tuple[np.ndarray, ...]:
  """Calls `fn` on rows of arrays, `size` at a time; the last is filled up."""
  found = []
  for start in range(0, len(rows), size):
    taken = rows[start : start + size]
    filled = np.concatenate([taken, np.repeat(taken[-1:], size - len(taken))])
    parts = fn(*(array[filled] for array in arrays))
    found.append([np.asarray(part)[: len(taken)] for part in parts])
  return tuple(map(np.concatenate, zip(*found, strict=True)))


@functools.partial(
  jax.jit, static_argnames=('network', 'steps', 'restarts', 'clip')
)
def _attack(network, params, x, y, eps, key, *, steps, restarts, clip):
  """Whether examples are classified correctly, clean and attacked."""
  point = attacks.pgd(
    network.apply,
    params,
    x,
    y,
    eps,
    key,
    steps=steps,
    restarts=restarts,
    clip=clip,
  )
  clean, worst = (
    attacks.margin(network.apply(params, points), y) > 0
    for points in (x, point)
  )
  return clean, worst & clean


@functools.partial(
  jax.jit, static_argnames=('network', 'stage', 'intermediate')
)
def _least_margin(network, stage, intermediate, params, lower, upper, y):
  """The smallest lower bound of the margins of each example."""
  rows = margin_matrix(y, network.num_classes)
  bound = getattr(bounds, stage)
  if stage in ('crown', 'alpha_crown'):
    bound = functools.partial(bound, intermediate=intermediate)
  box = bounds.Interval(lower, upper)
  return bound(network.apply, params, box, rows).lower.min(axis=-1)
