"""Tables, figures and claims of a comparison of fronts."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxlab.certified import pareto, plots
from jaxlab.certified.experiment_claims import (
  Fronts,
  claims,
  hypervolumes,
  rival,
)
from jaxlab.certified.experiment_front import REFERENCE, Member
from jaxlab.certified.experiment_measures import STAGES
from jaxlab.certified.experiment_study import Trial
from jaxlab.harness.evidence import with_interval


def record(
  workdir, config, eps: float, trials: Mapping[str, list[Trial]], fronts: Fronts
) -> None:
  """Writes all that was found at one radius.

  Args:
    workdir: of the run.
    config: of the run.
    eps: the radius.
    trials: of each method's search.
    fronts: members of each method, trained anew.

  Raises:
    RuntimeError: if an attack breaks a picture that a bound certifies, or a
      stage of the verifier loses one.
  """
  _check_sound(fronts)
  where = f'{config.pictures}, eps {eps:.4g}'
  end = f'-{eps:.4g}' if len(config.eps) > 1 else ''
  workdir.save_table(
    f'trials{end}',
    [_trial_row(m, t) for m, found in trials.items() for t in found],
    f'All trials of the search ({where}); accuracies on validation pictures.',
  )
  workdir.save_table(
    f'front{end}',
    [_member_row(m) for found in fronts.values() for m in found],
    f'The fronts on test pictures ({where}), trained anew with '
    f'{config.seeds} seeds; percent with 95 % t intervals.',
  )
  rows = [row for found in fronts.values() if (row := _published_row(found))]
  workdir.save_table(
    f'published{end}',
    rows,
    f'Published settings against the searched fronts ({where}); the rival was '
    'chosen on validation pictures.',
  )
  workdir.save_table(
    f'hypervolume{end}',
    _hypervolume_rows(fronts),
    f'Hypervolumes on test pictures, reference (0, 0) ({where}).',
  )
  shared = _complementarity(fronts)
  workdir.save_table(
    f'complementarity{end}',
    [
      {
        'method': name,
        **with_interval('contribution', found['contribution']),
        **with_interval('share of the joint front', found['share']),
        'best natural': found['natural'].mean(),
        'best certified': found['certified'].mean(),
      }
      for name, found in shared.items()
    ],
    'Hypervolume that only this method gives, and its share of the points of '
    f'the joint front ({where}).',
  )
  workdir.save_table(
    f'cascade{end}',
    _cascade_rows(fronts),
    f'Test pictures by stage of the verifier, percent ({where}).',
  )
  _figures(workdir, fronts, shared, where, end)
  for claim in claims(config, eps, fronts, shared, where):
    workdir.add_claim(claim)
  proofs = sum(m.certified.sum() for found in fronts.values() for m in found)
  workdir.headline(f'{where}: proofs that were attacked, none broken', proofs)
  for name in shared:
    values = with_interval('x', 100 * hypervolumes(fronts[name]))
    workdir.headline(
      f'{where}: hypervolume of {name}', *values.values(), unit='%'
    )


def _check_sound(fronts: Fronts) -> None:
  for found in fronts.values():
    for member in found:
      broken = member.certified & ~member.survives
      if broken.any():
        raise RuntimeError(
          f'{member.method}, {member.name}: an attack breaks {broken.sum()} '
          'certified pictures: a bound is wrong; please report this.'
        )
      masks = [member.stages[stage] for stage in STAGES]
      for before, after in itertools.pairwise(masks):
        if (before & ~after).any():
          raise RuntimeError(
            f'{member.method}, {member.name}: a stage of the verifier loses '
            'pictures that were certified; please report this.'
          )


def _trial_row(method: str, trial: Trial) -> dict[str, Any]:
  return {
    'method': method,
    'trial': trial.number,
    'published': trial.published,
    'natural': 100 * trial.values[0],
    'certified': 100 * trial.values[1],
    **trial.params,
  }


def _member_row(member: Member) -> dict[str, Any]:
  natural, certified = 100 * member.points.T
  return {
    'method': member.method,
    'setting': member.name,
    'on front': member.on_front,
    **with_interval('natural', natural),
    **with_interval('certified', certified),
    'under attack': 100 * member.survives.mean(),
    'undecided': 100 * member.open.mean(),
    'natural, validation': 100 * member.trial.values[0],
    'certified, validation': 100 * member.trial.values[1],
    **member.trial.params,
  }


def _published_row(found: Sequence[Member]) -> dict[str, Any] | None:
  pair = rival(found)
  if pair is None:
    return None
  published, other = pair
  gains = 100 * (other.points - published.points)
  searched = [m.trial.values for m in found if m.on_front]
  return {
    'method': published.method,
    'rival': other.name,
    'natural, published': 100 * published.points[:, 0].mean(),
    'certified, published': 100 * published.points[:, 1].mean(),
    'natural, rival': 100 * other.points[:, 0].mean(),
    'certified, rival': 100 * other.points[:, 1].mean(),
    **with_interval('natural gain', gains[:, 0]),
    **with_interval('certified gain', gains[:, 1]),
    # By equal budgets never above 0: how far the front is ahead.
    'epsilon indicator, validation': pareto.epsilon_indicator(
      searched, [published.trial.values]
    ),
  }


def _hypervolume_rows(fronts: Fronts) -> list[dict[str, Any]]:
  rows = []
  for name, found in fronts.items():
    whole = 100 * hypervolumes(found)
    row = {'method': name, **with_interval('front', whole)}
    published = next((m for m in found if m.trial.published), None)
    if published is not None:
      single = 100 * published.points.prod(axis=1)
      row |= with_interval('published setting', single)
      row |= with_interval('gain', whole - single)
    rows.append(row)
  return rows


def _complementarity(fronts: Fronts) -> dict[str, dict[str, np.ndarray]]:
  """For each method and seed what it adds to the others."""
  seeds = len(next(iter(fronts.values()))[0].points)
  found: dict[str, dict[str, list[float]]] = {
    name: {k: [] for k in ('contribution', 'share', 'natural', 'certified')}
    for name in fronts
  }
  for seed in range(seeds):
    points = {
      name: np.stack([m.points[seed] for m in members if m.on_front])
      for name, members in fronts.items()
    }
    shared = pareto.complementarity(points, REFERENCE)
    for name, own in found.items():
      own['contribution'].append(100 * shared.contribution[name])
      own['share'].append(100 * shared.share_of_front[name])
      own['natural'].append(100 * points[name][:, 0].max())
      own['certified'].append(100 * points[name][:, 1].max())
  return {
    name: {k: np.array(v) for k, v in own.items()}
    for name, own in found.items()
  }


def _cascade_rows(fronts: Fronts) -> list[dict[str, Any]]:
  return [
    {
      'method': m.method,
      'setting': m.name,
      **{stage: 100 * m.stages[stage].mean() for stage in STAGES},
      'undecided': 100 * m.open.mean(),
      'under attack': 100 * m.survives.mean(),
      'natural': 100 * m.natural.mean(),
    }
    for found in fronts.values()
    for m in found
  ]


def _figures(workdir, fronts: Fronts, shared, where: str, end: str) -> None:
  means = {
    name: 100 * np.stack([m.points.mean(axis=0) for m in found if m.on_front])
    for name, found in fronts.items()
  }
  published = {
    name: 100
    * np.stack([m.points.mean(axis=0) for m in found if m.trial.published])
    for name, found in fronts.items()
    if any(m.trial.published for m in found)
  }
  workdir.save_figure(
    f'front{end}',
    plots.fronts(means, published, title=where),
    'Searched fronts and published settings (stars) on test pictures, mean '
    'over seeds.',
  )
  surfaces = {}
  for name, found in fronts.items():
    points = 100 * np.stack([m.points for m in found if m.on_front], axis=1)
    levels = pareto.attainment(list(points), (100, 50, 1))
    surfaces[name] = (levels[100], levels[50], levels[1])
  workdir.save_figure(
    f'attainment{end}',
    plots.attainment_surfaces(surfaces, title=where),
    'What all, half and one of the seeds attain.',
  )
  best = [
    max(found, key=lambda m: m.certified.mean()) for found in fronts.values()
  ]
  stages: dict[str, np.ndarray] = {}
  before: Any = 0.0
  for stage in STAGES:
    reached = 100 * np.array([m.stages[stage].mean() for m in best])
    stages[stage] = reached - before
    before = reached
  open_ = 100 * np.array([m.open.mean() for m in best])
  attack = 100 * np.array([(m.natural & ~m.survives).mean() for m in best])
  wrong = 100 * np.array([(~m.natural).mean() for m in best])
  stages |= {
    'undecided': open_,
    'broken': attack,
    'wrong': wrong,
  }
  workdir.save_figure(
    f'verifier{end}',
    plots.cascade([m.method for m in best], stages, title=where),
    'Which stage of the verifier decides, for the setting of each method that '
    'certifies most.',
  )
  workdir.save_figure(
    f'complementarity{end}',
    plots.complementarity(
      {name: own['contribution'].mean() for name, own in shared.items()},
      {name: own['share'].mean() for name, own in shared.items()},
      title=where,
    ),
    'What each method adds to the joint front.',
  )
