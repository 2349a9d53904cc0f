"""Applying a rule to people: scores and groups in, decisions out."""

import contextlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.fairness.checks import group_numbers, is_traced, number_rows
from jaxlab.fairness.geometry import require_feasible
from jaxlab.fairness.types import GroupScores, Solution


def decision_probabilities(
  solution: Solution,
  gs: GroupScores,
  scores: ArrayLike,
  groups: ArrayLike,
  snap: bool = False,
  *,
  names: Sequence[str] | None = None,
) -> jax.Array:
  """The probability of a positive decision for each person.

  A rule that was solved in float64 is applied in float64.

  Args:
    solution: of one instance.
    gs: the groups `[K, m]` that it is for.
    scores: `[n]` float scores.
    groups: `[n]` integer groups.
    snap: give a score that the group does not have the rule of the nearest
      one.
    names: of the groups, for messages; by default their numbers.

  Returns:
    `[n]` float. In traced code, nan for an unknown group or (without `snap`)
    score, or where the rule is infeasible.

  Raises:
    InfeasibleError: outside `jit`, if there is no rule.
    UserError: outside `jit`, naming the unknown group or score.
  """
  group = group_numbers(groups)
  score: Any = scores if is_traced(scores) else number_rows('scores', scores)
  if jnp.shape(score) != group.shape:
    raise UserError(
      f'groups has shape {group.shape} but scores has {jnp.shape(score)}; give '
      'one group a score'
    )
  if jnp.ndim(solution.rho) != 2:
    raise UserError(
      'solution must be of one instance, got a rule of shape '
      f'{jnp.shape(solution.rho)}; choose one or use jax.vmap'
    )
  if is_traced(solution, gs, score, group):
    return _probabilities(solution.rho, gs, score, group, snap)[0]
  names = names or [f'group {k}' for k in range(gs.scores.shape[0])]
  require_feasible(solution, gs, names)
  bad = (group < 0) | (group >= len(names))
  if bad.any():
    row = int(bad.argmax())
    raise UserError(
      f'group {group[row]} in row {row} is unknown; the rule is for groups '
      f'0..{len(names) - 1}'
    )
  with _precision_of(gs):
    chance, is_known = _probabilities(solution.rho, gs, score, group, snap)
  bad = np.isnan(score) if snap else ~np.asarray(is_known)
  if bad.any():
    row = int(bad.argmax())
    raise UserError(
      f'score {score[row]} in row {row} does not occur in '
      f'{names[group[row]]}; use snap=True for the rule of the nearest score'
    )
  return chance


def decide(
  key: jax.Array,
  solution: Solution,
  gs: GroupScores,
  scores: ArrayLike,
  groups: ArrayLike,
  snap: bool = False,
) -> jax.Array:
  """Draws a decision for each person.

  Args:
    key: PRNG key; the same key gives the same decisions.
    solution: of one instance.
    gs: the groups `[K, m]` that it is for.
    scores: `[n]` float scores.
    groups: `[n]` integer groups.
    snap: as in `decision_probabilities`.

  Returns:
    `[n]` bool; False where the probability is nan.

  Raises:
    InfeasibleError: outside `jit`, if there is no rule.
    UserError: outside `jit`, naming an unknown group or score.
  """
  chance = decision_probabilities(solution, gs, scores, groups, snap)
  with _precision_of(gs) if not is_traced(chance) else contextlib.nullcontext():
    # Uniforms are below 1, so probability 1 is always positive.
    return jax.random.uniform(key, chance.shape, chance.dtype) < chance


def _precision_of(gs: GroupScores) -> contextlib.AbstractContextManager:
  """Float64 where the groups have it, whatever the mode is by now."""
  if gs.scores.dtype == jnp.float64:
    return jax.enable_x64(True)
  return contextlib.nullcontext()


def _probabilities(
  rho: jax.Array, gs: GroupScores, scores: ArrayLike, groups, snap: bool
) -> tuple[jax.Array, jax.Array]:
  """`[n]` probabilities, and whether the group has the score."""
  groups = jnp.asarray(groups, jnp.int32)
  atom, is_known = _atoms(gs, jnp.asarray(scores, gs.scores.dtype), groups)
  in_range = (groups >= 0) & (groups < gs.scores.shape[0])
  chance = jnp.asarray(rho)[jnp.where(in_range, groups, 0), atom]
  return jnp.where(in_range & (is_known | snap), chance, jnp.nan), is_known


def _atoms(
  gs: GroupScores, scores: jax.Array, groups: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """The nearest atom of each person's group, and whether it is their own."""
  num_groups = gs.scores.shape[0]
  gs = jax.tree.map(jnp.asarray, gs)
  rising = -gs.scores
  # One search in each group; then each person's own.
  each = jax.vmap(lambda row: jnp.searchsorted(row, -scores))(rising)
  row = jnp.clip(groups, 0, num_groups - 1)
  last = gs.n_atoms[row] - 1
  after = jnp.minimum(jnp.take_along_axis(each, row[None], axis=0)[0], last)
  before = jnp.maximum(after - 1, 0)
  is_before = jnp.abs(gs.scores[row, before] - scores) < jnp.abs(
    gs.scores[row, after] - scores
  )
  atom = jnp.where(is_before, before, after)
  return atom, gs.scores[row, atom] == scores
