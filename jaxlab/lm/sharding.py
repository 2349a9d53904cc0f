"""Which axis of a parameter lies along which axis of a device mesh.

Each axis of a parameter has a name of its own (`vocab`, `model`, `heads`,
`mlp`); rules say along which mesh axis a name is spread. An axis that the
devices do not divide is not spread.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Rules = Mapping[str, str]

# Every parameter is spread over the devices of the batch.
FSDP: Rules = {'width': 'data'}
# Heads, hidden units and tokens are spread: each device computes a part.
TENSOR: Rules = {'heads': 'model', 'mlp': 'model', 'vocab': 'model'}
FSDP_TENSOR: Rules = {**FSDP, **TENSOR}

_NAMES: Mapping[str, Sequence[str]] = {
  'embedding': ('vocab', 'width'),
  'head': ('width', 'vocab'),
  'q/kernel': ('width', 'heads'),
  'k/kernel': ('width', 'heads'),
  'v/kernel': ('width', 'heads'),
  'q/bias': ('heads',),
  'k/bias': ('heads',),
  'v/bias': ('heads',),
  'o/kernel': ('heads', 'width'),
  'gate/kernel': ('width', 'mlp'),
  'up/kernel': ('width', 'mlp'),
  'down/kernel': ('mlp', 'width'),
}


def partition_spec(
  path: str, shape: Sequence[int], mesh: Mesh, rules: Rules = FSDP
) -> PartitionSpec:
  """Returns how a parameter, or a moment of its optimizer, is spread.

  Args:
    path: ends with the name of the parameter, parts joined by '/' or '.':
      'layers/q/kernel', 'opt_state.0.mu.layers.q.kernel'.
    shape: of the leaf; a stacked one has the blocks first.
    mesh: the devices.
    rules: from names of axes to axes of the mesh, such as `FSDP`.

  Raises:
    ValueError: if a rule names an axis that the mesh has not.
  """
  unknown = [axis for axis in rules.values() if axis not in mesh.axis_names]
  if unknown:
    raise ValueError(
      f'rules name the mesh axis {unknown[0]!r}; the mesh has'
      f' {", ".join(mesh.axis_names)}.'
    )
  named = {name for axes in _NAMES.values() for name in axes}
  if unnamed := sorted(set(rules) - named):
    raise ValueError(
      f'rules name {unnamed[0]!r}; axes of parameters are'
      f' {", ".join(sorted(named))}.'
    )
  path = path.replace('.', '/')
  names = next(
    (each for end, each in _NAMES.items() if f'/{path}'.endswith(f'/{end}')),
    (),
  )
  if len(names) > len(shape):
    return PartitionSpec()
  before = len(shape) - len(names)
  fitting: list[str | None] = [None] * before
  for name, size in zip(names, shape[before:], strict=True):
    axis = rules.get(name)
    # An axis of the mesh can spread one axis of an array.
    free = axis is not None and axis not in fitting
    fits = axis if free and size % mesh.shape[axis] == 0 else None
    fitting.append(fits)
  return PartitionSpec(*fitting)


def for_path(
  mesh: Mesh, rules: Rules = FSDP
) -> Callable[[str, Sequence[int]], NamedSharding]:
  """Returns `(path, shape) -> sharding`, as `loading` and `fit` take it."""

  def choose(path: str, shape: Sequence[int]) -> NamedSharding:
    return NamedSharding(mesh, partition_spec(path, shape, mesh, rules))

  return choose


def shardings(tree: Any, mesh: Mesh, rules: Rules = FSDP) -> Any:
  """Returns the sharding of every leaf of a tree of parameters."""
  choose = for_path(mesh, rules)
  return jax.tree_util.tree_map_with_path(
    lambda path, leaf: choose(
      jax.tree_util.keystr(path, simple=True, separator='/'), leaf.shape
    ),
    tree,
  )
