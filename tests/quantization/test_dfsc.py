"""The reconstruction loop, on a linear layer whose optimum is enumerated."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.quantization import dfsc, fit, objectives, operators
from jaxlab.quantization.types import Site
from tests.quantization import small
from tests.quantization.closeness import assert_normwise

K, PROBLEMS, T = 4, 24, 500
SITE = Site('', 'dense', K, 1, w_bits=2, a_bits=8)
HYPER = dfsc.Hyper(drop=0.0, steps=0.0)


@dataclasses.dataclass(frozen=True)
class Layer:
  soft: bool = False

  def __call__(self, context, states, x):
    return operators.quantized(SITE, states[''], x, soft=self.soft)


HARD, SOFT = Layer(), Layer(soft=True)


@functools.cache
def problems():
  """Correlated inputs, weights, and states rounded to nearest, stacked."""
  rng = np.random.default_rng(0)
  mix = rng.normal(size=(PROBLEMS, K, K)) + 2 * rng.normal(
    size=(PROBLEMS, K, 1)
  )
  x = rng.normal(size=(PROBLEMS, 32, K)) @ mix.swapaxes(1, 2)
  w = rng.normal(size=(PROBLEMS, K, 1))
  x, w = jnp.asarray(x, jnp.float32), jnp.asarray(w, jnp.float32)

  def start(x, w):
    state = small.state_of(SITE, w, jnp.zeros(1), x)
    act = state.act._replace(on=jnp.zeros((), bool))
    return state._replace(act=act)

  return x, w, jax.jit(jax.vmap(start))(x, w)


def learn_one(x, w, state, key, hyper=HYPER, **options):
  z = x @ w
  found, history = dfsc.reconstruct_block(
    HARD,
    (),
    {'': state},
    (x, x, z),
    lambda now: objectives.squared_error(z),
    key,
    hyper=hyper,
    steps=T,
    batch=32,
    soft_fn=SOFT,
    **options,
  )
  return found[''], history


@functools.cache
def learned():
  x, w, states = problems()
  keys = jax.random.split(jax.random.key(0), PROBLEMS)
  return jax.jit(jax.vmap(learn_one))(x, w, states, keys)


def cost(x, w, values):
  gap = np.asarray(x, np.float64) @ (np.asarray(values) - np.asarray(w))
  return np.sum(gap**2) / len(x)


def test_learning_lies_between_the_nearest_and_the_best():
  x, w, states = problems()
  nearest, after, best = np.zeros((3, PROBLEMS))
  found, _ = learned()
  for i in range(PROBLEMS):
    scale, zero = np.asarray(states.scale[i]), np.asarray(states.zero[i])
    every = itertools.product(range(4), repeat=K)
    best[i] = min(
      cost(x[i], w[i], scale * (np.array(q)[:, None] - zero)) for q in every
    )
    at = [jax.tree.map(lambda s, i=i: s[i], s) for s in (states, found)]
    nearest[i], after[i] = (
      cost(x[i], w[i], operators.weights_of(s)) for s in at
    )
  assert np.all(after >= best * (1 - 1e-4))
  assert after.mean() < nearest.mean()
  assert np.mean(np.log(after / nearest)) < -0.05
  assert np.mean(after <= nearest * (1 + 1e-4)) >= 0.6


def test_rounding_is_decided():
  found, history = learned()
  share = np.asarray(jax.nn.sigmoid(found.soft))
  assert np.all((share < 1e-3) | (share > 1 - 1e-3))
  assert not np.any(history.diverged)
  codes = np.asarray(operators.codes_of(found))
  assert codes.dtype == np.uint8 and codes.max() <= 3


def test_vmap_over_seeds_equals_single_runs():
  x, w, states = problems()
  found, history = learned()
  keys = jax.random.split(jax.random.key(0), PROBLEMS)
  for i in (0, 7):
    at = jax.tree.map(lambda s, i=i: s[i], states)
    one, alone = learn_one(x[i], w[i], at, keys[i])
    assert_normwise(alone.losses, history.losses[i], 1e-3)
    np.testing.assert_array_equal(one.soft, found.soft[i])


def test_vmap_over_rates_equals_single_runs():
  x, w, states = problems()
  state, key = jax.tree.map(lambda s: s[0], states), jax.random.key(3)
  rates = jnp.asarray([1e-3, 3e-2])

  def run(rate):
    hyper = HYPER._replace(rounding=rate, gains=rate)
    return learn_one(x[0], w[0], state, key, hyper)

  found, history = jax.vmap(run)(rates)
  for i in range(2):
    one, alone = run(rates[i])
    assert_normwise(history.losses[i], alone.losses, 1e-3)
    assert_normwise(found.log_gain[i], one.log_gain, 1e-3, 1e-6)
  assert not np.allclose(found.log_gain[0], found.log_gain[1])


def test_the_objective_is_built_anew():
  x, w, states = problems()
  state, z = jax.tree.map(lambda s: s[1], states), x[1] @ w[1]
  seen = []

  def objective_fn(now):
    seen.append(now)
    plain = objectives.squared_error(z)
    return plain if now is None else plain._replace(ridge=plain.ridge * 3)

  def run(refreshes):
    return dfsc.reconstruct_block(
      HARD,
      (),
      {'': state},
      (x[1], x[1], z),
      objective_fn,
      jax.random.key(0),
      hyper=HYPER,
      steps=T,
      refreshes=refreshes,
      soft_fn=SOFT,
    )[1]

  dynamic, static = run(2), run(0)
  assert seen[0] is None and len(seen) == 4 and seen[3] is None
  assert all(now.shape == z.shape for now in seen[1:3])
  # Three times the form: a relative change of 2, then of 0.
  np.testing.assert_allclose(dynamic.change, [2, 0], atol=1e-5)
  assert static.change.shape == (0,)
  assert dynamic.losses.shape == static.losses.shape == (T,)
  third = T // 3
  assert_normwise(dynamic.losses[:third], static.losses[:third], 1e-5)
  np.testing.assert_allclose(
    dynamic.losses[third], 3 * static.losses[third], rtol=1e-4
  )


def test_a_loss_that_is_not_finite_keeps_the_start():
  x, w, states = problems()
  state, z = jax.tree.map(lambda s: s[2], states), x[2] @ w[2]
  broken = objectives.squared_error(z)
  broken = broken._replace(ridge=jnp.asarray(jnp.nan))
  found, history = dfsc.reconstruct_block(
    HARD,
    (),
    {'': state},
    (x[2], x[2], z),
    lambda now: broken,
    jax.random.key(0),
    hyper=HYPER,
    steps=T,
    soft_fn=SOFT,
  )
  assert bool(history.diverged)
  expected = state._replace(soft=fit.settled(state.soft))
  for a, b in zip(
    jax.tree.leaves(found['']), jax.tree.leaves(expected), strict=True
  ):
    np.testing.assert_array_equal(a, b)


def test_dropping_mixes_both_inputs():
  x, w, states = problems()
  state, z = jax.tree.map(lambda s: s[3], states), x[3] @ w[3]

  def first_loss(x_q, x_float, drop):
    _, history = dfsc.reconstruct_block(
      HARD,
      (),
      {'': state},
      (x_q, x_float, z),
      lambda now: objectives.squared_error(z),
      jax.random.key(0),
      hyper=HYPER._replace(drop=drop),
      steps=T,
      soft_fn=SOFT,
    )
    return float(history.losses[0])

  other = x[3] + 5
  assert first_loss(other, x[3], 1.0) == pytest.approx(
    first_loss(x[3], x[3], 0.0), rel=1e-4
  )
  assert first_loss(other, x[3], 0.0) > 2 * first_loss(other, x[3], 1.0)


def test_equal_shapes_share_one_program():
  x, w, states = problems()
  at = [jax.tree.map(lambda s, i=i: s[i], states) for i in (4, 5)]
  learn_one(x[4], w[4], at[0], jax.random.key(0))
  before = dfsc.learn._cache_size()
  learn_one(x[5], w[5], at[1], jax.random.key(1))
  assert dfsc.learn._cache_size() == before
