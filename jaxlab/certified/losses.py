"""The losses of certified training, all with one signature.

    loss(net, params, x, y, eps, hyper, key) -> (scalar, terms)

`hyper` maps the knobs of the loss, as they are at this step, to scalars that
may be traced; what is static is keyword-only. The schedules are outside.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.certified import attacks, loss_terms
from jaxlab.certified.graph import Net
from jaxlab.certified.interval import input_box
from jaxlab.certified.loss_latent import adversarial_box, staps, taps
from jaxlab.certified.loss_terms import Clip, IntervalPass, worst_case

Hyper = Mapping[str, Any]
Result = tuple[jax.Array, dict[str, jax.Array]]


def standard(
  net: Net,
  params: Any,
  x: jax.Array,
  y: jax.Array,
  eps: ArrayLike,
  hyper: Hyper,
  key: jax.Array,
  *,
  clip: Clip = (0, 1),
) -> Result:
  """Cross-entropy of the examples as they are; takes `eps` but ignores it."""
  del eps, hyper, key, clip
  natural = loss_terms.cross_entropies(net, params, x, y).mean()
  return natural, {'natural': natural}


def pgd(
  net: Net,
  params: Any,
  x: jax.Array,
  y: jax.Array,
  eps: ArrayLike,
  hyper: Hyper,
  key: jax.Array,
  *,
  steps: int = 8,
  clip: Clip = (0, 1),
) -> Result:
  """Cross-entropy of attacked examples (Madry et al., 2018)."""
  del hyper
  adversarial = _attacked(net, params, x, y, eps, key, steps, clip).mean()
  return adversarial, {'adversarial': adversarial}


def ibp(
  net: Net,
  params: Any,
  x: jax.Array,
  y: jax.Array,
  eps: ArrayLike,
  hyper: Hyper,
  key: jax.Array,
  *,
  clip: Clip = (0, 1),
  passed: IntervalPass | None = None,
) -> Result:
  """`kappa` natural + (1 - `kappa`) interval loss (Gowal et al., 2019).

  Args:
    net: `(params, x) -> [B, K]` logits.
    params: its parameters.
    x: `[B, *shape]` examples.
    y: `[B]` labels.
    eps: radius; may be traced.
    hyper: `kappa`.
    key: unused.
    clip: range of the data.
    passed: the intervals over the balls, where they are known already.

  Returns:
    The loss and its terms, means over the batch in nats.

  Raises:
    UserError: if a label is no class, `eps` is negative or `x` outside `clip`;
      only where these are not traced.
  """
  del key
  natural = loss_terms.cross_entropies(net, params, x, y).mean()
  robust = _interval_losses(net, params, x, y, eps, clip, passed).mean()
  return _mixed(natural, robust, hyper['kappa'])


def crown_ibp(
  net: Net,
  params: Any,
  x: jax.Array,
  y: jax.Array,
  eps: ArrayLike,
  hyper: Hyper,
  key: jax.Array,
  *,
  fusion: bool = False,
  clip: Clip = (0, 1),
  passed: IntervalPass | None = None,
) -> Result:
  """As `ibp`, with tighter bounds (Zhang et al., 2020).

  The margins of the robust term are `beta` CROWN-IBP + (1 - `beta`) IBP.

  Args:
    net: `(params, x) -> [B, K]` logits.
    params: its parameters.
    x: `[B, *shape]` examples.
    y: `[B]` labels.
    eps: radius; may be traced.
    hyper: `kappa` and `beta`.
    key: unused.
    fusion: whether CROWN-IBP bounds the loss instead of each margin, which
      costs one row in place of K - 1; `beta` then mixes the two losses.
    clip: range of the data.
    passed: as `ibp`.

  Returns:
    The loss and its terms, means over the batch in nats.

  Raises:
    UserError: as `ibp`.
  """
  del key
  beta = hyper['beta']
  natural = loss_terms.cross_entropies(net, params, x, y).mean()
  passed = passed or _pass(net, params, x, eps, clip)
  outer = loss_terms.ibp_margins(passed, y)
  rows = loss_terms.margin_rows(net, params, x, y)
  if fusion:
    fused = loss_terms.fused_bound(passed, rows, outer)
    robust = beta * fused + (1 - beta) * worst_case(outer.lower)
  else:
    tight = loss_terms.crown_ibp_margins(passed, rows)
    robust = worst_case(beta * tight + (1 - beta) * outer.lower)
  return _mixed(natural, robust.mean(), hyper['kappa'])


def sabr(
  net: Net,
  params: Any,
  x: jax.Array,
  y: jax.Array,
  eps: ArrayLike,
  hyper: Hyper,
  key: jax.Array,
  *,
  steps: int = 8,
  clip: Clip = (0, 1),
) -> Result:
  """Interval loss of a small box around a bad point (Mueller et al., 2023).

  `hyper` has `lambda` in (0, 1]: the box has radius `lambda * eps`, its centre
  is attacked in the ball of radius `eps - lambda * eps`.
  """
  box = adversarial_box(
    net, params, x, y, eps, hyper['lambda'], key, steps, clip
  )
  passed = loss_terms.interval_pass(net, params, box)
  robust = worst_case(loss_terms.ibp_margins(passed, y).lower).mean()
  return robust, {'robust': robust}


def mtl_ibp(
  net: Net,
  params: Any,
  x: jax.Array,
  y: jax.Array,
  eps: ArrayLike,
  hyper: Hyper,
  key: jax.Array,
  *,
  steps: int = 8,
  clip: Clip = (0, 1),
  passed: IntervalPass | None = None,
) -> Result:
  """`alpha` interval + (1 - `alpha`) adversarial loss (De Palma et al., 2024).

  `hyper` has `alpha` in [0, 1] and `attack_scale`, the radius of the attack in
  units of `eps`.
  """
  robust, adversarial = _both(
    net, params, x, y, eps, hyper, key, steps, clip, passed
  )
  alpha = hyper['alpha']
  loss = jnp.mean(alpha * robust + (1 - alpha) * adversarial)
  return loss, {'robust': robust.mean(), 'adversarial': adversarial.mean()}


def exp_ibp(
  net: Net,
  params: Any,
  x: jax.Array,
  y: jax.Array,
  eps: ArrayLike,
  hyper: Hyper,
  key: jax.Array,
  *,
  steps: int = 8,
  clip: Clip = (0, 1),
  passed: IntervalPass | None = None,
) -> Result:
  """`adversarial^(1 - alpha) * interval^alpha` (De Palma et al., 2024).

  The product is taken for each example; `hyper` is that of `mtl_ibp`.
  """
  robust, adversarial = _both(
    net, params, x, y, eps, hyper, key, steps, clip, passed
  )
  alpha = hyper['alpha']
  tiny = jnp.finfo(robust.dtype).tiny
  log_robust, log_adversarial = (
    jnp.log(jnp.maximum(losses, tiny)) for losses in (robust, adversarial)
  )
  loss = jnp.mean(jnp.exp(alpha * log_robust + (1 - alpha) * log_adversarial))
  return loss, {'robust': robust.mean(), 'adversarial': adversarial.mean()}


def cc_ibp(
  net: Net,
  params: Any,
  x: jax.Array,
  y: jax.Array,
  eps: ArrayLike,
  hyper: Hyper,
  key: jax.Array,
  *,
  steps: int = 8,
  clip: Clip = (0, 1),
  passed: IntervalPass | None = None,
) -> Result:
  """Loss of mixed margins (De Palma et al., 2024).

  The margins are `alpha` interval + (1 - `alpha`) adversarial; `hyper` is that
  of `mtl_ibp`.
  """
  alpha = hyper['alpha']
  point = _attack(
    net, params, x, y, hyper['attack_scale'] * eps, key, steps, clip
  )
  rows = loss_terms.margin_rows(net, params, x, y)
  found = jnp.einsum('bsk,bk->bs', rows, net(params, point))
  passed = passed or _pass(net, params, x, eps, clip)
  lower = loss_terms.ibp_margins(passed, y).lower
  loss = worst_case(alpha * lower + (1 - alpha) * found).mean()
  terms = {'robust': lower, 'adversarial': found}
  return loss, {name: worst_case(m).mean() for name, m in terms.items()}


class Method(NamedTuple):
  """A loss and what it is told.

  Attributes:
    loss: the function.
    knobs: names of the scalars that it reads from `hyper`.
    attacks: whether it takes `steps`.
    whole: whether it bounds the whole balls, and takes `passed`.
  """

  loss: Callable[..., Result]
  knobs: tuple[str, ...] = ()
  attacks: bool = True
  whole: bool = False


LOSSES = {
  'standard': Method(standard, attacks=False),
  'pgd': Method(pgd),
  'ibp': Method(ibp, ('kappa',), attacks=False, whole=True),
  'crown_ibp': Method(crown_ibp, ('kappa', 'beta'), attacks=False, whole=True),
  'sabr': Method(sabr, ('lambda',)),
  'mtl_ibp': Method(mtl_ibp, ('alpha', 'attack_scale'), whole=True),
  'cc_ibp': Method(cc_ibp, ('alpha', 'attack_scale'), whole=True),
  'exp_ibp': Method(exp_ibp, ('alpha', 'attack_scale'), whole=True),
  'taps': Method(taps, ('taps_weight',)),
  'staps': Method(staps, ('lambda', 'taps_weight')),
}


def _mixed(natural, robust, kappa) -> Result:
  loss = kappa * natural + (1 - kappa) * robust
  return loss, {'natural': natural, 'robust': robust}


def _pass(net, params, x, eps, clip) -> IntervalPass:
  return loss_terms.interval_pass(net, params, input_box(x, eps, clip))


def _interval_losses(net, params, x, y, eps, clip, passed) -> jax.Array:
  passed = passed or _pass(net, params, x, eps, clip)
  return worst_case(loss_terms.ibp_margins(passed, y).lower)


def _attack(net, params, x, y, eps, key, steps, clip) -> jax.Array:
  return attacks.pgd(
    net, params, x, y, eps, key, steps=steps, clip=clip, loss='ce'
  )


def _attacked(net, params, x, y, eps, key, steps, clip) -> jax.Array:
  point = _attack(net, params, x, y, eps, key, steps, clip)
  return loss_terms.cross_entropies(net, params, point, y)


def _both(net, params, x, y, eps, hyper, key, steps, clip, passed):
  robust = _interval_losses(net, params, x, y, eps, clip, passed)
  radius = hyper['attack_scale'] * eps
  return robust, _attacked(net, params, x, y, radius, key, steps, clip)
