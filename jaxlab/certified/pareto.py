"""Fronts of two or more objectives that are all maximised, by `moocore`."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from jaxlab.errors import UserError


class Complementarity(NamedTuple):
  """What each method adds to the others.

  Attributes:
    front: `[F, M]` the joint front, by rising first objective.
    joint_hypervolume: of all points of all methods.
    contribution: method -> joint hypervolume minus that without the method.
    share_of_front: method -> share of the joint front that it reaches; a point
      that two methods reach counts for both.
  """

  front: np.ndarray
  joint_hypervolume: float
  contribution: dict[str, float]
  share_of_front: dict[str, float]


def front(points: ArrayLike) -> np.ndarray:
  """Points that no other one dominates; equal points once.

  Args:
    points: `[N, M]` objectives, all maximised.

  Returns:
    `[F, M]` by rising first objective.

  Raises:
    UserError: if points are not finite or not of that shape.
  """
  points = np.unique(_checked(points), axis=0)
  if len(points) == 0:
    return points
  return points[_moocore().is_nondominated(points, maximise=True)]


def hypervolume(points: ArrayLike, reference: ArrayLike) -> float:
  """Volume that points dominate down to a reference.

  Args:
    points: `[N, M]` objectives, all maximised; dominated ones change nothing,
      nor do those that do not dominate the reference.
    reference: `[M]` the worst corner; the same for all that is compared.

  Returns:
    The volume; 0 without points.

  Raises:
    UserError: if points or reference are not finite, or do not fit.
  """
  points = _checked(points)
  reference = _checked_reference(reference, points)
  inside = points[(points > reference).all(axis=1)]
  if len(inside) == 0:
    return 0.0
  return float(_moocore().hypervolume(inside, ref=reference, maximise=True))


def attainment(
  fronts: Sequence[ArrayLike], levels: Sequence[float] = (50,)
) -> dict[float, np.ndarray]:
  """Empirical attainment surfaces: what a share of the runs reaches.

  Args:
    fronts: `[N_i, M]` of each run, M = 2 or 3, all maximised.
    levels: percentages of the runs; 50 gives the median surface.

  Returns:
    level -> `[F, M]` corners of the surface below which at least that share of
    the runs dominates every point, by rising first objective.

  Raises:
    UserError: if a run has no points, or a level is not in (0, 100].
  """
  runs = [_checked(points) for points in fronts]
  if not runs or min(map(len, runs)) == 0:
    raise UserError('attainment needs runs, each with at least one point.')
  if not all(0 < level <= 100 for level in levels):
    raise UserError(f'levels {list(levels)} must be percentages in (0, 100].')
  sets = np.repeat(np.arange(len(runs)), list(map(len, runs)))
  # The library minimises.
  table = _moocore().eaf(-np.concatenate(runs), sets, percentiles=list(levels))
  return {
    level: front(-table[np.isclose(table[:, -1], level), :-1])
    for level in levels
  }


def epsilon_indicator(points: ArrayLike, reference: ArrayLike) -> float:
  """Least shift of all objectives after which points dominate a set weakly.

  Args:
    points: `[N, M]` objectives, all maximised.
    reference: `[R, M]` the set that is to be dominated.

  Returns:
    The additive epsilon indicator; not positive where every reference point is
    already reached.

  Raises:
    UserError: if a set is empty, not finite, or of another width.
  """
  points, target = _checked(points), _checked(reference)
  if len(points) == 0 or len(target) == 0 or points.shape[1] != target.shape[1]:
    raise UserError(
      f'epsilon_indicator got sets of shapes {points.shape} and '
      f'{target.shape}: neither may be empty, and the objectives must be the '
      'same.'
    )
  return float(_moocore().epsilon_additive(points, ref=target, maximise=True))


def complementarity(
  methods: Mapping[str, ArrayLike], reference: ArrayLike
) -> Complementarity:
  """Tells which method owns which part of the joint front.

  Args:
    methods: name -> `[N, M]` points, all maximised.
    reference: `[M]` the worst corner.

  Raises:
    UserError: as `hypervolume`, or if there is no point at all.
  """
  sets = {name: _checked(points) for name, points in methods.items()}
  if not any(map(len, sets.values())):
    raise UserError('complementarity needs at least one point of one method.')
  widths = {name: points.shape[1] for name, points in sets.items()}
  if len(set(widths.values())) > 1:
    raise UserError(f'the methods differ in their objectives: {widths}.')
  every = np.concatenate(list(sets.values()))
  joint = front(every)
  whole = hypervolume(every, reference)
  contribution, share = {}, {}
  for name, points in sets.items():
    rest = [other for key, other in sets.items() if key != name]
    left = np.concatenate([np.empty((0, every.shape[1])), *rest])
    contribution[name] = whole - hypervolume(left, reference)
    reached = (joint[:, None] == points).all(axis=-1).any(axis=1)
    share[name] = float(reached.mean())
  return Complementarity(joint, whole, contribution, share)


def _checked(points: ArrayLike) -> np.ndarray:
  try:
    array = np.asarray(points, float)
  except (TypeError, ValueError) as error:
    raise UserError(
      f'points are no table of numbers: give [N, M] ({error}).'
    ) from error
  if array.ndim != 2 or array.shape[1] < 2:
    raise UserError(
      f'points have shape {array.shape}: give [N, M] with M >= 2 objectives.'
    )
  if not np.isfinite(array).all():
    raise UserError('points must be finite: drop trials that have failed.')
  return array


def _checked_reference(reference: ArrayLike, points: np.ndarray) -> np.ndarray:
  array = np.asarray(reference, float)
  if array.shape != points.shape[1:] or not np.isfinite(array).all():
    raise UserError(
      f'the reference {array.tolist()} must have {points.shape[1]} finite '
      'numbers.'
    )
  return array


def _moocore() -> Any:
  try:
    import moocore  # noqa: PLC0415 - only this module needs the extra
  except ImportError as error:
    raise UserError(
      "Pareto fronts need moocore: pip install 'jaxlab[pareto]'"
    ) from error
  return moocore
