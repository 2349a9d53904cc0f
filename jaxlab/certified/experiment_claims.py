"""What a comparison of fronts says of the paper's claims."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from jaxlab.certified import pareto, search_space
from jaxlab.certified.experiment_front import REFERENCE, Member
from jaxlab.certified.experiment_measures import STAGES
from jaxlab.certified.experiment_problem import benchmark
from jaxlab.certified.experiment_training import num_steps
from jaxlab.harness.claims import Claim
from jaxlab.harness.evidence import mean_claim

PAPER = (
  'Rethinking Evaluation Paradigms in IBP-based Certified Training, ICML 2026'
)
_LOSS = 1.0  # percentage points that count as none
_ANCHORS = {('mnist', 0.3, 'ibp'): (98.0, 93.0)}
_ANCHOR_WIDTH = 2.0

Fronts = Mapping[str, Sequence[Member]]


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


def hypervolumes(found: Sequence[Member]) -> np.ndarray:
  """`[seeds]` of the front."""
  points = np.stack([m.points for m in found if m.on_front], axis=1)
  return np.array([pareto.hypervolume(p, REFERENCE) for p in points])


def claims(
  config,
  eps: float,
  fronts: Fronts,
  shared: Mapping[str, Mapping[str, np.ndarray]],
  where: str,
) -> Iterator[Claim]:
  """Claims on one radius.

  Args:
    config: of the run.
    eps: the radius.
    fronts: members of each method, trained anew.
    shared: method -> `[seeds]` of its best accuracies and of what it adds.
    where: begins each text.
  """
  for name, found in fronts.items():
    yield from _undertuning(config, eps, name, found, where)
    anchor = _ANCHORS.get((config.pictures, eps, name))
    if anchor is not None and config.train >= 50_000:
      yield _anchor_claim(name, found, anchor, where)
  yield from _ownership(shared, where)
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
  whole = 100 * hypervolumes(found)
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


def _ownership(shared: Mapping[str, Mapping[str, np.ndarray]], where: str):
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
