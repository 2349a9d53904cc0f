"""The nodes of a network's graph, and how they are put together."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

Linear = Callable[[jax.Array], jax.Array]


@dataclasses.dataclass(frozen=True)
class Term:
  """What one operand adds to a linear node.

  Attributes:
    source: index of the operand's node.
    apply: the linear map W.
    absolute: the map |W| (elementwise), which takes radii to radii.
    monomial: whether no output depends on two inputs and no input has two
      outputs, so that interval arithmetic loses nothing.
  """

  source: int
  apply: Linear
  absolute: Linear
  monomial: bool = False


@dataclasses.dataclass(frozen=True)
class Node:
  """A value inside the network; the first node of a graph is the input.

  Attributes:
    shape: `(1, ...)`, for one example.
    dtype: its type.
    terms: of a linear node; empty for the input and for ReLUs.
    bias: constant of a linear node, which broadcasts to `shape`.
    relu_of: of a ReLU, the node whose positive part it is.
    maximum: two nodes whose maximum a linear node is as well.
  """

  shape: tuple[int, ...]
  dtype: Any
  terms: tuple[Term, ...] = ()
  bias: jax.Array | None = None
  relu_of: int | None = None
  maximum: tuple[int, int] | None = None

  @property
  def size(self) -> int:
    """Number of its neurons."""
    return math.prod(self.shape)

  @property
  def sources(self) -> tuple[int, ...]:
    """The nodes that it is computed from."""
    terms = tuple(term.source for term in self.terms)
    return terms if self.relu_of is None else (self.relu_of,)

  def value(self, operands: Sequence[jax.Array]) -> jax.Array:
    """Value of a linear node, from those of its terms' sources."""
    parts = [
      term.apply(operand)
      for term, operand in zip(self.terms, operands, strict=True)
    ]
    total = functools.reduce(jnp.add, parts)
    return total if self.bias is None else total + self.bias

  def renumbered(self, places: Mapping[int, int]) -> 'Node':
    """The node in a graph where others have new indices."""
    terms = tuple(
      dataclasses.replace(term, source=places[term.source])
      for term in self.terms
    )
    relu_of, maximum = self.relu_of, self.maximum
    if relu_of is not None:
      relu_of = places[relu_of]
    if maximum is not None:
      maximum = (places[maximum[0]], places[maximum[1]])
    return dataclasses.replace(
      self, terms=terms, relu_of=relu_of, maximum=maximum
    )


@dataclasses.dataclass(frozen=True)
class Ref:
  """A value that depends on the input: the index of its node."""

  index: int


class Builder:
  """The nodes of a graph so far."""

  def __init__(self, shape: tuple[int, ...], dtype: Any):
    self.nodes = [Node(shape, dtype)]

  def add(self, node: Node) -> Ref:
    """Appends a node."""
    self.nodes.append(node)
    return Ref(len(self.nodes) - 1)

  def needed(self, output: Ref) -> tuple[tuple[Node, ...], int]:
    """The nodes that an output depends on, and its index among them."""
    kept = {0, output.index}
    for index in range(output.index, 0, -1):
      if index in kept:
        kept.update(self.nodes[index].sources)
    places = {index: place for place, index in enumerate(sorted(kept))}
    nodes = tuple(self.nodes[index].renumbered(places) for index in places)
    return nodes, places[output.index]

  def map(
    self, ref: Ref, apply: Linear, *, bias=None, monomial: bool = False
  ) -> Ref:
    """Appends a map that has no negative entry, plus a bias."""
    term = Term(ref.index, apply, apply, monomial)
    return self._linear((term,), bias)

  def scale(self, ref: Ref, sign: int, bias=None) -> Ref:
    """Appends `sign * node + bias` for a sign of +1 or -1."""
    return self._linear((_signed(ref, sign),), bias)

  def combine(self, a: Ref, b: Ref, sign: int) -> Ref:
    """Appends `a + sign * b`."""
    return self._linear((_signed(a, 1), _signed(b, sign)), None)

  def terms(self, terms: Sequence[Term], bias) -> Ref:
    """Appends a linear node of several terms."""
    return self._linear(tuple(terms), bias)

  def relu(self, ref: Ref) -> Ref:
    """Appends the positive part of a node."""
    node = self.nodes[ref.index]
    return self.add(Node(node.shape, node.dtype, relu_of=ref.index))

  def maximum(self, a: Ref, b: Ref) -> Ref:
    """Appends `b + relu(a - b)`."""
    excess = self.relu(self.combine(a, b, -1))
    joined = self.combine(b, excess, 1)
    self.nodes[joined.index] = dataclasses.replace(
      self.nodes[joined.index], maximum=(a.index, b.index)
    )
    return joined

  def _linear(self, terms: tuple[Term, ...], bias) -> Ref:
    first = self.nodes[terms[0].source]
    out = jax.eval_shape(
      terms[0].apply, jax.ShapeDtypeStruct(first.shape, first.dtype)
    )
    return self.add(Node(out.shape, out.dtype, terms, bias))


def _signed(ref: Ref, sign: int) -> Term:
  apply = _identity if sign > 0 else jnp.negative
  return Term(ref.index, apply, _identity, monomial=True)


def _identity(x: jax.Array) -> jax.Array:
  return x
