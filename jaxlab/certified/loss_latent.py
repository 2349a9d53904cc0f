"""TAPS and STAPS: intervals up to a split, then an attack in the latent box.

Source: Mao et al., "Connecting Certified and Adversarial Training", 2023.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from jaxlab.certified import attacks, loss_terms
from jaxlab.certified.graph import Net
from jaxlab.certified.interval import Interval

Aux = dict[str, jax.Array]
Split = tuple[Net, Net]


def latent_margins(
  split: Split,
  params: Any,
  box: Interval,
  rows: jax.Array,
  key: jax.Array,
  *,
  steps: int,
  threshold: float,
) -> jax.Array:
  """Margins at the worst latent points found, one attack for each margin.

  Args:
    split: `(params, x) -> [B, n]` and `(params, [B, n]) -> [B, K]`.
    params: parameters of both parts.
    box: `[B, *shape]` the inputs.
    rows: `[B, K-1, K]` margin matrix.
    key: PRNG key of the starting points.
    steps: gradients of each attack.
    threshold: of the gradient connector.

  Returns:
    `[B, K-1]`, nowhere below the interval bounds; gradients flow through the
    second part at these points, and through the latent bounds.
  """
  first, second = split
  latent = loss_terms.latent_box(first, params, box)
  count = rows.shape[1]
  # A latent point for each margin: they become further examples.
  wide = Interval(*(jnp.repeat(side, count, axis=0) for side in latent))
  row = rows.reshape(-1, rows.shape[-1])

  def value(point):
    return jnp.sum(second(params, point) * row, axis=-1)

  width = wide.upper - wide.lower
  point = attacks.descend(
    value,
    value,
    wide,
    (wide.lower + wide.upper) / 2,
    key,
    step=1.25 * width / max(steps, 1),
    steps=steps,
  )
  return value(connect(point, wide, threshold)).reshape(-1, count)


def connect(
  point: jax.Array, box: Interval, threshold: float = 0.5
) -> jax.Array:
  """Gives a point of a box gradients with respect to the box.

  Args:
    point: `[..., n]` inside of the box.
    box: `[..., n]` bounds.
    threshold: share c of the width, from a face inwards, in which the
      gradient with respect to that face falls from 1 to 0; at most 0.5.

  Returns:
    `point`, whose gradient is `max(0, 1 - (point - lower) / (c width))` with
    respect to `lower` and likewise for `upper`.
  """
  lower, upper = box
  reach = threshold * (upper - lower)
  # A box without width moves as a whole: half of it with each face.
  flat = reach <= 0
  safe = jnp.where(flat, 1, reach)
  near_lower = jnp.where(flat, 0.5, jax.nn.relu(1 - (point - lower) / safe))
  near_upper = jnp.where(flat, 0.5, jax.nn.relu(1 - (upper - point) / safe))
  stop = jax.lax.stop_gradient
  return (
    stop(point)
    + stop(near_lower) * (lower - stop(lower))
    + stop(near_upper) * (upper - stop(upper))
  )


def taps(
  net: Net,
  params: Any,
  x: jax.Array,
  y: jax.Array,
  eps: jax.typing.ArrayLike,
  hyper: Mapping[str, Any],
  key: jax.Array,
  *,
  split: Split,
  steps: int = 8,
  threshold: float = 0.5,
  multiply: bool = False,
  clip: loss_terms.Clip = (0, 1),
) -> tuple[jax.Array, Aux]:
  """Latent attacks in the interval bounds of the whole ball.

  Args:
    net: `(params, x) -> [B, K]` logits.
    params: its parameters.
    x: `[B, *shape]` examples.
    y: `[B]` labels.
    eps: radius; may be traced.
    hyper: with `multiply`, `taps_weight` w: the gradient of the latent loss
      counts `2w / (1 + w)`, that of the interval loss `2 / (1 + w)`.
    key: PRNG key.
    split: the network in two parts, the latent values flattened.
    steps: gradients of each latent attack.
    threshold: of the gradient connector, c of the paper.
    multiply: whether the loss is the product of the latent and the interval
      loss, as in the paper's experiments, or the latent loss alone.
    clip: range of the data.

  Returns:
    The loss and its terms, means over the batch.
  """
  box = loss_terms.input_box(x, eps, clip)
  return _latent_loss(
    net, params, box, y, hyper, key, split, steps, threshold, multiply
  )


def staps(
  net: Net,
  params: Any,
  x: jax.Array,
  y: jax.Array,
  eps: jax.typing.ArrayLike,
  hyper: Mapping[str, Any],
  key: jax.Array,
  *,
  split: Split,
  steps: int = 8,
  threshold: float = 0.5,
  multiply: bool = False,
  clip: loss_terms.Clip = (0, 1),
) -> tuple[jax.Array, Aux]:
  """`taps` in the small box of SABR; `hyper` also has its `lambda`."""
  centre_key, key = jax.random.split(key)
  box = adversarial_box(
    net, params, x, y, eps, hyper['lambda'], centre_key, steps, clip
  )
  return _latent_loss(
    net, params, box, y, hyper, key, split, steps, threshold, multiply
  )


def adversarial_box(
  net, params, x, y, eps, share, key, steps, clip
) -> Interval:
  """A box of radius `share * eps` around a bad point of the ball."""
  eps = jnp.asarray(eps, x.dtype)
  radius = share * eps
  centre = attacks.pgd(
    net,
    params,
    x,
    y,
    jnp.maximum(eps - radius, 0),
    key,
    steps=steps,
    clip=clip,
    loss='ce',
  )
  whole = loss_terms.input_box(x, eps, clip)
  return loss_terms.small_box(centre, radius, whole)


def _latent_loss(
  net, params, box, y, hyper, key, split, steps, threshold, multiply
):
  rows = loss_terms.margin_rows(net, params, box.lower, y)
  margins = latent_margins(
    split, params, box, rows, key, steps=steps, threshold=threshold
  )
  latent = loss_terms.worst_case(margins).mean()
  if not multiply:
    return latent, {'latent': latent}
  intervals = loss_terms.ibp_margins(
    loss_terms.interval_pass(net, params, box), y
  ).lower
  interval = loss_terms.worst_case(intervals).mean()
  share = hyper['taps_weight'] / (1 + hyper['taps_weight'])
  loss = _weighted(latent, 2 * share) * _weighted(interval, 2 - 2 * share)
  return loss, {'latent': latent, 'robust': interval}


def _weighted(value: jax.Array, weight: jax.Array) -> jax.Array:
  """`value`, whose gradient is multiplied."""
  return jax.lax.stop_gradient(value) + weight * (
    value - jax.lax.stop_gradient(value)
  )
