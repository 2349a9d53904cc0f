"""A policy learned by bilevel optimization (BOBCAT).

Inside, abilities are estimated from what the policy asks; outside, the policy
is trained on the loss of answers that it could not ask for. Source: Ghosh &
Lan, BOBCAT: Bilevel Optimization-Based Computerized Adaptive Testing, IJCAI
2021. The response model is that of a calibrated bank and is not trained here.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from jaxlab.adaptive_testing import checks, models, posterior, small_matrices
from jaxlab.adaptive_testing.simulate import run_cat
from jaxlab.adaptive_testing.types import Bank, Selector
from jaxlab.errors import UserError
from jaxlab.nets import MLP

FORMS = ('straight_through', 'reinforce')
_TWINS = 4  # tests of an examinee in a batch, which are baselines of each other
_CLOSED = -1e9  # logit of an item that is not available


class _Batch(NamedTuple):
  """Tests that the policy has played, `[E]` of them.

  Attributes:
    y: `[E, n]` all answers.
    pool: `[E, n]` bool, what could be asked.
    held_out: `[E, n]` bool, what the loss is about.
    items: `[E, T]` what was asked, in that order.
    theta: `[E, *latent]` estimates at the end.
  """

  y: jax.Array
  pool: jax.Array
  held_out: jax.Array
  items: jax.Array
  theta: jax.Array


@functools.cache
def bobcat(*, width: int = 256) -> Selector:
  """The policy: logits from answers as 1 and -1, and 0 for what is open.

  Args:
    width: of the two hidden layers.
  """

  def init(key, bank):
    net = _network(width, bank.num_items)
    return net.init(key, jnp.zeros((1, bank.num_items)))

  def score(params, key, bank, state):
    del key
    net = _network(width, bank.num_items)
    return net.apply(params, _signed(state.asked, state.responses))

  return Selector(init, score, 'bobcat')


def train_bobcat(
  key: jax.Array,
  bank: Bank,
  responses: ArrayLike,
  *,
  test_length: int,
  available: ArrayLike | None = None,
  form: str = 'straight_through',
  num_steps: int = 500,
  batch: int = 64,
  width: int = 256,
  learning_rate: ArrayLike = 2e-3,
  temperature: ArrayLike = 1.0,
  held_out: ArrayLike = 0.2,
) -> tuple[Any, jax.Array]:
  """Trains the policy on examinees whose answers are known.

  In each step a share of each examinee's answers is held out; the policy draws
  T of the others, and the loss is that of the answers held out, at the MAP
  estimate of the T. With 'straight_through' the gradient goes through the
  estimate (the implicit function theorem gives how it depends on each item) to
  the probabilities of picks; with 'reinforce' the loss of a test is weighed
  against that of the same examinee's other tests.

  Args:
    key: a PRNG key.
    bank: of n items.
    responses: `[E, n]` answers 0 or 1.
    test_length: T.
    available: `[E, n]`, not 0 where there is an answer; None for all.
    form: of the gradient, one of `FORMS`.
    num_steps: steps of Adam.
    batch: examinees in a step.
    width: of the hidden layers.
    learning_rate: of Adam; falls to 0 as a cosine.
    temperature: of the picks.
    held_out: share of the answers that the loss is about.

  Returns:
    Parameters for `bobcat(width=width)`, and the losses, `[num_steps]`.

  Raises:
    UserError: an unknown form, or responses that are not 0 or 1.
  """
  if form not in FORMS:
    raise UserError(f'form {form!r} is unknown: use {" or ".join(FORMS)}.')
  checks.check_responses('responses', responses, available, bank)
  policy = bobcat(width=width)
  y = jnp.asarray(responses)
  known = jnp.ones(y.shape, bool)
  if available is not None:
    known = jnp.asarray(available) != 0
  surrogate = _straight_through if form == FORMS[0] else _reinforce
  twins = 1 if form == FORMS[0] else _TWINS
  adam = optax.adam(optax.cosine_decay_schedule(learning_rate, num_steps))
  init_key, key = jax.random.split(key)

  def step(carry, step_key):
    params, state = carry
    keys = jax.random.split(step_key, 4)
    row = jax.random.choice(keys[0], y.shape[0], (batch,))
    part = jnp.repeat(known[row], twins, axis=0)
    share = jax.random.uniform(keys[1], (batch, bank.num_items)) < held_out
    outside = part & jnp.repeat(share, twins, axis=0)
    pool = part & ~outside
    answers = jnp.repeat(y[row], twins, axis=0)
    trace = run_cat(
      *(_drawing(policy, temperature), params, bank, answers),
      test_length=test_length,
      key=keys[2],
      available=pool,
    )
    tests = _Batch(answers, pool, outside, trace.items.T, trace.theta[-1])
    losses = _outer_loss(bank, tests)
    net = functools.partial(_log_policy, width, bank.num_items, temperature)
    slope = jax.grad(surrogate)(params, net, bank, tests, losses)
    change, state = adam.update(slope, state)
    return (optax.apply_updates(params, change), state), losses.mean()

  params = policy.init(init_key, bank)
  start = (params, adam.init(params))
  (params, _), losses = jax.lax.scan(
    step, start, jax.random.split(key, num_steps)
  )
  return params, losses


def _network(width: int, num_items: int) -> nn.Module:
  return MLP((width, width), num_items, activation=nn.tanh)


def _signed(asked: jax.Array, responses: jax.Array) -> jax.Array:
  return jnp.where(asked, 2.0 * responses - 1, 0)


def _drawing(policy: Selector, temperature) -> Selector:
  """The policy with Gumbel noise: picks are drawn from its softmax."""

  def score(params, key, bank, state):
    logits = policy.score(params, key, bank, state) / temperature
    return logits + jax.random.gumbel(key, logits.shape, logits.dtype)

  return Selector(policy.init, score, policy.name)


def _log_policy(width, num_items, temperature, params, tests: _Batch):
  """Logarithms of the probabilities of all picks, `[E, T, n]`.

  The states before each pick come from the order of the items.
  """
  hot = jax.nn.one_hot(tests.items, num_items)
  asked = jnp.cumsum(hot, axis=1) - hot > 0
  state = _signed(asked, tests.y[:, None])
  logits = _network(width, num_items).apply(params, state) / temperature
  open_ = tests.pool[:, None] & ~asked
  return jax.nn.log_softmax(jnp.where(open_, logits, _CLOSED), axis=-1)


def _outer_loss(bank: Bank, tests: _Batch) -> jax.Array:
  """Mean loss of the answers held out, `[E]`."""

  def one(theta, y, outside):
    return models.nll(bank, theta, y, outside) / jnp.maximum(outside.sum(), 1)

  return jax.vmap(one)(tests.theta, tests.y, tests.held_out)


def _straight_through(params, net: Callable, bank, tests, losses) -> jax.Array:
  """A function with the straight-through gradient by the policy."""
  del losses
  asked = jax.nn.one_hot(tests.items, tests.y.shape[1]).sum(1) > 0
  count = jnp.maximum(tests.held_out.sum(1), 1)
  pull = models.nll_grad(bank, tests.theta, tests.y, tests.held_out)
  pull = pull / count.reshape(-1, *(1 for _ in bank.latent_shape))
  precision = posterior.posterior_precision(bank, tests.theta, asked)
  slopes = models.item_grads(bank, tests.theta, tests.y, tests.pool)
  # By the weight w_j of an item the estimate moves as -H^-1 (gradient of j).
  if bank.latent_shape:
    pull = small_matrices.solve(precision, pull)
    worth = -(slopes @ pull[..., None])[..., 0]
  else:
    worth = -slopes * (pull / precision)[:, None]
  picks = jnp.exp(net(params, tests))
  return jnp.mean(jnp.sum(picks * worth[:, None], axis=(1, 2)))


def _reinforce(params, net: Callable, bank, tests, losses) -> jax.Array:
  """A function with the gradient of REINFORCE, with twins as baseline."""
  del bank
  groups = losses.reshape(-1, _TWINS)
  others = (groups.sum(1, keepdims=True) - groups) / (_TWINS - 1)
  excess = (groups - others).reshape(-1)
  hot = jax.nn.one_hot(tests.items, tests.y.shape[1])
  chosen = jnp.sum(hot * net(params, tests), axis=(1, 2))
  return jnp.mean(excess * chosen)
