"""A policy that attends to the answers, learned as a deep Q-network (NCAT).

Source: Zhuang et al., Fully Adaptive Framework: Neural Computerized Adaptive
Testing for Online Education, AAAI 2022. Right and wrong answers are two
channels, told apart by a vector of their own; each attends to itself and then
to the other.
"""

import functools
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from jaxlab.adaptive_testing import checks, estimate
from jaxlab.adaptive_testing.simulate import run_cat
from jaxlab.adaptive_testing.types import Bank, Selector

_HEADS = 2
_CLOSED = -1e9  # value of an item that is not available


class AttentionPolicy(nn.Module):
  """Values of all items after a test so far.

  Attributes:
    num_items: n.
    width: of embeddings, a multiple of 2, and of the hidden layer.
  """

  num_items: int
  width: int

  @nn.compact
  def __call__(self, items: jax.Array, answers: jax.Array) -> jax.Array:
    """Maps tests to values.

    Args:
      items: `[..., T]` in any order, -1 where there is none.
      answers: `[..., T]` 0 or 1.

    Returns:
      `[..., n]`.
    """
    seen = items >= 0
    embed = nn.Embed(self.num_items, self.width)(jnp.maximum(items, 0))
    channel = jnp.stack([seen & (answers == 1), seen & (answers != 1)])
    sign = self.param('sign', nn.initializers.normal(1.0), (2, self.width))
    x = embed + sign.reshape(2, *(1 for _ in items.shape), self.width)
    own = self._attend(x, channel, x, channel)
    both = self._attend(own, channel, own[::-1], channel[::-1])
    sums = [*_mean(own, channel), *_mean(both, channel)]
    counts = [*jnp.sum(channel, axis=-1, keepdims=True)]
    x = jnp.concatenate([*sums, *counts], axis=-1)
    x = nn.relu(nn.Dense(2 * self.width)(x))
    return nn.Dense(self.num_items)(x)

  def _attend(self, x, part, y, other) -> jax.Array:
    """Adds to x what it finds in y; both `[2, ..., T, width]`."""
    mask = nn.make_attention_mask(part, other)
    attention = nn.MultiHeadDotProductAttention(num_heads=_HEADS)
    found = attention(x, y, mask=mask)
    # Without a right answer, say, there is nothing to attend to.
    some = jnp.any(other, axis=-1)[..., None, None]
    return x + jnp.where(some, found, 0)


def _mean(x: jax.Array, part: jax.Array) -> jax.Array:
  """Mean of `[..., T, d]` over the places that count; 0 without any."""
  total = jnp.sum(jnp.where(part[..., None], x, 0), axis=-2)
  return total / jnp.maximum(part.sum(axis=-1, keepdims=True), 1)


class _Replay(NamedTuple):
  """Tests of the past, `[capacity, ...]`.

  Attributes:
    items: `[capacity, T]` in the order of asking.
    answers: `[capacity, T]`.
    rewards: `[capacity, T]`.
    pool: `[capacity, n]` bool, what could be asked.
  """

  items: jax.Array
  answers: jax.Array
  rewards: jax.Array
  pool: jax.Array


@functools.cache
def ncat(*, width: int = 32) -> Selector:
  """The policy, greedy by its values.

  Args:
    width: of the embeddings.
  """

  def init(key, bank):
    nothing = jnp.full((1, 1), -1, jnp.int32)
    return AttentionPolicy(bank.num_items, width).init(key, nothing, nothing)

  def score(params, key, bank, state):
    del key
    at = jnp.maximum(state.items, 0)
    answers = jnp.take_along_axis(state.responses, at, axis=1)
    net = AttentionPolicy(bank.num_items, width)
    return net.apply(params, state.items, answers)

  return Selector(init, score, 'ncat')


def train_ncat(
  key: jax.Array,
  bank: Bank,
  responses: ArrayLike,
  *,
  test_length: int,
  available: ArrayLike | None = None,
  num_rounds: int = 200,
  batch: int = 64,
  updates: int = 8,
  capacity: int = 8192,
  width: int = 32,
  learning_rate: ArrayLike = 3e-3,
  discount: ArrayLike = 0.5,
  target_rate: ArrayLike = 0.02,
) -> tuple[Any, jax.Array]:
  """Trains the policy on examinees whose answers are known.

  In each round some examinees are tested by the policy, which picks at random
  with a probability that falls from 1 to 0.1; their tests enter the replay
  memory, from which Q-learning (double, with a slow target network) takes its
  batches. The reward of an item is by how much it brings the estimate closer
  to that from all answers, in squared distance.

  Args:
    key: a PRNG key.
    bank: of n items.
    responses: `[E, n]` answers 0 or 1.
    test_length: T.
    available: `[E, n]`, not 0 where there is an answer; None for all.
    num_rounds: rounds of testing and learning.
    batch: examinees in a round, and tests in an update.
    updates: steps of Adam in a round.
    capacity: tests in the replay memory, a multiple of `batch`.
    width: of the embeddings.
    learning_rate: of Adam.
    discount: of the reward of later items.
    target_rate: share of the network that moves into the target each update.

  Returns:
    Parameters for `ncat(width=width)`, and the mean squared distance at the end
    of the tests, `[num_rounds]`.

  Raises:
    UserError: responses that are not 0 or 1.
  """
  checks.check_responses('responses', responses, available, bank)
  policy, y = ncat(width=width), jnp.asarray(responses)
  known = jnp.ones(y.shape, bool)
  if available is not None:
    known = jnp.asarray(available) != 0
  capacity = batch * max(capacity // batch, 1)
  adam = optax.adam(learning_rate)
  init_key, key = jax.random.split(key)
  net = AttentionPolicy(bank.num_items, width)

  def play(params, key, chance):
    row_key, test_key = jax.random.split(key)
    row = jax.random.choice(row_key, y.shape[0], (batch,))
    trace = run_cat(
      *(_exploring(policy), (params, chance), bank, y[row]),
      test_length=test_length,
      key=test_key,
      available=known[row],
    )
    return _record(bank, y[row], known[row], trace)

  def learn(carry, key, replay, size):
    params, target, state = carry
    row = jax.random.randint(key, (batch,), 0, size)
    tests = jax.tree.map(lambda x: x[row], replay)
    loss = functools.partial(_bellman_error, net, target, tests, discount)
    change, state = adam.update(jax.grad(loss)(params), state)
    params = optax.apply_updates(params, change)
    target = optax.incremental_update(params, target, target_rate)
    return params, target, state

  def go(carry, turn):
    learner, replay = carry
    play_key, learn_key = jax.random.split(jax.random.fold_in(key, turn))
    # Half of the rounds explore less and less.
    chance = jnp.maximum(1 - 2 * turn / num_rounds, 0.1)
    tests, distance = play(learner[0], play_key, chance)
    place = (turn * batch) % capacity
    replay = jax.tree.map(
      lambda table, new: jax.lax.dynamic_update_slice_in_dim(
        table, new.astype(table.dtype), place, 0
      ),
      replay,
      tests,
    )
    size = jnp.minimum((turn + 1) * batch, capacity)
    learner, _ = jax.lax.scan(
      lambda c, k: (learn(c, k, replay, size), None),
      learner,
      jax.random.split(learn_key, updates),
    )
    return (learner, replay), distance

  params = policy.init(init_key, bank)
  shape = (capacity, test_length)
  replay = _Replay(
    jnp.full(shape, -1, jnp.int32),
    jnp.zeros(shape, jnp.int8),
    jnp.zeros(shape),
    jnp.zeros((capacity, bank.num_items), bool),
  )
  start = ((params, params, adam.init(params)), replay)
  ((params, _, _), _), history = jax.lax.scan(go, start, jnp.arange(num_rounds))
  return params, history


def _exploring(policy: Selector) -> Selector:
  """The policy, or with some probability an item at random."""

  def score(params, key, bank, state):
    params, chance = params
    values = policy.score(params, key, bank, state)
    flip_key, draw_key = jax.random.split(key)
    flip = jax.random.uniform(flip_key, (values.shape[0], 1)) < chance
    return jnp.where(flip, jax.random.uniform(draw_key, values.shape), values)

  return Selector(policy.init, score, policy.name)


def _record(bank, y, known, trace) -> tuple[_Replay, jax.Array]:
  """What goes into the memory, and the mean distance at the end."""
  goal = estimate.map_newton(bank, y, known)
  start = estimate.standard_prior(bank).mean
  path = jnp.concatenate(
    [jnp.broadcast_to(start, goal.shape)[None], trace.theta]
  )
  gap = (path - goal) ** 2
  distance = gap if gap.ndim == 2 else gap.sum(-1)
  items = trace.items.T
  answers = jnp.take_along_axis(y, jnp.maximum(items, 0), axis=1)
  tests = _Replay(items, answers, -jnp.diff(distance, axis=0).T, known)
  return tests, distance[-1].mean()


def _bellman_error(net, target, tests: _Replay, discount, params) -> jax.Array:
  """Mean Huber loss of the values of what was asked."""
  length = tests.items.shape[1]
  # `[T + 1, T]`: the tests before each item, and the whole.
  so_far = jnp.arange(length) < jnp.arange(length + 1)[:, None]
  before = jnp.where(so_far, tests.items[:, None], -1)
  answers = jnp.broadcast_to(tests.answers[:, None], before.shape)
  values = net.apply(params, before, answers)
  slow = net.apply(target, before[:, 1:], answers[:, 1:])
  hot = jax.nn.one_hot(before, tests.pool.shape[1], dtype=bool).any(2)
  open_ = tests.pool[:, None] & ~hot
  best = jnp.argmax(jnp.where(open_, values, _CLOSED)[:, 1:], axis=-1)
  later = jnp.take_along_axis(slow, best[..., None], axis=-1)[..., 0]
  more = jnp.arange(length) < length - 1
  goal = tests.rewards + discount * jnp.where(more, later, 0)
  given = tests.items >= 0
  chosen = jnp.maximum(tests.items, 0)[..., None]
  found = jnp.take_along_axis(values[:, :-1], chosen, axis=-1)[..., 0]
  error = optax.huber_loss(found, jax.lax.stop_gradient(goal))
  return jnp.sum(jnp.where(given, error, 0)) / jnp.maximum(given.sum(), 1)
