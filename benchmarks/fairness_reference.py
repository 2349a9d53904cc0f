"""The optimum under equal PPV and FOR in NumPy, one instance after another.

The candidates are those of Benger and Ligett 2026, arXiv 2602.07285: between
two breakpoints the lowest FOR of a group is `alpha - kappa / (p - t)`, and the
optimum is a breakpoint, a stationary point of the loss, a crossing of two
groups or the corner of the largest PPV and FOR. Vectorised over candidates.
"""

from typing import NamedTuple

import numpy as np


class Rule(NamedTuple):
  """An optimal rule; the fields of `jaxlab.fairness.Solution`."""

  ppv: float
  for_: float
  loss: float
  tpr_gap: float
  fpr_gap: float
  selection_rate: np.ndarray
  rho: np.ndarray


class Boundary(NamedTuple):
  """Segments of one group: `[m]` each, but for the base rate `pi`."""

  slope: np.ndarray
  above: np.ndarray
  below: np.ndarray
  ppv: np.ndarray
  pi: float


def optimal_sufficient(
  scores: np.ndarray, mass: np.ndarray, weight: np.ndarray
) -> Rule | None:
  """The optimum for equal costs of both errors.

  Not for instances whose feasible set is a point.

  Args:
    scores: `[K, m]` falling.
    mass: `[K, m]`, rows sum to 1; atoms of mass 0 are left out.
    weight: `[K]`, sums to 1.

  Returns:
    The rule; None where no rule is feasible.
  """
  groups = [
    _boundary(s[w > 0], w[w > 0]) for s, w in zip(scores, mass, strict=True)
  ]
  pi = np.array([group.pi for group in groups])
  base, cap, low = weight @ pi, pi.min(), pi.max()
  high = min(group.slope[0] for group in groups)
  if low >= high:
    return None
  inside = np.concatenate([group.ppv for group in groups])
  inside = inside[(inside > low) & (inside < high)]
  ends = np.unique(np.concatenate([[low, high], inside]))
  left, right = ends[:-1], ends[1:]
  s, c, d = _segments(groups, (left + right) / 2)
  alpha, kappa, t = s - d, c * d, s + c

  with np.errstate(divide='ignore', invalid='ignore'):
    p = np.concatenate(
      [
        left[None],
        right[None],
        *_stationary(s, c, pi[:, None], base),
        t + kappa / (alpha - cap),
        *_crossings(alpha, kappa, t),
      ]
    )
    fall = np.where(kappa > 0, kappa / (p[:, None] - t), 0)
    q = np.max(alpha - fall, axis=1)
    valid = (p >= left) & (p <= right) & (q <= cap + 1e-12)
    if not valid.any():
      return None
    p, q = p[valid], q[valid]
    p, q = np.append(p, p.max()), np.append(q, cap)
    rate = (base - q) / (p - q)
    loss = (1 - p) * rate + q * (1 - rate)
    best = np.nanargmin(loss)
  return _rule(scores, mass, pi, p[best], q[best], loss[best])


def _boundary(s: np.ndarray, w: np.ndarray) -> Boundary:
  taken, gained = np.cumsum(w), np.cumsum(w * s)
  rest = np.append(np.cumsum(w[:0:-1])[::-1], 0)
  left = np.append(np.cumsum((w * s)[:0:-1])[::-1], 0)
  above = (gained - w * s) - s * (taken - w)
  return Boundary(s, above, s * rest - left, gained / taken, gained[-1])


def _segments(
  groups: list[Boundary], p: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Slope and intercepts `[K, n]` of each group's segment at PPVs `[n]`."""
  rows = []
  for group in groups:
    k = np.searchsorted(-group.ppv, -p)
    k = np.clip(k, 1, len(group.slope) - 1)
    rows.append((group.slope[k], group.above[k], group.below[k]))
  slope, above, below = (np.array(x) for x in zip(*rows, strict=True))
  return slope, above, below


def _stationary(s, c, pi, base) -> list[np.ndarray]:
  """PPVs at which the loss, quadratic over linear in the rate, is flat."""
  e = s - pi
  b0, b1 = base - pi + c, s - base
  n0, n1, n2 = -2 * c * b0, b0 * (1 - 2 * s) - 2 * c * b1, b1 * (1 - 2 * s)
  return [s + c / mu for mu in _roots(e * n2, 2 * n2 * c, n1 * c - e * n0)]


def _crossings(alpha, kappa, t) -> list[np.ndarray]:
  """PPVs at which two groups have the same lowest FOR."""
  a, b = np.triu_indices(len(alpha), 1)
  lead, apart = alpha[a] - alpha[b], t[a] - t[b]
  linear = lead * apart - kappa[a] + kappa[b]
  return [t[a] + z for z in _roots(lead, linear, -kappa[a] * apart)]


def _roots(a, b, c) -> list[np.ndarray]:
  """Roots of `a x^2 + b x + c` without cancellation; nan where complex."""
  half = -(b + np.where(b < 0, -1, 1) * np.sqrt(b * b - 4 * a * c)) / 2
  return [half / a, c / half]


def _rule(scores, mass, pi, p, q, loss) -> Rule:
  """The soft threshold of each group, mixed with a constant rate."""
  rate = np.clip((pi - q) / (p - q), 0, 1)[:, None]
  taken = np.cumsum(mass, axis=1) - mass
  room = np.where(mass > 0, mass, 1)
  threshold = np.clip((rate - taken) / room, 0, 1)
  flat = pi[:, None] * rate
  most = np.sum(mass * scores * threshold, axis=1, keepdims=True)
  excess = np.where(most > flat, most - flat, 1)
  theta = np.clip(np.where(most > flat, (p * rate - flat) / excess, 1), 0, 1)
  rho = theta * threshold + (1 - theta) * rate
  tpr, fpr = p * rate[:, 0] / pi, (1 - p) * rate[:, 0] / (1 - pi)
  return Rule(p, q, loss, np.ptp(tpr), np.ptp(fpr), rate[:, 0], rho)
