"""What a quantized network is made of: sites, their state, bit-widths.

A site is a place where a network multiplies: a dense layer or a convolution
with its input, or an operand of a product of two activations. Its description
is static (`Site`), what a method finds is a tree of arrays (`Linear`,
`Activation`).
"""

import dataclasses
from typing import Any, NamedTuple

import jax

from jaxlab import errors


@dataclasses.dataclass(frozen=True)
class Site:
  """A place of a block where codes enter; static and hashable.

  Attributes:
    name: path of the flax module inside its block, `attention/qkv`.
    kind: 'dense', 'conv' or 'operand'.
    channels: input channels C.
    columns: output channels N; 0 for an operand.
    window: extent of a convolution's kernel along each axis.
    strides: of a convolution.
    padding: what a convolution adds ((before, after), ...).
    dilation: of a convolution's kernel.
    groups: of a convolution; each sees C / groups channels.
    role: of an operand, 'matmul' or 'scan'.
    signed: whether an operand can be negative.
    w_bits: of a weight's code.
    a_bits: of an activation's code.
  """

  name: str
  kind: str
  channels: int
  columns: int = 0
  window: tuple[int, ...] = ()
  strides: tuple[int, ...] = ()
  padding: tuple[tuple[int, int], ...] = ()
  dilation: tuple[int, ...] = ()
  groups: int = 1
  role: str = 'matmul'
  signed: bool = True
  w_bits: int = 8
  a_bits: int = 8

  @property
  def shape(self) -> 'Site':
    """The site without its name: equal for sites of equal shape."""
    return dataclasses.replace(self, name='')

  @property
  def linear(self) -> bool:
    """Whether the site has weights."""
    return self.kind != 'operand'

  @property
  def taps(self) -> int:
    """Places of a convolution's window, 1 for a dense layer."""
    count = 1
    for size in self.window:
      count *= size
    return count

  @property
  def rows(self) -> int:
    """K, weights of an output channel."""
    return self.taps * self.channels // self.groups


class Transform(NamedTuple):
  """An equivalence transform of a site's input, R ((x - shift) / scale) / r.

  Attributes:
    shift: `[C]` subtracted first.
    scale: `[C]` positive.
    signs: `[C]` of the block-Hadamard rotation R.
    rotate: `[]` bool, whether there is a rotation.
    per_token: `[]` bool, whether r is the token's root mean square over the
      channels; else 1.
  """

  shift: jax.Array
  scale: jax.Array
  signs: jax.Array
  rotate: jax.Array
  per_token: jax.Array


class Activation(NamedTuple):
  """How activations become codes.

  Attributes:
    scale: `[]` step s of x = s * code + offset; or `[T, 1]`, one for each
      position of a token.
    offset: `[]` value of the code 0, of the shape of `scale`.
    levels: `[2^bits]` rising values of a codebook; None beyond 4 bits.
    uniform: `[]` bool, whether `scale` and `offset` count and not `levels`.
    on: `[]` bool, whether activations are rounded at all.
  """

  scale: jax.Array
  offset: jax.Array
  levels: jax.Array | None
  uniform: jax.Array
  on: jax.Array


class Linear(NamedTuple):
  """State of a dense layer or convolution; weights are of x's transform.

  A weight lies between two neighbouring levels of its channel, `low` and
  `high`; `soft` says where: h = clip(1.2 sigmoid(soft) - 0.1, 0, 1) while it
  is learned, the upper one if `soft >= 0` afterwards.

  Attributes:
    transform: of the input.
    act: codes of the transformed input.
    code: `[K, N]` uint8 code of `low`.
    low: `[K, N]` float.
    high: `[K, N]` float; equal to `low` where there is no higher code.
    soft: `[K, N]`.
    log_gain: `[N]` logarithm of what multiplies the weights of a channel.
    bias: `[N]`.
    scale: `[N]` step of uniform weights; 1 for a codebook.
    zero: `[N]` code of 0, integer or half-integer.
    levels: `[N, 2^bits]` of a codebook; None for uniform weights.
    first: `[K, q]` first factor of the low-rank compensation, or None.
    second: `[q, N]` second factor, or None.
    active: `[]` bool, False runs the site in float; None is always True.
  """

  transform: Transform
  act: Activation
  code: jax.Array
  low: jax.Array
  high: jax.Array
  soft: jax.Array
  log_gain: jax.Array
  bias: jax.Array
  scale: jax.Array
  zero: jax.Array
  levels: jax.Array | None = None
  first: jax.Array | None = None
  second: jax.Array | None = None
  active: jax.Array | None = None


class Operand(NamedTuple):
  """State of an operand of a product of activations.

  Attributes:
    act: its codes.
    active: as in `Linear`.
  """

  act: Activation
  active: jax.Array | None = None


def bare(state: 'Linear | Operand') -> Any:
  """The state without the codebook of its weights, which only packing needs.

  Programs are then the same for uniform weights and for codebooks.
  """
  return state._replace(levels=None) if isinstance(state, Linear) else state


States = dict[str, Any]
"""`Linear` or `Operand` by the name of the site, for one block."""


@dataclasses.dataclass(frozen=True)
class QuantSpec:
  """Bit-widths.

  Attributes:
    w_bits: of weights, 1 to 8.
    a_bits: of activations, 1 to 8.
    first_last_bits: of both at the first and the last linear site.
    ssm_act_bits: of the operands of a selective scan.
    conv1d_bits: of weights and inputs of convolutions along one axis.
    overrides: pairs (part of a site's name, (w_bits, a_bits)) that go before
      all other rules: mixed bit-widths.
  """

  w_bits: int = 4
  a_bits: int = 4
  first_last_bits: int = 8
  ssm_act_bits: int = 8
  conv1d_bits: int = 8
  overrides: tuple[tuple[str, tuple[int, int]], ...] = ()

  def __post_init__(self):
    named = [
      (name, getattr(self, name))
      for name in (
        *('w_bits', 'a_bits', 'first_last_bits'),
        *('ssm_act_bits', 'conv1d_bits'),
      )
    ]
    named += [(f'overrides[{k!r}]', b) for k, v in self.overrides for b in v]
    for name, bits in named:
      if type(bits) is not int or not 1 <= bits <= 8:
        raise errors.UserError(
          f'{name} = {bits!r}: give a whole number from 1 to 8.'
        )


def with_bits(site: Site, spec: QuantSpec, *, outer: bool, path: str) -> Site:
  """The site with its bit-widths.

  Args:
    site: any.
    spec: the rules.
    outer: whether it is the first or the last linear site.
    path: name of the block and the site, which `overrides` are matched with.
  """
  weights, acts = spec.w_bits, spec.a_bits
  if outer:
    weights = acts = spec.first_last_bits
  elif site.kind == 'operand' and site.role == 'scan':
    acts = spec.ssm_act_bits
  elif site.kind == 'conv' and len(site.window) == 1:
    weights = acts = spec.conv1d_bits
  for part, (w_bits, a_bits) in spec.overrides:
    if part in path:
      weights, acts = w_bits, a_bits
  return dataclasses.replace(site, w_bits=weights, a_bits=acts)
