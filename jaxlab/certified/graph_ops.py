"""What each operation of a jaxpr becomes in a graph.

All but ReLU become linear nodes: sums of linear maps of other nodes, and a
bias. A maximum is rewritten, `max(a, b) = b + relu(a - b)`; max pooling is a
maximum over slices.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.certified.graph_nodes import Builder, Ref, Term

Value = Any
Rule = Callable[[Builder, Any, list[Value]], Ref]


class Unsupported(Exception):
  """An operation that is neither affine nor a ReLU."""


def refuse(build: Builder, eqn, values: list[Value]) -> Ref:
  """The rule of an operation that has none."""
  del build, eqn, values
  raise Unsupported


def _structural(
  build: Builder, eqn, values: list[Value], *, monomial: bool
) -> Ref:
  """Moves or sums elements of the first operand; others are constants."""
  ref, *constants = values
  if not isinstance(ref, Ref) or any(isinstance(c, Ref) for c in constants):
    raise Unsupported

  def apply(x):
    return eqn.primitive.bind(x, *constants, **eqn.params)

  return build.map(ref, apply, monomial=monomial)


def _product(build: Builder, eqn, values: list[Value]) -> Ref:
  """Multiplies or divides by a constant, elementwise or as a matrix."""
  place = [isinstance(value, Ref) for value in values].index(True)
  constant = values[1 - place]
  name = eqn.primitive.name
  if isinstance(constant, Ref) or (name == 'div' and place == 1):
    raise Unsupported

  def times(constant):
    def apply(x):
      pair = (x, constant) if place == 0 else (constant, x)
      return eqn.primitive.bind(*pair, **eqn.params)

    return apply

  same = build.nodes[values[place].index].shape == eqn.outvars[0].aval.shape
  term = Term(
    values[place].index,
    times(constant),
    times(jnp.abs(constant)),
    monomial=name in ('mul', 'div') and same,
  )
  return build.terms((term,), None)


def _sum(build: Builder, eqn, values: list[Value], *, sign: int) -> Ref:
  """`a + sign * b`; one of both may be a constant."""
  a, b = (_broadcast(build, value, eqn) for value in values)
  if isinstance(a, Ref) and isinstance(b, Ref):
    return build.combine(a, b, sign)
  if isinstance(a, Ref):
    return build.scale(a, 1, sign * b)
  return build.scale(b, sign, a)


def _broadcast(build: Builder, value: Value, eqn) -> Value:
  """Brings a scalar operand that depends on the input to the full shape."""
  shape = eqn.outvars[0].aval.shape
  if not isinstance(value, Ref) or build.nodes[value.index].shape == shape:
    return value
  return build.map(value, lambda x: jnp.broadcast_to(x, shape))


def _negative(build: Builder, eqn, values: list[Value]) -> Ref:
  del eqn
  return build.scale(values[0], -1)


def _stopped(build: Builder, eqn, values: list[Value]) -> Ref:
  del eqn
  return build.scale(values[0], 1)


def _absolute(build: Builder, eqn, values: list[Value]) -> Ref:
  """`|x| = relu(x) + relu(-x)`."""
  del eqn
  flipped = build.scale(values[0], -1)
  return build.combine(build.relu(values[0]), build.relu(flipped), 1)


def _maximum(build: Builder, eqn, values: list[Value], *, sign: int) -> Ref:
  """`max(a, b)`, or `min(a, b) = -max(-a, -b)` for a sign of -1."""
  a, b = (_broadcast(build, value, eqn) for value in values)
  if isinstance(a, Ref) and isinstance(b, Ref):
    if sign > 0:
      return build.maximum(a, b)
    flipped = build.maximum(build.scale(a, -1), build.scale(b, -1))
    return build.scale(flipped, -1)
  ref, constant = (a, b) if isinstance(a, Ref) else (b, a)
  return _above(build, ref, constant, sign)


def _above(build: Builder, ref: Ref, constant: Value, sign: int) -> Ref:
  """The maximum (minimum) of a node and a constant, by one ReLU."""
  if sign > 0 and _is_zero(constant):
    return build.relu(ref)
  excess = build.relu(build.scale(ref, sign, -sign * constant))
  return build.scale(excess, sign, constant)


def _is_zero(constant: Value) -> bool:
  traced = isinstance(constant, jax.core.Tracer)
  return not traced and not np.any(np.asarray(constant))


def _clamp(build: Builder, eqn, values: list[Value]) -> Ref:
  del eqn
  low, ref, high = values
  if isinstance(low, Ref) or isinstance(high, Ref):
    raise Unsupported
  return _above(build, _above(build, ref, low, 1), high, -1)


def _pad(build: Builder, eqn, values: list[Value]) -> Ref:
  ref, value = values
  if not isinstance(ref, Ref) or isinstance(value, Ref):
    raise Unsupported
  node = build.nodes[ref.index]
  zeros, nothing = jnp.zeros(node.shape, node.dtype), jnp.zeros((), node.dtype)

  def apply(x):
    return jax.lax.pad(x, nothing, **eqn.params)

  bias = None
  if not _is_zero(value):
    bias = jax.lax.pad(zeros, value, **eqn.params)
  return build.map(ref, apply, bias=bias, monomial=True)


def _joined(build: Builder, eqn, values: list[Value]) -> Ref:
  """Concatenation or selection by a constant: each operand has its places."""
  fixed = 1 if eqn.primitive.name == 'select_n' else 0
  if any(isinstance(value, Ref) for value in values[:fixed]):
    raise Unsupported
  zeros = [
    jnp.zeros(var.aval.shape, var.aval.dtype) for var in eqn.invars[fixed:]
  ]

  def place(index, x):
    operands = [x if i == index else zero for i, zero in enumerate(zeros)]
    return eqn.primitive.bind(*values[:fixed], *operands, **eqn.params)

  parts = values[fixed:]
  terms = []
  for index, part in enumerate(parts):
    if isinstance(part, Ref):
      apply = functools.partial(place, index)
      terms.append(Term(part.index, apply, apply, monomial=True))
  constants = [
    zero if isinstance(part, Ref) else part
    for part, zero in zip(parts, zeros, strict=True)
  ]
  bias = None
  if len(terms) < len(parts):
    bias = eqn.primitive.bind(*values[:fixed], *constants, **eqn.params)
  return build.terms(terms, bias)


def _max_pool(build: Builder, eqn, values: list[Value]) -> Ref:
  """A maximum over the positions of a window, pairwise as in a tournament."""
  params = eqn.params
  if any(step != 1 for step in params['base_dilation']):
    raise Unsupported
  windows = params['window_dimensions']
  shape = build.nodes[values[0].index].shape
  taps = {}
  for offset in itertools.product(*map(range, windows)):
    places = tuple(
      # A window that hangs over the edge looks at the edge twice.
      np.clip(np.arange(out) * stride + o * dilation - pad[0], 0, size - 1)
      for out, stride, o, dilation, pad, size in zip(
        eqn.outvars[0].aval.shape,
        params['window_strides'],
        offset,
        params['window_dilation'],
        params['padding'],
        shape,
        strict=True,
      )
    )
    taps[tuple(tuple(place) for place in places)] = places
  return _tournament(
    build,
    [
      build.map(values[0], functools.partial(_take, places))
      for places in taps.values()
    ],
  )


def _reduce_max(build: Builder, eqn, values: list[Value]) -> Ref:
  shape = build.nodes[values[0].index].shape
  axes = eqn.params['axes']
  taps = []
  for offset in itertools.product(*(range(shape[axis]) for axis in axes)):
    index: list[Any] = [slice(None)] * len(shape)
    for axis, place in zip(axes, offset, strict=True):
      index[axis] = place
    taps.append(build.map(values[0], functools.partial(_at, tuple(index))))
  return _tournament(build, taps)


def _at(index: tuple, x: jax.Array) -> jax.Array:
  return x[index]


def _take(places: Sequence[np.ndarray], x: jax.Array) -> jax.Array:
  """Elements at an outer product of places; slices where evenly spaced."""
  for axis, place in enumerate(places):
    steps = np.unique(np.diff(place)) if len(place) > 1 else np.array([1])
    if len(steps) == 1 and steps[0] > 0:
      x = jax.lax.slice_in_dim(
        x, int(place[0]), int(place[-1]) + 1, int(steps[0]), axis
      )
    else:
      x = jnp.take(x, place, axis=axis)
  return x


def _tournament(build: Builder, refs: list[Ref]) -> Ref:
  while len(refs) > 1:
    pairs = [
      build.maximum(a, b) for a, b in zip(refs[::2], refs[1::2], strict=False)
    ]
    refs = pairs + refs[2 * len(pairs) :]
  return refs[0]


_MONOMIAL = (
  'reshape',
  'transpose',
  'squeeze',
  'expand_dims',
  'rev',
  'copy',
  'convert_element_type',
  'slice',
)
_SUMMING = (
  'broadcast_in_dim',
  'reduce_sum',
  'reduce_window_sum',
  'cumsum',
  'gather',
  'dynamic_slice',
)

RULES: dict[str, Rule] = {
  **{name: functools.partial(_structural, monomial=True) for name in _MONOMIAL},
  **{name: functools.partial(_structural, monomial=False) for name in _SUMMING},
  'mul': _product,
  'div': _product,
  'dot_general': _product,
  'conv_general_dilated': _product,
  'add': functools.partial(_sum, sign=1),
  'sub': functools.partial(_sum, sign=-1),
  'neg': _negative,
  'stop_gradient': _stopped,
  'abs': _absolute,
  'max': functools.partial(_maximum, sign=1),
  'min': functools.partial(_maximum, sign=-1),
  'clamp': _clamp,
  'pad': _pad,
  'concatenate': _joined,
  'select_n': _joined,
  'reduce_window_max': _max_pool,
  'reduce_max': _reduce_max,
}
