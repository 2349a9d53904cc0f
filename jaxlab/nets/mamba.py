"""Vision networks of selective state spaces.

A. Gu and T. Dao, "Mamba: linear-time sequence modeling with selective state
spaces" (2023); L. Zhu et al., "Vision Mamba" (2024).
"""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxlab.nets.chain import Chain
from jaxlab.nets.operand import Operand
from jaxlab.nets.tokens import PatchStem, TokenHead, check_patch


def selective_scan(
  u: jax.Array,
  delta: jax.Array,
  a: jax.Array,
  b: jax.Array,
  c: jax.Array,
  d: jax.Array,
  *,
  parallel: bool | None = None,
) -> jax.Array:
  """Runs a state space whose matrices change with the input.

  The state of channel `i` starts at 0 and obeys
  `h_t = exp(delta_t a) h_{t-1} + delta_t b_t u_t`; the result is
  `y_t = c_t . h_t + d u_t`.

  Args:
    u: `[..., L, E]` input.
    delta: `[..., L, E]` positive sizes of the steps.
    a: `[E, N]` negative rates.
    b: `[..., L, N]` input matrix of each step.
    c: `[..., L, N]` output matrix of each step.
    d: `[E]` gain past the state.
    parallel: whether all steps are taken together, in O(log L), which needs
      many cores; or one after the other, with less work and memory. None for
      what suits the device.

  Returns:
    `[..., L, E]`.
  """
  if parallel is None:
    parallel = jax.default_backend() != 'cpu'
  scan = _together if parallel else _in_turn
  return scan(u, delta, a, b, c) + d * u


def _in_turn(u, delta, a, b, c):
  def step(state, token):
    u, delta, b, c = token
    drive = (delta * u)[..., None] * b[..., None, :]
    state = jnp.exp(delta[..., None] * a) * state + drive
    return state, jnp.einsum('...en,...n->...e', state, c)

  tokens = tuple(jnp.moveaxis(x, -2, 0) for x in (u, delta, b, c))
  start = jnp.zeros((*u.shape[:-2], *a.shape), u.dtype)
  return jnp.moveaxis(jax.lax.scan(step, start, tokens)[1], 0, -2)


def _together(u, delta, a, b, c):
  decay = jnp.exp(delta[..., None] * a)
  drive = (delta * u)[..., None] * b[..., None, :]

  def then(first, second):
    decay, state = second
    return first[0] * decay, first[1] * decay + state

  _, states = jax.lax.associative_scan(then, (decay, drive), axis=u.ndim - 2)
  return jnp.einsum('...en,...n->...e', states, c)


class SelectiveSSM(nn.Module):
  """A causal convolution and a selective scan.

  Attributes:
    state: numbers N that each channel remembers.
    conv: width of the convolution.
    rank: of the map to the sizes of the steps.
  """

  state: int
  conv: int
  rank: int

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps `[B, L, E]` to `[B, L, E]`; token t sees only tokens up to t."""
    width = x.shape[-1]
    x = nn.Conv(
      width,
      (self.conv,),
      padding=[(self.conv - 1, 0)],
      feature_group_count=width,
      name='conv',
    )(x)
    u = nn.silu(x)
    low, b, c = jnp.split(
      nn.Dense(self.rank + 2 * self.state, use_bias=False, name='x_proj')(u),
      [self.rank, self.rank + self.state],
      axis=-1,
    )
    delta = nn.Dense(
      width,
      # Uniform within 1 / sqrt(rank), as of a linear layer in Mamba.
      kernel_init=nn.initializers.variance_scaling(1 / 3, 'fan_in', 'uniform'),
      bias_init=_init_step_bias,
      name='dt_proj',
    )(low)
    a_log = self.param('A_log', _init_a_log, (width, self.state))
    return selective_scan(
      Operand('scan', name='scan_u')(u),
      Operand('scan', signed=False, name='scan_delta')(nn.softplus(delta)),
      -jnp.exp(a_log),
      Operand('scan', name='scan_B')(b),
      Operand('scan', name='scan_C')(c),
      self.param('D', nn.initializers.ones, (width,)),
    )


class MambaBlock(nn.Module):
  """A gated selective state space on normalized tokens, added to them.

  Attributes:
    state: numbers that each channel remembers.
    conv: width of the causal convolution.
    expand: number of channels inside over the size of a token.
    bidirectional: whether a second state space reads the tokens backward.
  """

  state: int = 16
  conv: int = 4
  expand: int = 2
  bidirectional: bool = False

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps `[B, L, D]` to `[B, L, D]`."""
    dim = x.shape[-1]
    width = self.expand * dim
    y = nn.RMSNorm(name='norm')(x)
    y = nn.Dense(2 * width, use_bias=False, name='in_proj')(y)
    y, gate = jnp.split(y, 2, axis=-1)

    def ssm(name):
      return SelectiveSSM(self.state, self.conv, math.ceil(dim / 16), name=name)

    mixed = ssm('ssm')(y)
    if self.bidirectional:
      mixed += ssm('ssm_backward')(y[:, ::-1])[:, ::-1]
    out = nn.Dense(dim, use_bias=False, name='out_proj')
    return x + out(mixed * nn.silu(gate))


def vision_mamba(
  dim: int = 32,
  depth: int = 2,
  state: int = 16,
  conv: int = 4,
  classes: int = 10,
  patch: int = 2,
  image_size: int = 8,
  *,
  bidirectional: bool = False,
) -> Chain:
  """Makes a network of selective state spaces for pictures `[B, H, W, C]`.

  Args:
    dim: size of a token.
    depth: number of blocks.
    state: numbers that each channel remembers.
    conv: width of the causal convolutions.
    classes: number of logits.
    patch: side of a patch in pixels.
    image_size: side of the pictures in pixels.
    bidirectional: whether each block also reads the patches backward.

  Returns:
    The chain 'stem', 'ssm_0', ..., 'head'.

  Raises:
    ValueError: if `patch` does not divide `image_size`.
  """
  check_patch(patch, image_size)
  block = MambaBlock(state, conv, bidirectional=bidirectional)
  return Chain(
    (
      ('stem', PatchStem(dim, patch, image_size)),
      *((f'ssm_{i}', block) for i in range(depth)),
      ('head', TokenHead(classes)),
    )
  )


def _init_a_log(key, shape, dtype=jnp.float32):
  """The logarithms of 1, ..., N in every channel (S4D-real)."""
  del key
  return jnp.broadcast_to(
    jnp.log(jnp.arange(1, shape[1] + 1, dtype=dtype)), shape
  )


def _init_step_bias(key, shape, dtype=jnp.float32):
  """Biases for which softplus gives steps from 0.001 to 0.1."""
  del key
  steps = jnp.logspace(-3, -1, shape[0], dtype=dtype)
  return steps + jnp.log(-jnp.expm1(-steps))
