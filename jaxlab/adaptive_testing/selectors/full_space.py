"""Expected matching of Newton steps over the whole ability space.

A Newton step of the loss of the asked items, with one more, should equal that
of all items, at any ability. Answers that are not known are drawn at the
estimate; their expectation has a closed form.
"""

import functools

import jax
import jax.numpy as jnp

from jaxlab.adaptive_testing import models
from jaxlab.adaptive_testing.selectors.classical import no_params
from jaxlab.adaptive_testing.types import Bank, CatState, Selector
from jaxlab.errors import UserError


@functools.cache
def newton_match(*, num_points: int = 5, bound: float = 4.0) -> Selector:
  """Least expected squared difference of Newton steps, for one dimension.

  At an ability, with losses l, prior N(0, 1) and information H, it is the
  expectation of `((g_S + g_j + theta) / H_Sj - (g_Q + theta) / H_Q)^2`; the
  score is minus its mean over abilities.

  Args:
    num_points: equally spaced abilities in `[-bound, bound]`.
    bound: of the abilities.
  """

  def score(params, key, bank, state):
    del params, key
    if bank.latent_shape:
      raise UserError('newton_match is for abilities of one dimension.')
    grid = jnp.linspace(-bound, bound, num_points, dtype=state.theta.dtype)

    def add(total, theta):
      return total - _mismatch(bank, state, theta) / num_points, None

    start = jnp.zeros(state.available.shape, state.theta.dtype)
    return jax.lax.scan(add, start, grid)[0]

  return Selector(no_params, score, 'newton_match')


def _mismatch(bank: Bank, state: CatState, theta: jax.Array) -> jax.Array:
  """Expected squared difference of the steps at one ability, `[E, n]`."""
  p, info = models.prob(bank, theta), models.item_information(bank, theta)
  wrong, right = (
    models.item_grads(bank, theta, jnp.full(p.shape, y)) for y in (0, 1)
  )
  lever = wrong - right  # a gradient is (p - y) times this
  chance = models.prob(bank, state.theta)
  asked = state.asked.astype(p.dtype)
  open_ = (state.available & ~state.asked).astype(p.dtype)
  known = jnp.sum(asked * (p - state.responses) * lever, -1, keepdims=True)
  mean = open_ * (p - chance) * lever
  spread = open_ * chance * (1 - chance) * lever**2
  precision = 1 + jnp.sum(asked * info, axis=-1, keepdims=True)
  rest = precision + jnp.sum(open_ * info, axis=-1, keepdims=True)
  scale = 1 / (precision + info) - 1 / rest
  others = jnp.sum(mean, axis=-1, keepdims=True) - mean
  bias = (known + theta + mean) * scale - others / rest
  noise = jnp.sum(spread, axis=-1, keepdims=True) - spread
  return bias**2 + spread * scale**2 + noise / rest**2
