"""Finds the sites of a flax network, and runs it with others in their place.

A network is given as blocks: functions `block(params, x) -> y` whose chain is
the network. Dense layers, convolutions and `nets.Operand` modules are found by
intercepting flax; nothing in the network has to be rewritten.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxlab import errors, nets
from jaxlab.quantization import operators
from jaxlab.quantization.types import Linear, Site, States

Block = Callable[[Any, jax.Array], jax.Array]
Handler = Callable[[nn.Module, str, jax.Array, Callable], jax.Array]


def view(block: Block, params: Any) -> tuple[Block, Any]:
  """A function and its own parameters, the same for blocks of equal shape."""
  if isinstance(block, nets.Block):
    return _Apply(block.module), params[block.name]
  return block, params


class _Apply:
  """`module.apply` on its own parameters; equal for equal modules."""

  def __init__(self, module: nn.Module):
    self.module = module

  def __call__(self, params: Any, x: jax.Array) -> Any:
    return self.module.apply({'params': params}, x)

  def __eq__(self, other: object) -> bool:
    return isinstance(other, _Apply) and self.module == other.module

  def __hash__(self) -> int:
    return hash(self.module)


def intercepted(block: Block, params: Any, x: jax.Array, handler: Handler):
  """Runs a block with `handler` in place of each site.

  Args:
    block: `(params, x) -> y`.
    params: its parameters.
    x: its input.
    handler: `(module, name, input, original) -> output`.
  """

  def intercept(next_fun, args, kwargs, context):
    module = context.module
    is_call = context.method_name == '__call__'
    if not is_call or not isinstance(module, _KINDS):
      return next_fun(*args, **kwargs)
    name = '/'.join(module.path)
    return handler(module, name, args[0], lambda: next_fun(*args, **kwargs))

  with nn.intercept_methods(intercept):
    return block(params, x)


_KINDS = (nn.Dense, nn.Conv, nets.Operand)
_UNSEEN = (nn.DenseGeneral, nn.Einsum, nn.ConvTranspose, nn.ConvLocal)


def find(block: Block, params: Any, x: Any) -> tuple[Site, ...]:
  """The sites of a block, in the order in which they run.

  Args:
    block: `(params, x) -> y`.
    params: its parameters.
    x: an input or its shape.

  Raises:
    UserError: a layer that has no quantized form.
  """
  found: dict[str, Site] = {}

  def note(module, name, value, original):
    found.setdefault(name, _site(module, name, value))
    return original()

  jax.eval_shape(lambda p, x: intercepted(block, p, x, note), params, x)
  return tuple(found.values())


def left_out(block: Block, params: Any, x: Any) -> tuple[str, ...]:
  """Names of layers that multiply, but have no quantized form here.

  Args:
    block: `(params, x) -> y`.
    params: its parameters.
    x: an input or its shape.
  """
  found: dict[str, None] = {}

  def note(next_fun, args, kwargs, context):
    module = context.module
    if isinstance(module, _UNSEEN):
      found['/'.join(module.path)] = None
    return next_fun(*args, **kwargs)

  def watched(params, x):
    with nn.intercept_methods(note):
      return block(params, x)

  jax.eval_shape(watched, params, x)
  return tuple(found)


def _site(module: nn.Module, name: str, x: jax.Array) -> Site:
  channels = x.shape[-1]
  if isinstance(module, nets.Operand):
    return Site(
      name, 'operand', channels, role=module.role, signed=module.signed
    )
  if isinstance(module, nn.Dense):
    return Site(name, 'dense', channels, module.features)
  window = tuple(_sequence(module.kernel_size))
  rank = len(window)
  if x.ndim != rank + 2 or set(_sequence(module.input_dilation or 1)) != {1}:
    raise errors.UserError(
      f'site {name!r}: a convolution takes [batch, {rank} axes, channels] and '
      f'no input dilation, got an input of the shape {x.shape}.'
    )
  strides = tuple(_sequence(module.strides or 1, rank))
  dilation = tuple(_sequence(module.kernel_dilation or 1, rank))
  spans = [(w - 1) * d + 1 for w, d in zip(window, dilation, strict=True)]
  padding = module.padding
  if isinstance(padding, str):
    if padding not in ('SAME', 'VALID'):
      raise errors.UserError(
        f"site {name!r}: padding {padding!r} is not 'SAME', 'VALID' or pairs."
      )
    padding = jax.lax.padtype_to_pads(x.shape[1:-1], spans, strides, padding)
  elif isinstance(padding, int):
    padding = [(padding, padding)] * rank
  pairs = tuple((p, p) if isinstance(p, int) else tuple(p) for p in padding)
  return Site(
    name,
    'conv',
    channels,
    module.features,
    window,
    strides,
    pairs,
    dilation,
    module.feature_group_count,
  )


def _sequence(value: int | Sequence[int], rank: int = 1) -> Sequence[int]:
  return (value,) * rank if isinstance(value, int) else value


def float_weights(module: nn.Module, site: Site) -> tuple[jax.Array, jax.Array]:
  """`[K, N]` and `[N]` parameters of a linear module."""
  params = module.variables['params']
  kernel = params['kernel'].reshape(site.rows, site.columns)
  bias = params.get('bias')
  bias = jnp.zeros(site.columns, kernel.dtype) if bias is None else bias
  return kernel, bias


def run(
  block: Block,
  params: Any,
  x: jax.Array,
  sites: Sequence[Site],
  states: States,
  *,
  soft: bool = False,
) -> jax.Array:
  """The output of a block whose sites are quantized.

  Args:
    block: `(params, x) -> y`.
    params: its parameters; kernels of sites that are always active may lack.
    x: its input.
    sites: of the block.
    states: of some of the sites; the others run in float.
    soft: whether weights are between their levels, as they are learned.
  """
  by_name = {site.name: site for site in sites}

  def replace(module, name, value, original):
    state = states.get(name)
    if state is None:
      return original()
    return replaced(module, by_name[name], state, value, soft)

  return intercepted(block, params, x, replace)


def replaced(module, site, state, x, soft=False):
  """What a site gives in its quantized form; see `run`."""
  if isinstance(state, Linear):

    def quantized(x):
      return operators.quantized(site, state, x, soft=soft)

    if state.active is None:
      return quantized(x)
    weights, bias = float_weights(module, site)
    return jax.lax.cond(
      state.active,
      quantized,
      lambda x: operators.plain(site, weights, bias, x),
      x,
    )

  def coded(x):
    size = x.size // max(1, x.shape[0])
    return operators.coded(state.act, x, site.a_bits, size)

  if state.active is None:
    return coded(x)
  return jax.lax.cond(state.active, coded, lambda x: x, x)


def record(
  block: Block, params: Any, x: jax.Array, sites: Sequence[Site]
) -> tuple[jax.Array, dict[str, dict[str, jax.Array]]]:
  """A block's output in float, with what every site takes.

  Returns:
    The output, and by the name of the site `input` and, for linear sites,
    `weights` `[K, N]` and `bias` `[N]`.
  """
  by_name = {site.name: site for site in sites}
  found: dict[str, dict[str, jax.Array]] = {}

  def keep(module, name, value, original):
    entry = {'input': value}
    if by_name[name].linear:
      weights, bias = float_weights(module, by_name[name])
      entry |= {'weights': weights, 'bias': bias}
    found[name] = entry
    return original()

  y = intercepted(block, params, x, keep)
  return y, found


def perturbed(
  block: Block, params: Any, x: jax.Array, added: dict[str, jax.Array]
) -> jax.Array:
  """A block's output in float with numbers added to what sites give."""

  def add(module, name, value, original):
    y = original()
    return y + added[name] if name in added else y

  return intercepted(block, params, x, add)


def sample_places(site: Site, shape: tuple[int, ...], most: int, key) -> Any:
  """`[M]` flat numbers of output places of a batch, M at most `most`."""
  total = shape[0] * math.prod(operators.num_places(site, shape))
  if total <= most:
    return jnp.arange(total)
  return jax.random.choice(key, total, (most,), replace=False)
