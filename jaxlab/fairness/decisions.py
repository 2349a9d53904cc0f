"""Applying a rule to people: scores and groups in, decisions out."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.fairness.types import GroupScores, Solution


def decision_probabilities(
  solution: Solution,
  gs: GroupScores,
  scores: ArrayLike,
  groups: ArrayLike,
  snap: bool = False,
) -> jax.Array:
  """The probability of a positive decision for each person.

  Args:
    solution: of one instance.
    gs: the groups `[K, m]` that it is for.
    scores: `[n]` float scores.
    groups: `[n]` integer groups.
    snap: give a score that the group does not have the rule of the nearest
      one.

  Returns:
    `[n]` float. In traced code, nan for an unknown group or (without `snap`)
    score.

  Raises:
    UserError: outside `jit`, naming the unknown group or score.
  """
  scores = jnp.asarray(scores, gs.scores.dtype)
  groups = jnp.asarray(groups)
  if scores.shape != groups.shape:
    raise UserError(
      f'groups has shape {groups.shape} but scores has {scores.shape}; give '
      'one group a score'
    )
  atom, is_known = _atoms(gs, scores, groups)
  if not any(isinstance(x, jax.core.Tracer) for x in (is_known, solution.rho)):
    _check_known(gs, scores, groups, is_known, snap)
  in_range = (groups >= 0) & (groups < gs.scores.shape[0])
  probability = solution.rho[jnp.where(in_range, groups, 0), atom]
  return jnp.where(in_range & (is_known | snap), probability, jnp.nan)


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
    UserError: outside `jit`, naming an unknown group or score.
  """
  probability = decision_probabilities(solution, gs, scores, groups, snap)
  # Uniforms are below 1, so probability 1 is always positive.
  uniform = jax.random.uniform(key, probability.shape, probability.dtype)
  return uniform < probability


def _atoms(
  gs: GroupScores, scores: jax.Array, groups: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """The nearest atom of each person's group, and whether it is their own."""
  num_groups = gs.scores.shape[0]
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


def _check_known(
  gs: GroupScores,
  scores: jax.Array,
  groups: jax.Array,
  is_known: jax.Array,
  snap: bool,
) -> None:
  """Names the first unknown group or score."""
  group, score = np.asarray(groups), np.asarray(scores)
  bad = (group < 0) | (group >= gs.scores.shape[0])
  if bad.any():
    row = int(bad.argmax())
    raise UserError(
      f'group {group[row]} in row {row} is unknown; the rule is for groups '
      f'0..{gs.scores.shape[0] - 1}'
    )
  bad = np.isnan(score) if snap else ~np.asarray(is_known)
  if bad.any():
    row = int(bad.argmax())
    raise UserError(
      f'score {score[row]} in row {row} does not occur in group {group[row]}; '
      'use snap=True for the rule of the nearest score'
    )
