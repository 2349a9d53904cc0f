"""The same numbers by other means: polylines, grids and linear programs."""

import numpy as np
from scipy.optimize import linprog

from jaxlab.fairness import GroupScores


def random_instances(seed, count, num_groups, m=12, least=2):
  """`count` random instances: Beta scores, Dirichlet masses, padded to m."""
  rng = np.random.default_rng(seed)
  shape = count, num_groups
  n_atoms = rng.integers(least, m + 1, shape)
  a, b = rng.uniform(0.7, 3, (2, *shape, 1))
  real = np.arange(m) < n_atoms[..., None]
  scores = np.where(real, rng.beta(a, b, (*shape, m)), -1)
  scores = -np.sort(-scores, axis=-1)
  last = np.take_along_axis(scores, n_atoms[..., None] - 1, axis=-1)
  scores = np.where(real, scores, last)
  mass = np.where(real, rng.exponential(size=(*shape, m)), 0)
  mass /= mass.sum(axis=-1, keepdims=True)
  weight = rng.dirichlet(np.ones(num_groups) * 2, count)
  return GroupScores(scores, mass, weight, n_atoms.astype(np.int32))


def instance(gs, i):
  """Instance i of a batch."""
  return GroupScores(*(x[i] for x in gs))


def lower_for(scores, mass, p):
  """q*(p) of one group: where the ray of slope p leaves the polyline."""
  keep = mass > 0
  scores, mass = scores[keep], mass[keep]
  taken = np.concatenate([[0], np.cumsum(mass)])
  gained = np.concatenate([[0], np.cumsum(mass * scores)])
  above = gained[1:, None] >= p * taken[1:, None]
  k = np.minimum(above.sum(axis=0), len(mass) - 1)
  rise = gained[k] - p * taken[k]
  share = rise / (p * mass[k] - mass[k] * scores[k])
  share = np.where(k == 0, 1, np.clip(share, 0, 1))
  rest = (1 - share) * mass[k] + np.append(np.cumsum(mass[::-1])[::-1], 0)[
    k + 1
  ]
  tail = np.append(np.cumsum((mass * scores)[::-1])[::-1], 0)
  lost = (1 - share) * mass[k] * scores[k] + tail[k + 1]
  return np.where(rest > 0, lost / np.where(rest > 0, rest, 1), scores[-1])


def base_rates(gs):
  return (gs.scores * gs.mass).sum(axis=-1)


def common_for(gs, p):
  """Q(p) of one instance at PPVs above `lo`."""
  return np.max(
    [lower_for(s, w, p) for s, w in zip(gs.scores, gs.mass, strict=True)],
    axis=0,
  )


def q_at_lo(gs):
  """The limit of Q from above at the highest base rate."""
  pi = base_rates(gs)
  lo = pi.max()
  found = []
  for s, w, rate in zip(gs.scores, gs.mass, pi, strict=True):
    is_highest = rate >= lo - 1e-13
    found.append(s[w > 0].min() if is_highest else lower_for(s, w, [lo])[0])
  return max(found)


def is_feasible(gs):
  pi = base_rates(gs)
  if pi.max() > gs.scores[:, 0].min():
    return False
  return q_at_lo(gs) <= pi.min()


def loss_of(gs, p, q, cost_fp=1.0, cost_fn=1.0):
  base = gs.weight @ base_rates(gs)
  rate = (base - q) / (p - q)
  return cost_fp * (1 - p) * rate + cost_fn * q * (1 - rate)


def gaps_of(gs, p, q):
  pi = base_rates(gs)
  rate = (pi - np.asarray(q)[..., None]) / np.asarray(p - q)[..., None]
  tpr = np.asarray(p)[..., None] * rate / pi
  fpr = (1 - np.asarray(p)[..., None]) * rate / (1 - pi)
  return np.ptp(tpr, axis=-1), np.ptp(fpr, axis=-1)


def grid(gs, points=400, levels=5):
  """Feasible (p, q), a grid in p with several q between Q(p) and qcap."""
  pi = base_rates(gs)
  p = np.linspace(pi.max(), gs.scores[:, 0].min(), points + 1)[1:]
  low, cap = common_for(gs, p), pi.min()
  q = low + np.linspace(0, 1, levels)[:, None] * (cap - low)
  p = np.broadcast_to(p, q.shape)
  return p[:, low <= cap].ravel(), q[:, low <= cap].ravel()


def lp_lower_for(scores, mass, p):
  """q*(p) by the Charnes-Cooper linear program."""
  pi = mass @ scores
  m = len(mass)
  # y = rho / (1 - mu), t = 1 / (1 - mu).
  cost = np.append(-mass * scores, pi)
  equal = np.stack([np.append(mass * (scores - p), 0), np.append(-mass, 1)])
  below = np.hstack([np.eye(m), -np.ones((m, 1))])
  found = linprog(
    cost,
    A_ub=below,
    b_ub=np.zeros(m),
    A_eq=equal,
    b_eq=[0, 1],
    bounds=[(0, None)] * (m + 1),
    options={
      'primal_feasibility_tolerance': 1e-10,
      'dual_feasibility_tolerance': 1e-10,
    },
  )
  assert found.status == 0, found.message
  return found.fun


def lp_loss(gs, p, q, slack=1e-11):
  """The least loss over all rules with PPV p and FOR q; None if none has."""
  num_groups, m = gs.scores.shape
  mass = gs.weight[:, None] * gs.mass
  cost = (mass * (1 - gs.scores) - mass * gs.scores).ravel()
  pi = base_rates(gs)
  rows, right = [], []
  for k in range(num_groups):
    for level, total in (p, 0.0), (q, q - pi[k]):
      row = np.zeros((num_groups, m))
      row[k] = gs.mass[k] * (level - gs.scores[k])
      rows += [row.ravel(), -row.ravel()]
      right += [total + slack, -total + slack]
  found = linprog(
    cost, A_ub=np.array(rows), b_ub=right, bounds=(0, 1), method='highs'
  )
  return found.fun + gs.weight @ pi if found.status == 0 else None


def rates_of_rule(gs, rho):
  """PPV and FOR of each group, and the loss, counted from the rule."""
  mass, scores = np.asarray(gs.mass), np.asarray(gs.scores)
  rate = (mass * rho).sum(axis=-1)
  positive = (mass * scores * rho).sum(axis=-1)
  pi = (mass * scores).sum(axis=-1)
  with np.errstate(invalid='ignore', divide='ignore'):
    ppv = np.where(rate > 1e-9, positive / rate, np.nan)
    for_ = np.where(rate < 1 - 1e-9, (pi - positive) / (1 - rate), np.nan)
  loss = np.asarray(gs.weight) @ (rate - positive + pi - positive)
  return ppv, for_, loss
