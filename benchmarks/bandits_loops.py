"""Index rules as Python loops over NumPy arrays, one replication at a time.

The peers of the vectorised rules, with normal rewards. Equal indices do not
occur with them once every arm was pulled.
"""

import math

import numpy as np


class Rewards:
  """Normal rewards, drawn in blocks.

  Attributes:
    mu: `[N]` means.
    sigma: their standard deviation.
  """

  def __init__(self, rng: np.random.Generator, mu: np.ndarray, sigma: float):
    self.mu, self.sigma = mu, sigma
    self._normals = _normals(rng)

  def pull(self, arm: int | np.integer) -> float:
    """Returns one reward of an arm."""
    return self.mu[arm] + self.sigma * next(self._normals)


def ucb_e(
  rng: np.random.Generator, mu: np.ndarray, sigma: float, budget: int, a: float
) -> int:
  """UCB-E; returns the recommended arm."""
  rewards = Rewards(rng, mu, sigma)
  sums = np.array([rewards.pull(arm) for arm in range(len(mu))])
  pulls = np.ones(len(mu))
  for _ in range(budget - len(mu)):
    arm = np.argmax(sums / pulls + np.sqrt(a / pulls))
    sums[arm] += rewards.pull(arm)
    pulls[arm] += 1
  return int(np.argmax(sums / pulls))


def lucb(
  rng: np.random.Generator,
  mu: np.ndarray,
  sigma: float,
  budget: int,
  delta: float,
) -> int:
  """LUCB1 within a budget; returns the recommended arm."""
  rewards = Rewards(rng, mu, sigma)
  num_arms = len(mu)
  sums = np.array([rewards.pull(arm) for arm in range(num_arms)])
  pulls = np.ones(num_arms)
  spent = num_arms
  while spent < budget:
    means = sums / pulls
    exponent = math.log(1.25 * num_arms * spent**4 / delta)
    upper = means + sigma * np.sqrt(2 * exponent / pulls)
    leader = np.argmax(means)
    upper[leader] = -np.inf
    for arm in (leader, np.argmax(upper))[: budget - spent]:
      sums[arm] += rewards.pull(arm)
      pulls[arm] += 1
      spent += 1
  return int(np.argmax(sums / pulls))


def bucb(
  rng: np.random.Generator,
  mu: np.ndarray,
  sigma: float,
  budget: int,
  delta: float,
) -> int:
  """Bracketing UCB; returns the arm of the largest lower bound."""
  rewards = Rewards(rng, mu, sigma)
  # Of each bracket: its arms, their pulls and their reward sums.
  brackets: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
  counts = np.zeros(0, int)

  def bounds(index: int) -> tuple[np.ndarray, np.ndarray]:
    arms, pulls, sums = brackets[index]
    n = np.maximum(pulls, 1)
    scale = len(arms) * (index + 1) ** 2 / delta
    width = sigma * np.sqrt(np.log(scale * np.log2(2 * n)) / n)
    return sums / n, np.where(pulls > 0, width, np.inf)

  for time in range(1, budget + 1):
    following = len(brackets) + 1
    if not brackets or time >= following * 2**following:
      size = min(len(mu), 2**following)
      arms = rng.choice(len(mu), size, replace=False)
      brackets.append((arms, np.zeros(size), np.zeros(size)))
      counts = np.append(counts, 0)
    index = int(np.argmin(counts))
    means, width = bounds(index)
    place = np.argmax(means + width)
    arms, pulls, sums = brackets[index]
    sums[place] += rewards.pull(arms[place])
    pulls[place] += 1
    counts[index] += 1
  best = -np.inf, 0
  for index, (arms, *_) in enumerate(brackets):
    means, width = bounds(index)
    place = np.argmax(means - width)
    best = max(best, (means[place] - width[place], int(arms[place])))
  return best[1]


def _normals(rng: np.random.Generator):
  while True:
    yield from rng.standard_normal(4096).tolist()
