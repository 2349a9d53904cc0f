"""The state of a site from what it was seen to take: grids, codes, bias."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlab.quantization import (
  codebooks,
  grids,
  operators,
  quantizers,
  rounding,
)
from jaxlab.quantization.types import (
  Activation,
  Linear,
  Operand,
  Site,
  Transform,
)

UNIFORM = ('minmax', 'mse', 'weighted')  # rules of activations
_MOST_CODEBOOK_BITS = 4
_WEIGHT_CODEBOOKS = ('kmeans', 'apot', 'log2')
_ACT_CODEBOOKS = (*_WEIGHT_CODEBOOKS, 'adalog')
_LEARNED_AWAY = 10.0  # of `soft`: its sigmoid is 0 or 1 and has no gradient


@dataclasses.dataclass(frozen=True)
class Rule:
  """How grids are fitted; static.

  Attributes:
    weights: 'minmax', 'mse' or 'hessian' for uniform grids; 'kmeans', 'apot'
      or 'log2' for codebooks, which sites of more than 4 bits do not take.
    acts: 'minmax', 'mse' or 'weighted' (by the energy of what an error does)
      for uniform grids; 'kmeans', 'apot', 'log2', 'adalog', 'twin' (PTQ4ViT's,
      or uniform where that is better).
    unsigned: codebook of operands that are never negative, such as softmax:
      '' for `acts`, 'twin_softmax', 'log_sqrt2', 'log2' or 'adalog'.
    half_integer: whether weights may have a half-integer zero point.
    act_offset: whether activations may have a float offset.
    mean_rectify: whether the bias takes the mean error away.
    symmetric: of uniform weights; None takes the better of both.
    rounding: 'nearest' or 'gptq'.
    activation_order: of GPTQ, the largest diagonal entries first.
    damp: of GPTQ.
  """

  weights: str = 'mse'
  acts: str = 'mse'
  unsigned: str = ''
  half_integer: bool = False
  act_offset: bool = False
  mean_rectify: bool = False
  symmetric: bool | None = None
  rounding: str = 'nearest'
  activation_order: bool = False
  damp: float = 0.01

  def at(self, site: Site) -> 'Rule':
    """The rule without what makes no difference at a site.

    Sites and methods then share compiled programs.
    """
    rule = self
    if site.a_bits > _MOST_CODEBOOK_BITS and rule.acts in _ACT_CODEBOOKS:
      rule = dataclasses.replace(rule, acts='mse')
    if rule.acts != 'weighted':
      rule = dataclasses.replace(rule, act_offset=False)
    if not site.linear:
      unsigned = '' if site.signed else rule.unsigned
      return Rule(acts=rule.acts, unsigned=unsigned, act_offset=rule.act_offset)
    if site.w_bits > _MOST_CODEBOOK_BITS and rule.weights in _WEIGHT_CODEBOOKS:
      rule = dataclasses.replace(rule, weights='mse')
    return dataclasses.replace(rule, unsigned='')


def essence(site: Site) -> Site:
  """A site as far as fits depend on it: not its name, nor where it stands."""
  if not site.linear:
    return Site('', site.kind, 0, signed=site.signed, a_bits=site.a_bits)
  window = (site.taps,) if site.kind == 'conv' else ()
  return dataclasses.replace(
    site, name='', window=window, strides=(), padding=(), dilation=()
  )


class Seen(NamedTuple):
  """What a linear site takes, and what its errors cost.

  Attributes:
    rows: `[M, taps, C]` padded inputs of some output places.
    omega: `[M]` weight of each, mean 1.
    gamma: `[N]` weight of each output channel, mean 1.
    weights: `[K, N]`.
    bias: `[N]`.
  """

  rows: jax.Array
  omega: jax.Array
  gamma: jax.Array
  weights: jax.Array
  bias: jax.Array


def fit_linear(
  site: Site, rule: Rule, seen: Seen, transform: Transform
) -> Linear:
  """Fits both grids of a linear site for one transform and rounds.

  Args:
    site: its description, with bit-widths.
    rule: how.
    seen: what it takes.
    transform: of its input.

  Returns:
    The state, never without `active`, which is False.
  """
  return _fit_linear(essence(site), rule.at(site), seen, transform)


@functools.partial(jax.jit, static_argnames=('site', 'rule'))
def _fit_linear(site, rule, seen, transform) -> Linear:
  moved, size = operators.transformed(site, transform, seen.rows)
  weights = operators.transformed_weights(site, transform, seen.weights)
  bias = operators.shifted_bias(site, transform, seen.weights, seen.bias)
  omega = seen.omega * jnp.broadcast_to(size, (len(moved), 1, 1))[:, 0, 0] ** 2
  act = _activation(site, rule, moved, weights, omega, seen.gamma)
  gram = None
  if site.groups == 1:
    flat = moved.reshape(len(moved), -1)
    gram = (flat * omega[:, None]).T @ flat / len(flat)
  state = _rounded(site, rule, weights, gram)._replace(
    transform=transform, act=act, bias=bias
  )
  if rule.mean_rectify and site.groups == 1:
    gap = output_error(site, state, seen)
    state = state._replace(
      bias=bias + jnp.mean(gap * seen.omega[:, None], axis=0)
    )
  return state


def _activation(site, rule, moved, weights, omega, gamma) -> Activation:
  """Codes of a site's transformed input `[M, taps, C]`."""
  cost = None
  if rule.acts in ('weighted', 'twin') and site.groups == 1:
    effect = (weights**2 @ gamma).reshape(1, site.taps, site.channels)
    cost = effect * omega[:, None, None]
    cost = (cost / jnp.mean(cost)).reshape(-1)
  return fit_activation(moved.reshape(-1), site.a_bits, rule, cost, signed=True)


def fit_activation(
  x: jax.Array,
  bits: int,
  rule: Rule,
  cost: jax.Array | None = None,
  *,
  signed: bool,
) -> Activation:
  """Codes of activations.

  Args:
    x: `[n]` values.
    bits: of a code.
    rule: how.
    cost: `[n]` weights of squared errors, or None.
    signed: False for an operand that is never negative.
  """
  kind = rule.acts
  if not signed and rule.unsigned:
    kind = rule.unsigned
  uniform = kind in UNIFORM
  scale, offset = grids.fit_activation(
    x,
    bits,
    weights=cost,
    offset=rule.act_offset and kind == 'weighted',
    **({'steps': 1} if kind == 'minmax' else {}),
  )
  on = jnp.ones((), bool)
  if bits > _MOST_CODEBOOK_BITS:
    return Activation(scale, offset, None, on, on)
  evenly = offset + scale * jnp.arange(2**bits, dtype=x.dtype)
  if uniform:
    return Activation(scale, offset, evenly, on, on)
  levels = _levels(kind, x, bits, cost)
  # PTQ4ViT's twin grids are for what a softmax or GELU gives.
  even = jnp.zeros((), bool)
  if kind == 'twin':
    even = _cost_of(x, evenly, cost) <= _cost_of(x, levels, cost)
  return Activation(scale, offset, levels, even, on)


def _cost_of(x, levels, cost):
  """Weighted squared error of the nearest levels."""
  error = (x - levels[quantizers.nearest_level(x, levels)]) ** 2
  return jnp.sum(error if cost is None else cost * error)


def _levels(kind: str, x: jax.Array, bits: int, cost) -> jax.Array:
  """`[2^bits]` rising levels of a codebook for all of x."""
  if kind == 'kmeans':
    return codebooks.kmeans_binned(x, 2**bits, weights=cost)
  if kind == 'adalog':
    return codebooks.adalog_levels(x, bits, weights=cost)
  if kind in ('twin', 'twin_softmax'):
    tail = 'softmax' if kind == 'twin_softmax' else 'gelu'
    return codebooks.twin_uniform_levels(x, bits, tail, cost)
  if kind == 'log_sqrt2':
    unit = codebooks.log_sqrt2_levels(bits)
  else:
    of = {'apot': codebooks.apot_levels, 'log2': codebooks.log2_levels}[kind]
    unit = jnp.stack([of(bits), of(bits, signed=False)])
  return codebooks.fit_scaled_levels(x, unit, cost)


def _rounded(site, rule, weights, gram) -> Linear:
  """Codes of weights; transform, activation and bias are still missing."""
  bits = site.w_bits
  if rule.weights in _WEIGHT_CODEBOOKS and bits <= _MOST_CODEBOOK_BITS:
    return _in_codebook(rule.weights, bits, weights)
  kind = 'mse' if rule.weights in _WEIGHT_CODEBOOKS else rule.weights
  weighted = kind == 'hessian' and gram is not None
  spec = grids.fit_grids(
    weights,
    bits,
    rule='hessian' if weighted else 'mse' if kind == 'hessian' else kind,
    h=jnp.diag(gram) if weighted else None,
    H=gram if weighted else None,
    symmetric=rule.symmetric,
    half_integer=rule.half_integer,
  )
  state = on_grid(weights, spec.scale, spec.zero, bits)
  if rule.rounding == 'gptq' and gram is not None:
    codes = rounding.gptq_round(
      weights,
      gram,
      spec.scale,
      spec.zero,
      bits,
      damp=rule.damp,
      activation_order=rule.activation_order,
    )
    state = with_codes(state, codes, bits)
  return state


def _empty(code, low, high, share, scale, zero, levels=None) -> Linear:
  columns = low.shape[1]
  gain = jnp.zeros(columns, low.dtype)
  return Linear(
    transform=None,  # type: ignore[arg-type]
    act=None,  # type: ignore[arg-type]
    code=code.astype(jnp.uint8),
    low=low,
    high=high,
    soft=rounding.inverse_rectified_sigmoid(share),
    log_gain=gain,
    bias=gain,
    scale=jnp.broadcast_to(scale, gain.shape).astype(low.dtype),
    zero=jnp.broadcast_to(zero, gain.shape).astype(low.dtype),
    levels=levels,
    active=jnp.zeros((), bool),
  )


def on_grid(
  weights: jax.Array, scale: jax.Array, zero: jax.Array, bits: int
) -> Linear:
  """Weights `[K, N]` between the neighbouring levels of a uniform grid."""
  place = weights / scale + zero
  code = jnp.clip(jnp.floor(place), 0, max(2**bits - 2, 0))
  low, high = scale * (code - zero), scale * (code + 1 - zero)
  return _empty(code, low, high, jnp.clip(place - code, 0, 1), scale, zero)


def with_codes(state: Linear, codes: jax.Array, bits: int) -> Linear:
  """The state with given codes `[K, N]` of a uniform grid, to stay."""
  code = jnp.clip(codes, 0, max(2**bits - 2, 0)).astype(state.low.dtype)
  return state._replace(
    code=code.astype(jnp.uint8),
    low=state.scale * (code - state.zero),
    high=state.scale * (code + 1 - state.zero),
    soft=jnp.where(codes > code, _LEARNED_AWAY, -_LEARNED_AWAY).astype(
      state.soft.dtype
    ),
  )


def settled(soft: jax.Array) -> jax.Array:
  """Decided rounding variables, at the ends where they learn no more."""
  end = jnp.asarray(_LEARNED_AWAY, soft.dtype)
  return jnp.where(soft >= 0, end, -end)


def _in_codebook(kind: str, bits: int, weights: jax.Array) -> Linear:
  if kind == 'kmeans':
    fit = lambda w: codebooks.kmeans_codebook(w, 2**bits)  # noqa: E731
  else:
    unit = {'apot': codebooks.apot_levels, 'log2': codebooks.log2_levels}
    levels_of_one = unit[kind](bits)
    fit = lambda w: codebooks.fit_scaled_levels(w, levels_of_one)  # noqa: E731
  levels = jax.lax.map(fit, weights.T, batch_size=64)  # [N, L]
  last = levels.shape[1] - 1

  def neighbours(row, w):
    code = jnp.clip(jnp.searchsorted(row, w, side='right') - 1, 0, last - 1)
    return code, row[code], row[code + 1]

  code, low, high = (x.T for x in jax.vmap(neighbours)(levels, weights.T))
  gap = jnp.where(high > low, high - low, 1)
  share = jnp.clip((weights - low) / gap, 0, 1)
  one = jnp.ones((), weights.dtype)
  return _empty(code, low, high, share, one, 0 * one, levels)


def output_error(site: Site, state: Linear, seen: Seen) -> jax.Array:
  """`[M, N]` y - y_hat of a site on the seen rows."""
  flat = dataclasses.replace(
    site,
    kind='conv',
    window=(site.taps,),
    strides=(1,),
    padding=((0, 0),),
    dilation=(1,),
  )
  moved, size = operators.transformed(site, state.transform, seen.rows)
  codes = operators.coded(state.act, moved, site.a_bits)
  y_hat = operators.product(flat, size * codes, operators.weights_of(state))
  y = operators.product(flat, seen.rows, seen.weights) + seen.bias
  return (y - y_hat)[:, 0] - state.bias


def by_position(
  site: Site, rule: Rule, data: Any, state: Linear, x: jax.Array
) -> Linear:
  """The state with a step and an offset for each position of a token.

  Source: Cho et al., PTQ4VM, WACV 2025 (arXiv:2412.20386), per-token static
  quantization.

  Args:
    site: a dense layer.
    rule: how, with uniform steps of activations.
    data: its weights, bias and `gamma`, as in `Seen`.
    state: fitted with one step for all positions.
    x: `[B, T, C]` what the layer takes; at inference T must be the same.
  """
  return _by_position(
    essence(site), rule.at(site), data.gamma, data.weights, data.bias, state, x
  )


@functools.partial(jax.jit, static_argnames=('site', 'rule'))
def _by_position(site, rule, gamma, weights, bias, state, x) -> Linear:
  moved, size = operators.transformed(site, state.transform, x)
  cost = None
  if rule.acts == 'weighted':
    turned = operators.transformed_weights(site, state.transform, weights)
    effect = jnp.broadcast_to(size, (*x.shape[:2], 1)) ** 2 * (
      turned**2 @ gamma
    )
    cost = (effect / jnp.mean(effect)).swapaxes(0, 1).reshape(x.shape[1], -1)
  values = moved.swapaxes(0, 1).reshape(x.shape[1], -1)

  def of_one(pair):
    at, cost = pair
    act = fit_activation(at, site.a_bits, rule, cost, signed=True)
    return act.scale, act.offset

  scale, offset = jax.lax.map(of_one, (values, cost), batch_size=16)
  act = state.act._replace(scale=scale[:, None], offset=offset[:, None])
  state = state._replace(act=act)
  if rule.mean_rectify:
    exact = x @ weights + bias
    gap = exact - operators.quantized(site, state, x)
    state = state._replace(bias=state.bias + jnp.mean(gap, axis=(0, 1)))
  return state


def fit_operand(site: Site, rule: Rule, x: jax.Array) -> Operand:
  """Fits the codes of an operand from `[n]` of its values."""
  return _fit_operand(essence(site), rule.at(site), x)


@functools.partial(jax.jit, static_argnames=('site', 'rule'))
def _fit_operand(site, rule, x) -> Operand:
  act = fit_activation(x, site.a_bits, rule, signed=site.signed)
  return Operand(act, jnp.zeros((), bool))
