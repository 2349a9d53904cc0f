"""A network as a graph of linear nodes and ReLUs, traced from a function.

The network is any pure function `net(params, x) -> logits` that treats each
example alone. It is traced for one example, at no cost when the program runs;
what is built on the graph is vmapped over examples.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxlab.certified.graph_nodes import Builder, Node, Ref
from jaxlab.certified.graph_ops import RULES, Unsupported, Value, refuse
from jaxlab.errors import UserError

Net = Callable[[Any, jax.Array], jax.Array]

_INLINED = (
  'jit',
  'pjit',
  'closed_call',
  'core_call',
  'custom_jvp_call',
  'custom_vjp_call',
  'remat',
  'remat2',
  'checkpoint',
)
_BODIES = ('jaxpr', 'call_jaxpr', 'fun_jaxpr')


@dataclasses.dataclass(frozen=True)
class Graph:
  """Nodes in the order of their computation.

  Attributes:
    nodes: the input, and the nodes between it and the output.
    output: index of the logits, `(1, K)`.
  """

  nodes: tuple[Node, ...]
  output: int

  @property
  def num_classes(self) -> int:
    """K."""
    return self.nodes[self.output].shape[1]

  @property
  def relus(self) -> dict[int, int]:
    """The node whose positive part it is, for each ReLU in order."""
    return {
      index: node.relu_of
      for index, node in enumerate(self.nodes)
      if node.relu_of is not None
    }

  @property
  def exact(self) -> tuple[bool, ...]:
    """For each node, whether interval arithmetic is exact there.

    It is where at most one map mixes inputs on the way from the input.
    """
    plain, exact = [True], [True]
    for node in self.nodes[1:]:
      single = len(node.terms) == 1
      source = node.terms[0].source if single else 0
      monomial = single and node.terms[0].monomial
      plain.append(monomial and plain[source])
      exact.append(single and (plain[source] or (monomial and exact[source])))
    return tuple(exact)


def capture(net: Net, params: Any, x: jax.Array) -> Graph:
  """Traces a network.

  Args:
    net: function `(params, x [B, *shape]) -> [B, K]`.
    params: its parameters; may be traced.
    x: `[B, *shape]` examples, of which only shape and type matter.

  Returns:
    The graph for one example.

  Raises:
    UserError: for what is no function of (params, x), an operation on the
      input that is neither affine nor a ReLU nor a maximum, or if the output
      is not `[B, K]`.
  """
  example = jax.ShapeDtypeStruct((1, *jnp.shape(x)[1:]), jnp.result_type(x))
  check_callable(net)
  closed = jax.make_jaxpr(lambda x: net(params, x))(example)
  build = Builder(example.shape, example.dtype)
  outputs = _inline(build, closed.jaxpr, closed.consts, [Ref(0)], '')
  shape = closed.out_avals[0].shape
  if len(outputs) != 1 or len(shape) != 2 or shape[0] != 1:
    shapes = [aval.shape for aval in closed.out_avals]
    raise UserError(
      f'the network gives {shapes} for one example; it must give logits (1, K).'
    )
  if not isinstance(outputs[0], Ref):
    raise UserError('the logits of the network do not depend on its input.')
  return Graph(*build.needed(outputs[0]))


def check_callable(net: Any) -> None:
  """Raises UserError for a network that is given in place of its function."""
  if not callable(net):
    raise UserError(
      f'the network is a {type(net).__name__}: give the function '
      '(params, x) -> logits, such as network.apply.'
    )


def evaluate(
  graph: Graph,
  x: jax.Array,
  relu: Callable[[int, jax.Array], jax.Array] = lambda _, z: jax.nn.relu(z),
) -> list[jax.Array]:
  """Values of all nodes.

  Args:
    graph: network.
    x: `[1, *shape]` one example.
    relu: what stands for ReLU; takes the node's index and the value.

  Returns:
    One array a node.
  """
  values = [x]
  for index, node in enumerate(graph.nodes[1:], start=1):
    if node.relu_of is not None:
      values.append(relu(index, values[node.relu_of]))
      continue
    values.append(node.value([values[term.source] for term in node.terms]))
  return values


def _inline(
  build: Builder, jaxpr, consts, arguments: list[Value], layer: str
) -> list[Value]:
  """Adds the operations of a jaxpr; returns its outputs."""
  env = dict(zip(jaxpr.constvars, consts, strict=True))
  env |= dict(zip(jaxpr.invars, arguments, strict=True))

  def read(atom):
    return atom.val if hasattr(atom, 'val') else env[atom]

  for eqn in jaxpr.eqns:
    values = [read(atom) for atom in eqn.invars]
    name = '/'.join(filter(None, (layer, str(eqn.source_info.name_stack))))
    if eqn.primitive.name in _INLINED:
      body = next(eqn.params[key] for key in _BODIES if key in eqn.params)
      inner = getattr(body, 'jaxpr', body)
      outputs = _inline(build, inner, getattr(body, 'consts', ()), values, name)
    elif any(isinstance(value, Ref) for value in values):
      outputs = [_node(build, eqn, values, name)]
    else:
      outputs = eqn.primitive.bind(*values, **eqn.params)
      outputs = outputs if eqn.primitive.multiple_results else [outputs]
    env |= dict(zip(eqn.outvars, outputs, strict=True))
  return [read(atom) for atom in jaxpr.outvars]


def _node(build: Builder, eqn, values: list[Value], layer: str) -> Ref:
  try:
    return RULES.get(eqn.primitive.name, refuse)(build, eqn, values)
  except Unsupported as error:
    raise UserError(
      f'operation {eqn.primitive.name!r} of layer {layer or "(no name)"!r} '
      f'(output {eqn.outvars[0].aval.shape}) '
      'cannot be bounded: the network must consist of affine operations, ReLU '
      'and max pooling.'
    ) from error
