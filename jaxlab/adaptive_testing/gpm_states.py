"""States of tests that a rule is trained on, recorded by rollouts."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.adaptive_testing.estimate import map_newton
from jaxlab.adaptive_testing.posterior import log_posterior, posterior_precision
from jaxlab.adaptive_testing.simulate import run_cat
from jaxlab.adaptive_testing.types import Bank, CatState, Selector


class Rollout(NamedTuple):
  """Tests of E examinees of whom all responses are known.

  Attributes:
    y: `[E, n]` all responses, 0 where there is none.
    known: `[E, n]` bool, where there is one.
    pool: `[E, n]` bool, items that could be asked.
    target: `[E, *latent]` abilities from all responses.
    items: `[T, E]` what was asked.
    theta: `[T, E, *latent]` the estimates before each item.
    error: `[T]` mean squared error against the target after each item.
  """

  y: jax.Array
  known: jax.Array
  pool: jax.Array
  target: jax.Array
  items: jax.Array
  theta: jax.Array
  error: jax.Array


class States(NamedTuple):
  """Some states of rollouts.

  Attributes:
    cat: what a selector sees of them, `[B]` examinees.
    y: `[B, n]` all responses.
    known: `[B, n]` bool.
    target: `[B, *latent]`.
    time: `[B]` int32, number of items asked.
  """

  cat: CatState
  y: jax.Array
  known: jax.Array
  target: jax.Array
  time: jax.Array


@functools.cache
def noisy(selector: Selector) -> Selector:
  """A rule with Gumbel noise: it draws items by a softmax of the scores.

  Its parameters are those of the rule and the size of the noise.
  """

  def init(key, bank):
    return selector.init(key, bank), jnp.zeros(())

  def score(params, key, bank, state):
    own, noise = params
    key, noise_key = jax.random.split(key)
    found = selector.score(own, key, bank, state)
    return found + noise * jax.random.gumbel(noise_key, found.shape)

  return Selector(init, score, f'noisy {selector.name}')


def record(
  selector: Selector,
  params: Any,
  bank: Bank,
  y: jax.Array,
  known: jax.Array,
  *,
  key: jax.Array,
  noise: ArrayLike,
  test_length: int,
  pool_size: int | None = None,
) -> Rollout:
  """Tests examinees by a rule with noise.

  Args:
    selector: the rule.
    params: of the rule.
    bank: of n items.
    y: `[E, n]` all responses; any value where there is none.
    known: `[E, n]` bool, where there is one.
    key: PRNG key.
    noise: size of the Gumbel noise on the scores.
    test_length: T.
    pool_size: number of random items that each examinee may be asked; None for
      all.
  """
  run_key, pool_key = jax.random.split(key)
  y = jnp.where(known, y, 0)
  pool = known
  if pool_size is not None:
    draw = jax.random.uniform(pool_key, known.shape)
    last = jnp.sort(jnp.where(known, draw, 1), axis=1)[:, pool_size - 1]
    pool = known & (draw <= last[:, None])
  target = jax.jit(map_newton)(bank, y, known)
  trace = run_cat(
    *(noisy(selector), (params, jnp.asarray(noise)), bank, y),
    test_length=test_length,
    key=run_key,
    available=pool,
  )
  start = jnp.zeros_like(trace.theta[:1])
  gap = (trace.theta - target) ** 2
  error = jnp.sum(gap.reshape(test_length, -1), axis=1) / len(y)
  theta = jnp.concatenate([start, trace.theta[:-1]])
  return Rollout(y, known, pool, target, trace.items, theta, error)


def join(first: Rollout, second: Rollout) -> Rollout:
  """The examinees of two rollouts, with the errors of the first."""

  def along(axis, name):
    pair = [getattr(rollout, name) for rollout in (first, second)]
    return jnp.concatenate(pair, axis=axis)

  return first._replace(
    **{name: along(0, name) for name in ('y', 'known', 'pool', 'target')},
    **{name: along(1, name) for name in ('items', 'theta')},
  )


def take_states(
  bank: Bank, rollout: Rollout, examinee: jax.Array, time: jax.Array
) -> States:
  """States of a rollout before item `time` of each examinee.

  Args:
    bank: of n items.
    rollout: of E examinees and T items.
    examinee: `[B]`.
    time: `[B]` from 0 to T - 1.
  """
  num_items = bank.num_items
  turn = jnp.arange(rollout.items.shape[0])
  items = rollout.items.T[examinee]
  items = jnp.where(turn < time[:, None], items, -1)
  row = jnp.arange(examinee.shape[0])[:, None]
  asked = jnp.zeros((examinee.shape[0], num_items), bool)
  place = jnp.where(items >= 0, items, num_items)
  asked = asked.at[row, place].set(True, mode='drop')
  y, theta = rollout.y[examinee], rollout.theta[time, examinee]
  log_post = None if bank.latent_shape else log_posterior(bank, y, asked)
  cat = CatState(
    asked=asked,
    available=rollout.pool[examinee] & ~asked,
    responses=jnp.where(asked, y, 0).astype(jnp.int8),
    theta=theta,
    info=posterior_precision(bank, theta, asked),
    log_post=log_post,
    step=jnp.zeros((), jnp.int32),
    items=items,
  )
  return States(cat, y, rollout.known[examinee], rollout.target[examinee], time)
