"""PPV, FOR and the error rates of a decision rule in each group.

`group_metrics` counts rows, `rule_metrics` integrates a rule over the atoms of
calibrated scores, exactly. A rate whose condition never happens is nan.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.fairness.checks import (
  check_count,
  check_rows,
  group_numbers,
  is_traced,
  number_rows,
)
from jaxlab.fairness.types import INFEASIBLE, OK, GroupScores, Solution


class GroupMetrics(NamedTuple):
  """Rates of a rule R in each group; nan where a rate is undefined.

  Leading axes are instances.

  Attributes:
    ppv: `[..., K]` `P(Y=1 | R=1)`.
    for_: `[..., K]` `P(Y=1 | R=0)`.
    tpr: `[..., K]` `P(R=1 | Y=1)`.
    fpr: `[..., K]` `P(R=1 | Y=0)`.
    selection_rate: `[..., K]` `P(R=1)`.
    n: `[..., K]` total weight of the group: its number of rows where rows have
      no weights, `P(A=a)` where the group is a distribution.
  """

  ppv: jax.Array
  for_: jax.Array
  tpr: jax.Array
  fpr: jax.Array
  selection_rate: jax.Array
  n: jax.Array


def group_metrics(
  y: ArrayLike,
  r_prob: ArrayLike,
  groups: ArrayLike,
  num_groups: int,
  weight: ArrayLike | None = None,
) -> GroupMetrics:
  """Rates of decisions on labelled rows.

  Args:
    y: `[n]` labels, 0 or 1.
    r_prob: `[n]` probability of a positive decision, or the decision itself.
    groups: `[n]` int group of each row, at least 0; rows of groups from
      `num_groups` on are left out.
    num_groups: K, static.
    weight: `[n]` weights of the rows, at least 0; 1 where it is None.

  Returns:
    Rates `[K]`; all nan with `n` 0 for a group without rows.

  Raises:
    UserError: if the arrays differ in length; outside `jit` also for bad
      labels, probabilities (nan passes), groups or weights.
  """
  num_groups = check_count('num_groups', num_groups)
  label, r, group, w = _checked_rows(y, r_prob, groups, weight)
  if not jnp.issubdtype(r.dtype, jnp.floating):
    r = r.astype(jnp.result_type(float))
  w = jnp.ones_like(r) if w is None else w
  if not label.shape == group.shape == r.shape == w.shape == (label.size,):
    raise UserError(
      f'y, r_prob, groups and weight must be vectors of one length, got shapes'
      f' {label.shape}, {r.shape}, {group.shape} and {w.shape}.'
    )
  y, w = label.astype(r.dtype), w.astype(r.dtype)
  cells = jnp.stack(
    [w * y * r, w * (1 - y) * r, w * y * (1 - r), w * (1 - y) * (1 - r)], -1
  )
  counts = jax.ops.segment_sum(cells, group, num_groups)
  return _rates(counts, floor=0)


def _checked_rows(
  y: Any, r_prob: Any, groups: Any, weight: Any
) -> tuple[Any, Any, Any, Any]:
  """The rows as arrays, or the error that names the first bad value."""
  limits = {
    'y': (y, lambda x: (x == 0) | (x == 1), '0 or 1'),
    'r_prob': (r_prob, lambda x: ~((x < 0) | (x > 1)), 'in [0, 1]'),
    'weight': (
      weight,
      lambda x: (x >= 0) & np.isfinite(x),
      'finite and at least 0',
    ),
  }
  found: dict[str, Any] = {}
  for name, (values, allowed, wanted) in limits.items():
    rows = values
    if rows is not None and not is_traced(rows):
      rows = number_rows(name, rows)
      check_rows(name, rows, allowed(rows), wanted)
    found[name] = None if rows is None else jnp.asarray(rows)
  groups = group_numbers(groups)
  if not is_traced(groups):
    check_rows('groups', groups, groups >= 0, 'at least 0')
  groups = jnp.asarray(groups, jnp.int32)
  return found['y'], found['r_prob'], groups, found['weight']


def rule_metrics(gs: GroupScores, rho: ArrayLike) -> GroupMetrics:
  """Rates of a rule on calibrated scores, exactly.

  Args:
    gs: score distributions.
    rho: `[..., K, m]` the rule `P(R=1 | S, A)`.

  Returns:
    Rates `[..., K]`. A condition whose probability is rounding error counts as
    one that never happens.
  """
  s, w, r = gs.scores, gs.mass, jnp.asarray(rho)
  cells = jnp.stack(
    [w * s * r, w * (1 - s) * r, w * s * (1 - r), w * (1 - s) * (1 - r)], -1
  )
  rates = _rates(jnp.sum(cells, axis=-2), floor=16 * jnp.finfo(cells.dtype).eps)
  return rates._replace(n=gs.weight)


def rule_loss(
  gs: GroupScores,
  rho: ArrayLike,
  cost_fp: ArrayLike = 1.0,
  cost_fn: ArrayLike = 1.0,
) -> jax.Array:
  """`cost_fp P(R=1, Y=0) + cost_fn P(R=0, Y=1)` of a rule, `[...]`."""
  s, r = gs.scores, jnp.asarray(rho)
  costs = cost_fp * (1 - s) * r + cost_fn * s * (1 - r)
  return jnp.sum(gs.weight[..., None] * gs.mass * costs, axis=(-2, -1))


def largest_gap(rates: ArrayLike) -> jax.Array:
  """The largest difference between two groups; undefined rates are left out.

  Args:
    rates: `[..., K]`.

  Returns:
    `[...]`; nan where the rate is undefined in every group.
  """
  rates = jnp.asarray(rates)
  missing = jnp.isnan(rates)
  highest = jnp.max(jnp.where(missing, -jnp.inf, rates), axis=-1)
  lowest = jnp.min(jnp.where(missing, jnp.inf, rates), axis=-1)
  return jnp.where(jnp.all(missing, axis=-1), jnp.nan, highest - lowest)


def rule_solution(
  gs: GroupScores,
  rho: ArrayLike,
  cost_fp: ArrayLike = 1.0,
  cost_fn: ArrayLike = 1.0,
  *,
  feasible: ArrayLike = True,
) -> Solution:
  """What a rule does, measured on the atoms.

  Args:
    gs: score distributions, leading axes are instances.
    rho: `[..., K, m]` the rule `P(R=1 | S, A)`.
    cost_fp: cost of a false positive.
    cost_fn: cost of a false negative.
    feasible: `[...]` bool; where it is false all numbers become nan.

  Returns:
    A `Solution` with `ppv` and `for_` of each group `[..., K]`; `degenerate`
    where a group with weight is all positive or all negative.
  """
  rho = jnp.asarray(rho)
  rates = rule_metrics(gs, rho)
  feasible = jnp.broadcast_to(jnp.asarray(feasible), rho.shape[:-2])

  def known(values):
    ndim = jnp.ndim(values) - feasible.ndim
    return jnp.where(
      feasible.reshape(feasible.shape + (1,) * ndim), values, jnp.nan
    )

  one_sided = jnp.isnan(rates.ppv) | jnp.isnan(rates.for_)
  return Solution(
    ppv=known(rates.ppv),
    for_=known(rates.for_),
    loss=known(rule_loss(gs, rho, cost_fp, cost_fn)),
    tpr_gap=known(largest_gap(rates.tpr)),
    fpr_gap=known(largest_gap(rates.fpr)),
    selection_rate=known(rates.selection_rate),
    rho=known(rho),
    active_group=jnp.full(feasible.shape, -1, jnp.int32),
    status=jnp.where(feasible, OK, INFEASIBLE).astype(jnp.int32),
    degenerate=feasible & jnp.any(one_sided & (gs.weight > 0), axis=-1),
  )


def _rates(counts: jax.Array, floor: ArrayLike) -> GroupMetrics:
  """Rates from `[..., K, 4]` weights of (tp, fp, fn, tn)."""
  tp, fp, fn, tn = jnp.moveaxis(counts, -1, 0)

  def ratio(part, whole):
    defined = whole > floor
    return jnp.where(defined, part / jnp.where(defined, whole, 1), jnp.nan)

  n = tp + fp + fn + tn
  return GroupMetrics(
    ppv=ratio(tp, tp + fp),
    for_=ratio(fn, fn + tn),
    tpr=ratio(tp, tp + fn),
    fpr=ratio(fp, fp + tn),
    selection_rate=ratio(tp + fp, n),
    n=n,
  )
