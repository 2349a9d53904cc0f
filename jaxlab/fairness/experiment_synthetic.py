"""Random instances: the solver against other methods, and single thresholds."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

from jaxlab import parallel, plots, stats
from jaxlab.fairness import experiment_records as records
from jaxlab.fairness.geometry import feasible_region, for_lower, group_boundary
from jaxlab.fairness.instances import random_groups
from jaxlab.fairness.metrics import group_metrics, largest_gap
from jaxlab.fairness.separation import min_separation
from jaxlab.fairness.sufficiency import optimal_sufficient
from jaxlab.fairness.types import GroupScores
from jaxlab.harness.claims import Claim
from jaxlab.harness.progress import Progress

_SAME = 1e-9  # losses closer than this are one optimum


def run(config, workdir) -> None:
  """Solves random instances of every size and looks at single thresholds."""
  records.check_positive(
    config, 'groups', 'instances', 'programs', 'grid', 'criteria_instances'
  )
  records.check(config, 'grid', config.grid >= 8, 'at least 8')
  records.check(
    config,
    'sizes',
    len(config.sizes) > 0 and all(map(_is_range, config.sizes)),
    'pairs (least, most) with 1 <= least <= most',
  )
  cells = [(k, sizes) for k in config.groups for sizes in config.sizes]
  found = {}
  with Progress('solving random instances', len(cells)) as progress:
    for num_groups, sizes in cells:
      solve = functools.partial(_solve, config, num_groups, tuple(sizes))
      name = f'K{num_groups}-m{sizes[0]}-{sizes[1]}'
      found[num_groups, tuple(sizes)] = workdir.cached(name, solve)
      progress.advance()
  _record(workdir, found)
  criteria = workdir.cached('criteria', lambda: _criteria(config))
  _record_criteria(workdir, criteria)


def _is_range(sizes) -> bool:
  """Whether it is a pair of numbers of scores, the least and the most."""
  is_pair = isinstance(sizes, tuple | list) and len(sizes) == 2
  return is_pair and 1 <= sizes[0] <= sizes[1]


def _solve(config, num_groups: int, sizes: tuple[int, int]):
  """What is found on many instances of one size."""
  draw = functools.partial(
    random_groups,
    num_groups=num_groups,
    max_atoms=max(most for _, most in config.sizes),
    least=sizes[0],
    most=sizes[1],
  )

  def one(key):
    gs = draw(key)
    best, close = optimal_sufficient(gs), min_separation(gs)
    return {
      'gs': gs,
      'status': best.status,
      'loss': best.loss,
      'ppv': best.ppv,
      'for': best.for_,
      'extra': close.loss - best.loss,
      'grid': _grid_loss(gs, config.grid),
    }

  key = jax.random.fold_in(jax.random.key(config.seed), num_groups)
  keys = parallel.replication_keys(
    jax.random.fold_in(key, sizes[1]), config.instances
  )
  found = parallel.gather(parallel.sharded_vmap(one, chunk=64)(keys))
  gs = found.pop('gs')
  solved = np.flatnonzero(found['status'] == 0)[: config.programs]
  gap = [
    _linear_program_loss(jax.tree.map(lambda x, i=i: x[i], gs), found['ppv'][i])
    - found['loss'][i]
    for i in solved
  ]
  return {**found, 'program gap': np.asarray(gap)}


def _grid_loss(gs: GroupScores, size: int) -> jax.Array:
  """The least loss on a grid of PPVs and FORs; inf where none is feasible."""
  region = feasible_region(gs, n_points=2)
  share = jnp.linspace(0, 1, size)
  p = region.lo + (region.hi - region.lo) * share[1:]
  lowest = jnp.max(for_lower(group_boundary(gs), p), axis=0)
  q = lowest[:, None] + (region.qcap - lowest)[:, None] * share[:: size // 8]
  base = jnp.sum(gs.weight * jnp.sum(gs.mass * gs.scores, axis=1))
  rate = (base - q) / (p[:, None] - q)
  loss = (1 - p[:, None]) * rate + q * (1 - rate)
  feasible = (lowest[:, None] <= region.qcap) & (p > q.T).T
  return jnp.min(jnp.where(feasible, loss, jnp.inf))


def _linear_program_loss(gs: GroupScores, ppv: float) -> float:
  """The least loss of all rules with a common PPV, by linear programs.

  In each group the FOR is made as small as the PPV allows, by the program of
  Charnes and Cooper (1962) for a ratio. Between the largest of these and the
  lowest base rate the loss is monotone in the common FOR.
  """
  lowest = max(
    _lowest_for(scores, mass, ppv)
    for scores, mass in zip(gs.scores, gs.mass, strict=True)
  )
  base_rates = np.sum(gs.mass * gs.scores, axis=1)
  base = float(np.sum(gs.weight * base_rates))

  def loss(q):
    rate = (base - q) / (ppv - q)
    return (1 - ppv) * rate + q * (1 - rate)

  return min(loss(lowest), loss(float(base_rates.min())))


def _lowest_for(scores: np.ndarray, mass: np.ndarray, ppv: float) -> float:
  """The lowest FOR that a group can have with a PPV.

  The variables are `t = 1 / P(R=0)` and `y_i = t P(R=1 | S=s_i)`.
  """
  real = mass > 0
  s, w = scores[real], mass[real]
  pi = float(w @ s)
  if ppv - pi < 1e-9:  # all positive: the limit as the PPV falls to it
    return float(s[-1])
  ppv = min(ppv, float(s[0]))
  result = scipy.optimize.linprog(
    np.r_[pi, -w * s],
    A_ub=np.c_[-np.ones(len(s)), np.eye(len(s))],
    b_ub=np.zeros(len(s)),
    A_eq=np.stack([np.r_[1, -w], np.r_[0, w * (s - ppv)]]),
    b_eq=[1.0, 0.0],
    bounds=(0, None),
    method='highs',
  )
  return float(result.fun)


def _record(workdir, found) -> None:
  rows, excess, gaps = [], [], []
  for (num_groups, sizes), cell in found.items():
    solved = cell['status'] != 1
    extra = cell['extra'][solved]
    same = extra < _SAME
    worst = np.max(cell['loss'][solved] - cell['grid'][solved], initial=-np.inf)
    excess.append(worst)
    gaps.append(np.max(np.abs(cell['program gap']), initial=0.0))
    rows.append(
      {
        'groups': num_groups,
        'scores a group': f'{sizes[0]} to {sizes[1]}',
        'infeasible': float(1 - solved.mean()),
        'solved': int(solved.sum()),
        'optima coincide': float(same.mean()) if len(same) else np.nan,
        'extra loss, median': float(np.median(extra)) if len(extra) else np.nan,
        'extra loss, mean': float(extra.mean()) if len(extra) else np.nan,
        'loss above the grid': float(worst),
        'off the linear program': float(gaps[-1]),
      }
    )
  workdir.save_table(
    'instances',
    rows,
    'Random instances; "extra loss" is that of the rule closest to separation.',
  )
  extra = np.concatenate([c['extra'][c['status'] != 1] for c in found.values()])
  if len(extra) < 2:
    return
  exact = functools.partial(Claim, paper=records.PAPER, sense='<')
  solved = sum(row['solved'] for row in rows)
  workdir.add_claim(
    exact(
      'No point of a dense grid has a lower loss',
      measured=max(excess),
      low=max(excess),
      high=max(excess),
      threshold=1e-12,
      unit='loss above the best point of the grid',
      note=f'the largest of {solved} instances, no sampling',
    )
  )
  workdir.add_claim(
    exact(
      'The loss is that of a linear program',
      measured=max(gaps),
      low=max(gaps),
      high=max(gaps),
      threshold=1e-9,
      unit='loss',
      note='the largest deviation from HiGHS, no sampling',
    )
  )
  workdir.add_claim(
    records.mean_claim(
      'The rule closest to separation often costs little more (mean below .05)',
      extra,
      threshold=0.05,
      sense='<',
      unit='extra loss',
      note=f'here a seed is an instance; median {np.median(extra):.4f}',
    )
  )
  same = extra < _SAME
  share = stats.wilson_interval(same.sum(), same.size)
  workdir.headline(
    'both optima coincide', same.mean(), float(share.low), float(share.high)
  )
  fig, axes = plots.figure()
  axes[0, 0].hist(extra, bins=np.linspace(0, max(0.2, extra.max()), 41))
  axes[0, 0].set(xlabel='extra loss', ylabel='instances')
  workdir.save_figure(
    'extra_loss', fig, 'Loss of the rule closest to separation above the least.'
  )


def _criteria(config):
  """Largest gaps after one threshold on scores that meet each criterion."""

  def one(key):
    keys = jax.random.split(key, 6)
    shape = (config.criteria_groups, config.criteria_atoms)
    threshold = jax.random.uniform(keys[0], (), minval=0.3, maxval=0.7)
    scores = jax.random.uniform(keys[1], shape[1:])
    # Independence: P(S) is the same in all groups, P(Y | S) is not.
    mass = jax.random.dirichlet(keys[2], jnp.ones(shape[1]))
    positive = mass * jax.random.uniform(keys[3], shape)
    independent = positive, mass - positive
    # Separation: P(S | Y) is the same in all groups, P(Y) is not.
    likelihood = jax.random.dirichlet(keys[4], jnp.ones(shape[1]), (2,))
    base = jax.random.uniform(keys[5], (shape[0], 1), minval=0.1, maxval=0.9)
    separate = base * likelihood[1], (1 - base) * likelihood[0]
    # Sufficiency: P(Y | S) is the score itself in all groups, P(S) is not.
    own = jax.random.dirichlet(keys[2], jnp.ones(shape[1]), shape[:1])
    sufficient = own * scores, own * (1 - scores)
    decided = scores >= threshold
    gaps = [_gaps(decided, *j) for j in (independent, separate, sufficient)]
    return {
      'independence': gaps[0].selection_rate,
      'separation': jnp.maximum(gaps[1].tpr, gaps[1].fpr),
      'sufficiency': jnp.fmax(gaps[2].ppv, gaps[2].for_),
    }

  keys = parallel.replication_keys(
    jax.random.key(config.seed), config.criteria_instances
  )
  return parallel.gather(parallel.sharded_vmap(one)(keys))


def _gaps(decided, positive, negative):
  """Gaps of the rates of one threshold, from joint masses `[K, m]`."""
  num_groups, num_atoms = positive.shape
  weight = jnp.concatenate([positive.ravel(), negative.ravel()])
  size = num_groups * num_atoms
  y = jnp.repeat(jnp.asarray([1, 0]), size)
  group = jnp.tile(jnp.repeat(jnp.arange(num_groups), num_atoms), 2)
  r = jnp.tile(decided, 2 * num_groups).astype(weight.dtype)
  rates = group_metrics(y, r, group, num_groups, weight)
  return jax.tree.map(largest_gap, rates)


def _record_criteria(workdir, criteria) -> None:
  rows = []
  for name, gaps in criteria.items():
    known = gaps[np.isfinite(gaps)]
    mean = stats.mean_interval(known, level=records.LEVEL)
    rows.append(
      {
        'the score meets': name,
        'mean gap': float(known.mean()),
        'low': float(mean.low),
        'high': float(mean.high),
        'largest gap': float(known.max()),
      }
    )
  workdir.save_table(
    'one_threshold',
    rows,
    'Gaps of the rates that each criterion asks to be equal, after one '
    'threshold on scores that meet it.',
  )
  for name in ('independence', 'separation'):
    known = criteria[name][np.isfinite(criteria[name])]
    workdir.add_claim(
      records.mean_claim(
        f'One threshold keeps {name}',
        known,
        threshold=1e-9,
        sense='<',
        unit='gap',
        note='here a seed is an instance',
      )
    )
  known = criteria['sufficiency'][np.isfinite(criteria['sufficiency'])]
  workdir.add_claim(
    records.mean_claim(
      'One threshold does not keep sufficiency',
      known,
      threshold=0.01,
      sense='>',
      unit='gap',
      note='here a seed is an instance',
    )
  )
