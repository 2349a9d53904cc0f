"""Bandit environments: noisy arms as pytrees with keyed rewards.

`env.sample(key, arm, n, level=0, start=0)` returns the sum and the sum of
squares of n pulls of an arm that was pulled `start` times before. Pull number j
of arm i is a function of (key, i, j) alone, so two algorithms that are given
the same key see the same rewards, however they batch their pulls. (A Gaussian
block of n pulls is one draw, keyed by its first pull.)
"""

import dataclasses
from collections.abc import Callable
from typing import ClassVar, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.bandits import randomness

# Sum and sum of squares of some pulls.
Totals = tuple[jax.Array, jax.Array]
UNBOUNDED = 2**31 - 1


class Environment(Protocol):
  """What an algorithm sees of an environment."""

  @property
  def ids(self) -> jax.Array:
    """`[N]` int32: what the rewards of each arm are keyed by."""

  @property
  def num_arms(self) -> int:
    """The number of arms N."""

  @property
  def shared(self) -> tuple[str, ...]:
    """The fields that `take` does not cut down to the taken arms."""

  def sample(self, key, arm, n, level=0, start=0) -> Totals:
    """Sum and sum of squares of `n` pulls of `arm`; broadcasts over `arm`."""

  def take(self, arms: jax.Array) -> 'Environment':
    """The environment of these arms only; they keep their rewards."""

  def mean(self, key: jax.Array, arm: jax.Array) -> jax.Array:
    """The true mean of an arm (in the replication of this reward key)."""

  def best_mean(self) -> jax.Array:
    """The largest true mean."""


def _check_finite(name: str, value) -> None:
  if isinstance(value, jax.core.Tracer):
    return
  array = np.asarray(value)
  if not np.all(np.isfinite(array)):
    place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
    raise ValueError(
      f'{name}{list(place)} is {array[place]}; give finite values.'
    )


def as_float(value) -> jax.Array:
  """Returns an array of floats, of the given width if it has one."""
  array = jnp.asarray(value)
  return (
    array
    if jnp.issubdtype(array.dtype, jnp.floating)
    else array.astype(jnp.float32)
  )


def _means(name: str, mu) -> jax.Array:
  _check_finite(name, mu)
  mu = as_float(mu)
  if mu.ndim == 0 or mu.shape[-1] < 1:
    raise ValueError(f'{name} needs a trailing arm axis, got {mu.shape}.')
  return mu


def arm_ids(batch_shape: tuple[int, ...], num_arms: int) -> jax.Array:
  """Returns `[*batch_shape, num_arms]` int32 arm indices."""
  return jnp.broadcast_to(
    jnp.arange(num_arms, dtype=jnp.int32), (*batch_shape, num_arms)
  )


def per_arm(sample_one: Callable, arm, n, *counters):
  """Maps a scalar sampler over arms; keeps a Python `n` static."""
  arm = jnp.asarray(arm, jnp.int32)
  counters = tuple(
    jnp.broadcast_to(jnp.asarray(c, jnp.int32), arm.shape).ravel()
    for c in counters
  )
  if isinstance(n, int | np.integer):
    totals = jax.vmap(lambda a, *c: sample_one(a, int(n), *c))(
      arm.ravel(), *counters
    )
  else:
    counts = jnp.broadcast_to(jnp.asarray(n, jnp.int32), arm.shape).ravel()
    totals = jax.vmap(sample_one)(arm.ravel(), counts, *counters)
  return jax.tree.map(lambda t: t.reshape(arm.shape + t.shape[1:]), totals)


def sum_pulls(pull: Callable[[jax.Array], jax.Array], start, n) -> jax.Array:
  """Sums `pull(j)` over the pulls j = start .. start + n - 1."""
  if isinstance(n, int):
    return jnp.sum(jax.vmap(pull)(start + jnp.arange(n, dtype=jnp.int32)), 0)
  zero = jnp.zeros_like(pull(start))
  return jax.lax.fori_loop(
    start, start + n, lambda j, total: total + pull(j), zero
  )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Gaussian:
  """Arms with normal rewards.

  Attributes:
    mu: `[N]` means.
    sigma: `[N]` standard deviations.
    ids: `[N]` int32: what the rewards of an arm are keyed by.
  """

  mu: jax.Array
  shared: ClassVar[tuple[str, ...]] = ()
  sigma: jax.Array
  ids: jax.Array

  @property
  def num_arms(self) -> int:
    return self.mu.shape[-1]

  def sample(self, key, arm, n, level=0, start=0) -> Totals:
    del level

    def one(arm, n, start):
      count = jnp.asarray(n, self.mu.dtype)
      noise = randomness.normal(key, self.ids[arm], start, dtype=self.mu.dtype)
      mu, sigma = self.mu[arm], self.sigma[arm]
      total = count * mu + sigma * jnp.sqrt(count) * noise
      spread_key = jax.random.fold_in(
        jax.random.fold_in(key, self.ids[arm]), start
      )
      spread = jax.random.chisquare(
        spread_key, jnp.maximum(count - 1, 1), dtype=self.mu.dtype
      )
      spread = jnp.where(count > 1, sigma**2 * spread, 0)
      return total, total**2 / jnp.maximum(count, 1) + spread

    return per_arm(one, arm, n, start)

  def take(self, arms: jax.Array) -> 'Gaussian':
    return Gaussian(self.mu[arms], self.sigma[arms], self.ids[arms])

  def mean(self, key, arm) -> jax.Array:
    del key
    return self.mu[arm]

  def best_mean(self) -> jax.Array:
    return jnp.max(self.mu, -1)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Categorical:
  """Arms whose rewards take one of V values, drawn exactly pull by pull.

  Attributes:
    cumulative: `[N, V]` cumulative probabilities.
    values: `[N, V]` reward of each category.
    ids: `[N]` int32: what the rewards of an arm are keyed by.
  """

  cumulative: jax.Array
  shared: ClassVar[tuple[str, ...]] = ()
  values: jax.Array
  ids: jax.Array

  @property
  def num_arms(self) -> int:
    return self.cumulative.shape[-2]

  def counts(self, key, arm, n, start=0) -> jax.Array:
    """Returns `[..., V]` int32: how often each category came in n pulls."""

    def one(arm, n, start):
      # Category v is hit where the uniform number passes the v lower limits;
      # counting passes first makes the sum over pulls a plain reduction.
      limits = self.cumulative[arm, :-1]

      def passes(j):
        u = randomness.uniform(
          key, self.ids[arm], j, dtype=self.cumulative.dtype
        )
        return (u >= limits).astype(jnp.int32)

      passed = sum_pulls(passes, start, n)
      total = jnp.asarray(n, jnp.int32)[None]
      zero = jnp.zeros(1, jnp.int32)
      return jnp.concatenate([total, passed]) - jnp.concatenate([passed, zero])

    return per_arm(one, arm, n, start)

  def sample(self, key, arm, n, level=0, start=0) -> Totals:
    del level
    counts = self.counts(key, arm, n, start).astype(self.values.dtype)
    values = self.values[arm]
    return jnp.sum(counts * values, -1), jnp.sum(counts * values**2, -1)

  def take(self, arms: jax.Array) -> 'Categorical':
    return Categorical(self.cumulative[arms], self.values[arms], self.ids[arms])

  def _means(self) -> jax.Array:
    return jnp.sum(
      jnp.diff(self.cumulative, prepend=0, axis=-1) * self.values, -1
    )

  def mean(self, key, arm) -> jax.Array:
    del key
    return self._means()[arm]

  def best_mean(self) -> jax.Array:
    return jnp.max(self._means(), -1)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Infinite:
  """Arms without end, their means drawn by `sampler(key)` as they enter.

  Attributes:
    sigma: `[]` standard deviation of the normal noise.
    best: `[]` largest possible mean (what regret is measured against).
    ids: `[S]` int32 of the arms taken, or `[0]` for the whole pool.
    sampler: `key -> mean of a new arm`.
  """

  shared: ClassVar[tuple[str, ...]] = ('sigma', 'best')
  sigma: jax.Array
  best: jax.Array
  ids: jax.Array
  sampler: Callable = dataclasses.field(metadata={'static': True})

  @property
  def num_arms(self) -> int:
    return self.ids.shape[-1] or UNBOUNDED

  def _id(self, arm) -> jax.Array:
    return self.ids[arm] if self.ids.shape[-1] else jnp.asarray(arm, jnp.int32)

  def mean(self, key, arm) -> jax.Array:
    ids = self._id(arm)

    def draw(i):
      return self.sampler(jax.random.fold_in(jax.random.fold_in(key, i), 0))

    return jax.vmap(draw)(ids.ravel()).reshape(ids.shape)

  def sample(self, key, arm, n, level=0, start=0) -> Totals:
    arm = jnp.asarray(arm, jnp.int32)
    mu = self.mean(key, arm).ravel()
    known = Gaussian(
      mu, jnp.broadcast_to(self.sigma, mu.shape), self._id(arm).ravel()
    )
    places = jnp.arange(mu.size, dtype=jnp.int32).reshape(arm.shape)
    return known.sample(jax.random.fold_in(key, 1), places, n, level, start)

  def take(self, arms: jax.Array) -> 'Infinite':
    return dataclasses.replace(self, ids=self._id(arms))

  def best_mean(self) -> jax.Array:
    return self.best


def gaussian(mu, sigma) -> Gaussian:
  """Normal rewards.

  Args:
    mu: `[N]` means (or `[B, N]`, a batch of environments).
    sigma: standard deviation, one number or one per arm.

  Raises:
    ValueError: if a mean is not finite or a deviation is negative.
  """
  mu = _means('mu', mu)
  _check_finite('sigma', sigma)
  if not isinstance(sigma, jax.core.Tracer) and np.any(np.asarray(sigma) < 0):
    raise ValueError(f'sigma must be >= 0, got {np.min(np.asarray(sigma))}.')
  sigma = jnp.broadcast_to(jnp.asarray(sigma, mu.dtype), mu.shape)
  return Gaussian(mu, sigma, arm_ids(mu.shape[:-1], mu.shape[-1]))


def deterministic(mu) -> Gaussian:
  """Rewards without noise: every pull of arm i returns `mu[i]`."""
  return gaussian(mu, 0.0)


def categorical(probs, values) -> Categorical:
  """Rewards that take the values `values[v]` with probability `probs[i, v]`.

  Args:
    probs: `[N, V]` probabilities (or `[B, N, V]`).
    values: `[V]` rewards.

  Raises:
    ValueError: if a row of `probs` is negative somewhere or does not sum to 1
      within 1e-6.
  """
  if not isinstance(probs, jax.core.Tracer):
    _check_finite('probs', probs)
    array = np.asarray(probs, np.float64)
    if np.any(array < 0):
      raise ValueError(f'probs must be >= 0, got {array.min()}.')
    error = np.abs(array.sum(-1) - 1)
    if np.any(error > 1e-6):
      row = int(np.argmax(error.ravel()))
      total = array.sum(-1).ravel()[row]
      raise ValueError(f'probs must sum to 1 in each row; row {row}: {total}.')
  probs = as_float(probs)
  _check_finite('values', values)
  values = jnp.broadcast_to(jnp.asarray(values, probs.dtype), probs.shape)
  cumulative = jnp.cumsum(probs, -1).at[..., -1].set(1)
  return Categorical(
    cumulative, values, arm_ids(probs.shape[:-2], probs.shape[-2])
  )


def bernoulli(mu) -> Categorical:
  """Rewards 1 with probability `mu[i]`, else 0.

  Raises:
    ValueError: if a mean lies outside [0, 1].
  """
  mu = _means('mu', mu)
  if not isinstance(mu, jax.core.Tracer):
    outside = np.asarray((mu < 0) | (mu > 1))
    if outside.any():
      raise ValueError(
        f'mu must lie in [0, 1], got {np.asarray(mu)[outside][0]}.'
      )
  return categorical(jnp.stack([1 - mu, mu], -1), jnp.asarray([0, 1], mu.dtype))


def infinite(sampler: Callable, *, sigma=0.0, best=1.0) -> Infinite:
  """An endless pool: `sampler(key)` gives the mean of each arm that enters.

  Args:
    sampler: `key -> []` float; keep one function object, it is a static
      argument of compiled programs.
    sigma: standard deviation of the normal noise.
    best: the supremum of the means.
  """
  if not isinstance(sigma, jax.core.Tracer) and sigma < 0:
    raise ValueError(f'sigma must be >= 0, got {sigma}.')
  return Infinite(
    jnp.asarray(sigma, jnp.float32),
    jnp.asarray(best, jnp.float32),
    jnp.zeros(0, jnp.int32),
    sampler,
  )
