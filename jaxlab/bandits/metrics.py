"""What is measured of recommended arms, and what theory says of it.

`true_means` are those of the recommended arms, `[R, ...]`: R replications along
axis 0. `best_mean` is the largest mean of the WHOLE pool, `[]` or, with one
environment a replication, `[R]`.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab import stats


class Estimate(NamedTuple):
  """A mean with a confidence interval.

  Attributes:
    mean: `[...]`.
    low: `[...]` lower end of the interval.
    high: `[...]` upper end.
  """

  mean: jax.Array
  low: jax.Array
  high: jax.Array


class Rank(NamedTuple):
  """The place of a method in a comparison.

  Attributes:
    rank: 1 is best; methods that cannot be told apart may share it.
    regret: its mean simple regret with a confidence interval.
  """

  rank: int
  regret: Estimate


def simple_regret(true_means: ArrayLike, best_mean: ArrayLike) -> jax.Array:
  """How much worse than the best arm the recommended one is.

  Args:
    true_means: `[R, ...]`.
    best_mean: `[]` or `[R]`.

  Returns:
    `[R, ...]` regrets, at least 0.
  """
  true_means = jnp.asarray(true_means)
  return _along(best_mean, true_means) - true_means


def error_probability(
  true_means: ArrayLike, best_mean: ArrayLike, eps: ArrayLike
) -> jax.Array:
  """Share of replications whose arm is not eps-best: mu < mu_best - eps.

  Args:
    true_means: `[R, ...]`.
    best_mean: `[]` or `[R]`.
    eps: `[]` or `[E]` tolerances.

  Returns:
    `[...]`, or `[E, ...]` for E tolerances.
  """
  true_means, eps = jnp.asarray(true_means), jnp.asarray(eps)
  limit = jnp.expand_dims(
    eps, tuple(range(eps.ndim, eps.ndim + true_means.ndim))
  )
  is_wrong = true_means < _along(best_mean, true_means) - limit
  return jnp.mean(is_wrong, axis=eps.ndim)


def quantiles(regrets: ArrayLike, probabilities: ArrayLike) -> jax.Array:
  """Quantiles over the replications.

  Args:
    regrets: `[R, ...]`.
    probabilities: `[]` or `[Q]` numbers in [0, 1].

  Returns:
    `[...]` or `[Q, ...]`, linear between the order statistics.
  """
  return jnp.quantile(jnp.asarray(regrets), jnp.asarray(probabilities), axis=0)


def paired_difference_ci(
  a: ArrayLike, b: ArrayLike, level: float = 0.95
) -> Estimate:
  """Mean of a - b over replications that saw the same rewards.

  Args:
    a: `[R, ...]` regrets of one method.
    b: `[R, ...]` regrets of the other.
    level: confidence level of the t interval.

  Returns:
    `[...]` estimates.
  """
  low, high = stats.paired_difference_interval(a, b, axis=0, level=level)
  return Estimate(jnp.mean(jnp.asarray(a) - jnp.asarray(b), 0), low, high)


def rank_table(
  regrets: Mapping[str, ArrayLike], level: float = 0.95
) -> dict[str, Rank]:
  """Ranks methods by mean regret; overlapping intervals are ties.

  A method's rank is one more than the number of methods that are better beyond
  doubt: whose t interval of the mean ends below the beginning of its own.

  Args:
    regrets: name -> `[R]` regrets.
    level: confidence level of each interval.

  Returns:
    name -> `Rank`, best mean first.
  """
  estimates = {}
  for name, values in regrets.items():
    low, high = stats.mean_interval(values, level=level)
    estimates[name] = Estimate(jnp.mean(jnp.asarray(values)), low, high)
  order = sorted(estimates, key=lambda name: float(estimates[name].mean))
  return {
    name: Rank(
      1 + sum(bool(e.high < estimates[name].low) for e in estimates.values()),
      estimates[name],
    )
    for name in order
  }


def noninclusion_probability(N: int, N_eps: int, c0: int) -> float:
  """Chance that c0 random arms of N hold none of N_eps good ones.

  C(N - N_eps, c0) / C(N, c0), to 1e-12; computed on the host.

  Args:
    N: number of arms.
    N_eps: number of eps-best arms among them.
    c0: number of arms drawn without replacement.

  Raises:
    ValueError: naming the number that is out of range.
  """
  if N < 1:
    raise ValueError(f'N must be >= 1, got {N}.')
  for name, value in (('N_eps', N_eps), ('c0', c0)):
    if not 0 <= value <= N:
      raise ValueError(f'{name} must lie in [0, N = {N}], got {value}.')
  if N_eps + c0 > N:
    return 0.0
  # The formula is symmetric in N_eps and c0: take the shorter product.
  few, many = sorted((N_eps, c0))
  logs = np.log1p(-many / (N - np.arange(few, dtype=np.float64)))
  return math.exp(math.fsum(logs))


def uniform_deterministic_regret(mu: ArrayLike, num: int) -> float:
  """Expected regret of one noiseless pull of `num` random arms, exactly.

  The i best arms are all missed with probability C(N-i, num) / C(N, num), and
  each such miss adds the gap between the i-th and the next arm.

  Args:
    mu: `[N]` means.
    num: number of arms drawn without replacement; all where it exceeds N.

  Returns:
    max(mu) - E[largest drawn mean], in float64.

  Raises:
    ValueError: if `num` is below 1.
  """
  if num < 1:
    raise ValueError(f'num must be >= 1, got {num}.')
  falling = np.sort(np.asarray(mu, np.float64).ravel())[::-1]
  total = falling.size
  left_out = max(total - num, 0)
  ranks = np.arange(min(left_out, total - 1))
  missed = np.cumprod((left_out - ranks) / (total - ranks))
  gaps = -np.diff(falling)[: missed.size]
  return float(missed @ gaps)


def _along(best_mean: ArrayLike, true_means: jax.Array) -> jax.Array:
  """Lets `best_mean` broadcast against axis 0 of `true_means`."""
  best = jnp.asarray(best_mean)
  if best.ndim == 0:
    return best
  return jnp.expand_dims(best, tuple(range(1, true_means.ndim)))
