"""Where the arrays of a training run lie on a mesh of devices."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxlab import errors, parallel
from jaxlab.harness import learners

# Of the name of a leaf of the state, such as 'params.dense.kernel', and its
# shape.
Rule = Callable[[str, Sequence[int]], NamedSharding]


@dataclasses.dataclass(frozen=True)
class Placement:
  """How state and batches are spread.

  One model has its batch spread over the axis `data` (the first axis where no
  axis has that name), and with `shard_params` also the parameters and the
  optimizer's state. A population has its members spread over that axis.

  Attributes:
    mesh: the devices.
    population: number of members, or None.
    shard_params: whether one model is itself spread (FSDP), or the rule that
      says how each leaf of its state is.
    member_batches: whether each member has a batch of its own.
  """

  mesh: Mesh
  population: int | None = None
  shard_params: bool | Rule = False
  member_batches: bool = False

  def __post_init__(self) -> None:
    """Checks that the parts fit one another.

    Raises:
      UserError: if they do not.
    """
    if self.population is None:
      if self.member_batches:
        raise errors.UserError('member_batches=True needs a population.')
      return
    if self.shard_params:
      raise errors.UserError(
        'a population is spread over the devices by members; leave out'
        ' shard_params.'
      )
    self._check_divides('population', self.population)

  @property
  def axis(self) -> str:
    """Name of the axis along which batches or members are spread."""
    names = self.mesh.axis_names
    return 'data' if 'data' in names else names[0]

  @property
  def spread(self) -> NamedSharding:
    """The first axis of an array is spread."""
    return NamedSharding(self.mesh, PartitionSpec(self.axis))

  @property
  def copied(self) -> NamedSharding:
    """Every device has the whole array."""
    return NamedSharding(self.mesh, PartitionSpec())

  @property
  def batch(self) -> NamedSharding:
    """Of every leaf of a batch."""
    shared = self.population is not None and not self.member_batches
    return self.copied if shared else self.spread

  @property
  def hyper(self) -> NamedSharding:
    """Of every leaf of `hyper`."""
    return self.copied if self.population is None else self.spread

  def check_batch(self, batch: Any) -> None:
    """Refuses a batch of global shapes that cannot be spread.

    Raises:
      UserError: if the first axis does not fit the devices or the members.
    """
    for leaf in jax.tree.leaves(batch):
      shape = np.shape(leaf)
      if not shape:
        raise errors.UserError('a batch holds a scalar; give it a first axis.')
      if self.member_batches and shape[0] != self.population:
        raise errors.UserError(
          f'a batch starts with {shape[0]} rows, not with one for each of the'
          f' {self.population} members.'
        )
      if self.population is None:
        self._check_divides('batch', shape[0])

  def state(self, shapes: learners.TrainState) -> learners.TrainState:
    """Returns the sharding of every leaf of a state of these shapes."""
    if self.population is not None:
      spread = jax.tree.map(lambda _: self.spread, shapes)
      return spread._replace(step=self.copied)
    rule = self.shard_params
    if callable(rule):
      return jax.tree_util.tree_map_with_path(
        lambda path, leaf: rule(
          jax.tree_util.keystr(path, simple=True, separator='.'), leaf.shape
        ),
        shapes,
      )
    return jax.tree.map(self._leaf, shapes)

  def _leaf(self, leaf: Any) -> NamedSharding:
    """Spreads the largest axis that the devices divide, if there is one."""
    count = self.mesh.shape[self.axis]
    fitting = [n for n in leaf.shape if n % count == 0 and n >= count]
    if not self.shard_params or not fitting:
      return self.copied
    position = leaf.shape.index(max(fitting))
    spec = PartitionSpec(*[None] * position, self.axis)
    return NamedSharding(self.mesh, spec)

  def _check_divides(self, what: str, size: int) -> None:
    count = self.mesh.shape[self.axis]
    if size % count:
      raise errors.UserError(
        f'a {what} of {size} does not divide over the {count} devices of the'
        f' mesh axis {self.axis!r}; choose a multiple of {count}, or fewer'
        ' devices.'
      )


def default_mesh() -> Mesh:
  """One device, or in a run over several processes all of them."""
  everywhere = jax.process_count() > 1
  return parallel.mesh(devices=jax.devices()[: None if everywhere else 1])


def put(tree: Any, sharding: NamedSharding) -> Any:
  """Spreads arrays that every process has over the devices of all."""
  # device_put knows only the devices of its own process.
  return jax.jit(lambda x: x, out_shardings=sharding)(tree)
