"""Populations that are trained side by side, and what each member is worth."""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxlab import parallel
from jaxlab.certified import lanes, search_space
from jaxlab.certified.experiment_problem import Problem
from jaxlab.certified.losses import LOSSES
from jaxlab.certified.networks import Network
from jaxlab.harness import learners, training


def train(
  problem: Problem,
  config,
  method: str,
  eps: float,
  settings: Sequence[Mapping[str, float]],
  key: jax.Array,
  *,
  workdir=None,
  name: str = 'train',
) -> list[Any]:
  """Trains a network for each setting, `config.lanes` in one program.

  Args:
    problem: network and training pictures.
    config: of the run.
    method: a name in `losses.LOSSES`.
    eps: radius that is certified.
    settings: at most `config.lanes` points of the method's search space.
    key: of all that is random.
    workdir: takes metrics and checkpoints where `config.checkpoint_every` is
      not 0, so that a long training that is killed goes on.
    name: of this training in the workdir.

  Returns:
    The deployed parameters of each, or None for one that became not finite.
  """
  count = len(settings)
  padded = [*settings, *[settings[-1]] * (config.lanes - count)]
  values = [search_space.hyper(method, point, eps) for point in padded]
  steps = num_steps(config)
  state = training.fit(
    workdir if config.checkpoint_every else None,
    _learner(problem.network, method, steps, config.attack_steps),
    {'x': problem.train.x, 'y': problem.train.y},
    batch_size=config.batch_size,
    num_steps=steps,
    key=key,
    hyper={k: jnp.asarray([v[k] for v in values]) for k in values[0]},
    population=config.lanes,
    mesh=_mesh(config.lanes),
    log_every=steps,
    checkpoint_every=config.checkpoint_every or steps,
    name=name,
  )
  params, extra, failed = jax.device_get(
    (state.params, state.extra, state.failed_at)
  )
  return [
    lanes.deployed(problem.network, *_member((params, extra), i))
    if failed[i] < 0
    else None
    for i in range(count)
  ]


def num_steps(config) -> int:
  """Updates of one training."""
  return max(1, config.epochs * config.train // config.batch_size)


def _mesh(lanes: int) -> jax.sharding.Mesh:
  """As many devices as share the lanes evenly."""
  devices = jax.devices()
  count = math.gcd(lanes, len(devices))
  return parallel.mesh(devices=devices[:count])


@functools.lru_cache(maxsize=16)
def _learner(
  network: Network, method: str, steps: int, attack_steps: int
) -> learners.Learner:
  """The same object for the same training, which is then compiled once."""
  own: dict[str, Any] = (
    {'steps': attack_steps} if LOSSES[method].attacks else {}
  )
  parts = lanes.learner_parts(network, method, num_steps=steps, **own)
  learner = learners.gradient_learner(*parts, has_extra=True)
  convolves = any(layer.kind == 'conv' for layer in network.layers)
  if convolves and jax.default_backend() == 'cpu':
    return learner._replace(step=lanes.sequential(learner.step))
  return learner


def _member(tree: Any, i: int) -> Any:
  return jax.tree.map(lambda leaf: leaf[i], tree)
