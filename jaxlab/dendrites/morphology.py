"""Morphologies of neurons: sections of cable, as measured or as cylinders."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxlab import errors

SOMA = 1
_STEMS = {'soma': SOMA, 'axon': 2, 'dend': 3, 'apic': 4}
_REGIONS = {SOMA: 'soma', 2: 'axon', 3: 'basal', 4: 'apical'}
_UNDEFINED = 0


class MorphologyError(errors.UserError):
  """A morphology that cannot be a neuron; the message names the fault."""


class Section(NamedTuple):
  """An unbranched piece of cable.

  Attributes:
    name: name, unlike those of all other sections.
    type: SWC type: 1 soma, 2 axon, 3 basal dendrite, 4 apical dendrite; 0 for
      cylinders whose name is none of these.
    points: `[P, 4]` float64 x, y, z and radius in um from the 0-end to the
      1-end, P >= 2.
    parent: index of the section that the 0-end is attached to; -1 at the root.
    parent_x: where on the parent, from 0 to 1; 0.5 at the root.
  """

  name: str
  type: int
  points: np.ndarray
  parent: int
  parent_x: float

  @property
  def L(self) -> float:
    """Length of the cable in um."""
    return float(self.arc[-1])

  @property
  def arc(self) -> np.ndarray:
    """`[P]` float64 length of the cable up to each point in um."""
    steps = np.diff(self.points[:, :3], axis=0)
    return np.concatenate([[0.0], np.sqrt((steps**2).sum(axis=1)).cumsum()])

  @property
  def region(self) -> str:
    """What part of the neuron it is: soma, axon, basal, apical or its stem."""
    return _REGIONS.get(self.type, self.name.partition('[')[0])


class Morphology(NamedTuple):
  """A neuron as a tree of sections.

  Attributes:
    sections: the sections in the order of the file; the root need not be
      first.
    report: what was repaired or looks odd, a line each.
  """

  sections: tuple[Section, ...]
  report: tuple[str, ...] = ()


def sphere(center: np.ndarray, radius: float) -> np.ndarray:
  """Returns `[3, 4]` points of the cylinder of a sphere's area, along y."""
  points = np.tile(np.append(center, radius), (3, 1))
  points[:, 1] += radius * np.array([-1.0, 0.0, 1.0])
  return points


def numbered(types: Sequence[int]) -> list[str]:
  """Names sections by their types, as `dend[0]`, counted in each name."""
  stems = {number: stem for stem, number in _STEMS.items()}
  count: dict[str, int] = {}
  names = []
  for each in types:
    stem = stems.get(each, f'dend_{each}')
    count[stem] = count.get(stem, -1) + 1
    names.append(f'{stem}[{count[stem]}]')
  return names


def from_cylinders(
  cylinders: Sequence[tuple[str, float, float, tuple[str, float] | None]],
) -> Morphology:
  """Builds a neuron of cylinders.

  The type of a section is that of the letters that its name begins with:
  `soma`, `axon`, `dend` (basal) or `apic`. Cylinders lie along the x axis.

  Args:
    cylinders: for each section its name, length and diameter in um, and where
      its 0-end is attached: name of an earlier section and place from 0 to 1;
      None for the root.

  Raises:
    MorphologyError: if a size is not positive, a name occurs twice, a parent
      is unknown or comes later, or there is not exactly one root.
  """
  index: dict[str, int] = {}
  sections: list[Section] = []
  for name, length, diameter, attached in cylinders:
    for label, value in (('length', length), ('diameter', diameter)):
      if not 0 < value < np.inf:
        raise MorphologyError(
          f'section {name!r}: {label} {value} must be positive and finite.'
        )
    if name in index:
      raise MorphologyError(f'section {name!r} is named twice; rename one.')
    parent, x = _attachment(name, attached, index)
    start = point_at(sections[parent], x)[:3] if parent >= 0 else np.zeros(3)
    points = np.tile(np.append(start, diameter / 2), (2, 1))
    points[1, 0] += length
    stem = re.match('[A-Za-z]*', name)
    kind = _STEMS.get(stem.group().lower() if stem else '', _UNDEFINED)
    index[name] = len(sections)
    sections.append(Section(name, kind, points, parent, x))
  roots = sum(section.parent < 0 for section in sections)
  if roots != 1:
    raise MorphologyError(
      f'{roots} sections are roots; attach all but one to a parent.'
    )
  return Morphology(tuple(sections))


def _attachment(
  name: str, attached: tuple[str, float] | None, index: dict[str, int]
) -> tuple[int, float]:
  if attached is None:
    return -1, 0.5
  parent, x = attached
  if parent not in index:
    known = ', '.join(index) or 'none'
    raise MorphologyError(
      f'section {name!r}: parent {parent!r} is none of the sections before it'
      f' ({known}).'
    )
  if not 0 <= x <= 1:
    raise MorphologyError(f'section {name!r}: x={x} must be from 0 to 1.')
  return index[parent], float(x)


def depth_first(morph: Morphology) -> list[int]:
  """Returns section indices, each followed by all that hangs on it."""
  children: dict[int, list[int]] = {}
  for index, section in enumerate(morph.sections):
    children.setdefault(section.parent, []).append(index)
  order, waiting = [], children[-1][::-1]
  while waiting:
    order.append(waiting.pop())
    waiting += reversed(children.get(order[-1], []))
  return order


def point_at(section: Section, x: float) -> np.ndarray:
  """Returns `[4]` x, y, z and radius at a place from 0 to 1 of a section."""
  arc = section.arc
  return np.array([np.interp(x * arc[-1], arc, c) for c in section.points.T])


def listed(names: Sequence[str], limit: int = 8) -> str:
  """Returns the first names, and the number of all if there are more."""
  more = f', ... ({len(names)})' if len(names) > limit else ''
  return ', '.join(names[:limit]) + more
