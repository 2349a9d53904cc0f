"""Tables, figures and claims of a comparison of fronts."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxlab.certified import pareto, plots, search_space
from jaxlab.certified.experiment_front import REFERENCE, Member
from jaxlab.certified.experiment_measures import STAGES
from jaxlab.certified.experiment_problem import benchmark
from jaxlab.certified.experiment_study import Trial
from jaxlab.certified.experiment_training import num_steps
from jaxlab.harness.claims import Claim
from jaxlab.harness.evidence import mean_claim, share_claim, with_interval

PAPER = (
  'Rethinking Evaluation Paradigms in IBP-based Certified Training, ICML 2026'
)
_LOSS = 1.0  # percentage points that count as none
_ANCHORS = {('mnist', 0.3, 'ibp'): (98.0, 93.0)}
_ANCHOR_WIDTH = 2.0

Fronts = Mapping[str, Sequence[Member]]


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
  for claim in _claims(config, eps, fronts, shared, where):
    workdir.add_claim(claim)
  for name, _found in shared.items():
    values = with_interval('x', 100 * _hypervolumes(fronts[name]))
    workdir.headline(f'{where}: hypervolume of {name}', *values.values())


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


def rival(found: Sequence[Member]) -> tuple[Member, Member] | None:
  """A published setting and the member that improves it most.

  The choice is made by the smaller of the two gains on validation pictures, so
  that test pictures can tell whether there is a gain.

  Returns:
    (published, rival), or None where there is no other.
  """
  published = next((m for m in found if m.trial.published), None)
  others = [m for m in found if m.on_front and m is not published]
  if published is None or not others:
    return None
  before = np.array(published.trial.values)
  gains = [(np.array(m.trial.values) - before).min() for m in others]
  return published, others[int(np.argmax(gains))]


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


def _hypervolumes(found: Sequence[Member]) -> np.ndarray:
  """`[seeds]` of the front."""
  points = np.stack([m.points for m in found if m.on_front], axis=1)
  return np.array([pareto.hypervolume(p, REFERENCE) for p in points])


def _hypervolume_rows(fronts: Fronts) -> list[dict[str, Any]]:
  rows = []
  for name, found in fronts.items():
    whole = 100 * _hypervolumes(found)
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


def _claims(config, eps, fronts: Fronts, shared, where: str):
  for name, found in fronts.items():
    yield from _undertuning(config, eps, name, found, where)
    anchor = _ANCHORS.get((config.pictures, eps, name))
    if anchor is not None and config.train >= 50_000:
      yield _anchor_claim(name, found, anchor, where)
  yield from _ownership(shared, where)
  certified = np.concatenate(
    [m.certified[m.natural] for found in fronts.values() for m in found]
  )
  survived = np.concatenate(
    [m.survives[m.natural] for found in fronts.values() for m in found]
  )
  yield share_claim(
    f'{where}: no certified picture is broken by an attack',
    survived[certified],
    threshold=0.99,
    sense='>',
    source='soundness of the bounds',
    note='networks and seeds share pictures',
  )
  for name in ('sabr', 'mtl_ibp'):
    if name in fronts:
      gain = [
        100 * (m.certified.mean(axis=1) - m.stages[STAGES[0]].mean(axis=1))
        for m in fronts[name]
        if m.on_front
      ]
      yield mean_claim(
        f'{where}: {name}: the verifier certifies more than the training bound',
        np.mean(gain, axis=0),
        threshold=0.0,
        sense='>',
        unit='points',
        source=PAPER,
      )


def _undertuning(config, eps, name: str, found: Sequence[Member], where: str):
  pair = rival(found)
  if pair is None:
    return
  published, other = pair
  whole = 100 * _hypervolumes(found)
  steps = num_steps(config)
  known = search_space.published(name, benchmark(config.pictures, eps))
  source = known[published.trial.published].source
  setting = f'published setting: {source}, trained for {steps:,} steps here'
  yield mean_claim(
    f'{where}: {name}: the front that was searched covers more than the '
    'published setting',
    whole - 100 * published.points.prod(axis=1),
    threshold=0.0,
    sense='>',
    unit='% of the unit square',
    source=PAPER,
    note=f'{setting}; a front of several points has an advantage over one',
  )
  gains = 100 * (other.points - published.points)
  parts = [
    mean_claim(
      what, gains[:, i], threshold=least, sense='>', unit='points', source=PAPER
    )
    for i, (what, least) in enumerate(
      (('natural accuracy rises', 0.0), ('certified accuracy is kept', -_LOSS))
    )
  ]
  yield Claim.all_of(
    f'{where}: {name} is undertuned: another setting has a higher natural '
    f'accuracy and loses less than {_LOSS:g} point of the certified',
    PAPER,
    parts,
    note=f'{setting}; {other.name} against it:',
  )


def _ownership(shared: Mapping[str, dict[str, np.ndarray]], where: str):
  """Who reaches the ends of the joint front."""
  for name, end in (('sabr', 'natural'), ('mtl_ibp', 'certified')):
    rest = [own[end] for other, own in shared.items() if other != name]
    if name not in shared or not rest:
      continue
    yield mean_claim(
      f'{where}: {name} owns the end of the highest {end} accuracy',
      shared[name][end] - np.max(rest, axis=0),
      threshold=0.0,
      sense='>',
      unit='points',
      source=PAPER,
      note='against the best of the other methods',
    )
  for name, own in shared.items():
    yield mean_claim(
      f'{where}: {name} adds to the joint front',
      own['contribution'],
      threshold=0.0,
      sense='>',
      unit='% of the unit square',
      source=PAPER,
    )


def _anchor_claim(name, found, anchor, where):
  published = next((m for m in found if m.trial.published), None)
  points = 100 * (published or found[0]).points
  parts = []
  for i, what in enumerate(('natural', 'certified')):
    gap = np.abs(points[:, i] - anchor[i])
    parts.append(
      mean_claim(
        f'{what} accuracy near {anchor[i]:g} %',
        gap,
        threshold=_ANCHOR_WIDTH,
        sense='<',
        unit='points',
        source='Gowal et al. 2019 and later reports',
      )
    )
  return Claim.all_of(
    f'{where}: {name} is within {_ANCHOR_WIDTH:g} points of what was published',
    'Gowal et al. 2019 and later reports',
    parts,
  )
