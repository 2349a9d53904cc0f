"""Morphologies in NeuroML 2: the element `<morphology>` of a cell.

Format: Cannon et al. (2014), Frontiers in Neuroinformatics 8:79. Groups of
segments say which segments make a section (`sao864921383`) and which belong
to the soma, an axon or dendrites (`GO:0043025`, `GO:0030424`, `GO:0030425`).
"""

import collections
import os
import pathlib
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np

from jaxlab.dendrites import morphology
from jaxlab.dendrites.morphology import Morphology, MorphologyError, Section

_CABLE = 'sao864921383'
_TYPES = {'GO:0043025': 1, 'GO:0030424': 2, 'GO:0030425': 3}
_GROUPS = {'soma_group': 1, 'axon_group': 2, 'dendrite_group': 3}
_WORDS = {'apic': 4, 'basal': 3, 'soma': 1, 'axon': 2, 'dend': 3}


def read_neuroml(path: str | os.PathLike[str]) -> Morphology:
  """Reads the only morphology of a NeuroML 2 file.

  A section is a group of segments that is marked as a cable; segments outside
  such groups are taken together as long as they do not branch. A segment of no
  length is a sphere: a cylinder with children at its middle. Where a segment
  does not begin where its parent ends, a section of its own begins; the gap is
  no cable.

  Raises:
    MorphologyError: if the file cannot be read, has not exactly one morphology
      or its segments are not a tree; the message begins with the path.
  """
  path = pathlib.Path(path)
  try:
    root = ElementTree.parse(path).getroot()
  except OSError as error:
    raise MorphologyError(
      f'{path}: {error.strerror or error}; make it a readable file.'
    ) from error
  except ElementTree.ParseError as error:
    raise MorphologyError(f'{path}: this is no XML ({error}).') from error
  try:
    return _read(root)
  except MorphologyError as error:
    raise MorphologyError(f'{path}: {error}') from error


class _Segment(NamedTuple):
  """A frustum.

  Attributes:
    id: its id.
    parent: id of its parent; None at the root.
    fraction: where on the parent it begins, from 0 to 1.
    proximal: `[4]` x, y, z and radius of its begin.
    distal: `[4]` the same of its end.
    type: SWC type; 0 if nothing says it.
    cable: group that makes a section; '' if there is none.
  """

  id: str
  parent: str | None
  fraction: float
  proximal: np.ndarray
  distal: np.ndarray
  type: int
  cable: str

  @property
  def is_sphere(self) -> bool:
    return bool((self.proximal[:3] == self.distal[:3]).all())


def _read(root: ElementTree.Element) -> Morphology:
  found = root.findall('.//{*}morphology')
  if len(found) != 1:
    named = ', '.join(repr(each.get('id')) for each in found) or 'none'
    raise MorphologyError(
      f'{len(found)} elements <morphology> ({named}), but one is needed.'
    )
  segments = _segments(found[0])
  runs = _runs(segments)
  run_of = {s.id: i for i, run in enumerate(runs) for s in run}
  names = _names(runs)
  sections = []
  for name, run in zip(names, runs, strict=True):
    first, parent, x = run[0], -1, 0.5
    if first.parent is not None:
      parent = run_of[first.parent]
      x = _place(runs[parent], first.parent, first.fraction)
    sections.append(Section(name, first.type, _points(run), parent, x))
  return Morphology(tuple(sections))


def _segments(element: ElementTree.Element) -> dict[str, _Segment]:
  """Reads segments by id, each after its parent."""
  elements: dict[str, ElementTree.Element] = {}
  for each in element.findall('{*}segment'):
    if each.get('id', '') in elements:
      raise MorphologyError(f'segment {each.get("id")!r} is there twice.')
    elements[each.get('id', '')] = each
  if not elements:
    raise MorphologyError('the morphology is empty; it needs a <segment>.')
  members = _members(element)
  segments: dict[str, _Segment] = {}
  for key, link in _from_root(elements):
    each = elements[key]
    parent, fraction = None, 1.0
    if link is not None:
      parent = segments[link.get('segment', '')]
      fraction = _number(key, 'fractionAlong', link.get('fractionAlong', '1'))
      if not 0 <= fraction <= 1:
        raise MorphologyError(
          f'segment {key!r}: fractionAlong {fraction} must be from 0 to 1.'
        )
    distal = _point(key, each, 'distal')
    proximal = _point(key, each, 'proximal')
    if distal is None or (proximal is None and parent is None):
      raise MorphologyError(
        f'segment {key!r} needs <distal>, and <proximal> too if it is the root.'
      )
    if proximal is None and parent is not None:
      proximal = (1 - fraction) * parent.proximal + fraction * parent.distal
    groups = members.get(key, [])
    segments[key] = _Segment(
      id=key,
      parent=None if parent is None else parent.id,
      fraction=fraction,
      proximal=np.asarray(proximal),
      distal=distal,
      type=_type(groups, each.get('name', '')),
      cable=next((n for n, lex in groups if lex == _CABLE), ''),
    )
  return segments


def _from_root(
  elements: dict[str, ElementTree.Element],
) -> Iterator[tuple[str, ElementTree.Element | None]]:
  """Yields ids with their elements <parent>, each after its parent."""
  links = {key: each.find('{*}parent') for key, each in elements.items()}
  children: dict[str | None, list[str]] = collections.defaultdict(list)
  for key, link in links.items():
    above = None if link is None else link.get('segment', '')
    if above is not None and above not in elements:
      raise MorphologyError(
        f'segment {key!r}: parent {above!r} is the id of no segment.'
      )
    children[above].append(key)
  roots = children[None]
  if len(roots) > 1:
    raise MorphologyError(
      f'{len(roots)} segments have no parent, but a neuron has one root.'
    )
  waiting, reached = roots[::-1], 0
  while waiting:
    key = waiting.pop()
    reached += 1
    yield key, links[key]
    waiting += reversed(children[key])
  if reached < len(elements):
    raise MorphologyError('the parents of the segments form a cycle.')


def _members(
  element: ElementTree.Element,
) -> dict[str, list[tuple[str, str]]]:
  """For each segment the (id, neuroLexId) of all groups that it is in."""
  groups = {g.get('id', ''): g for g in element.findall('{*}segmentGroup')}
  found: dict[str, list[tuple[str, str]]] = collections.defaultdict(list)
  for name, group in groups.items():
    seen, waiting = {name}, [group]
    for each in waiting:
      for member in each.findall('{*}member'):
        found[member.get('segment', '')].append(
          (name, group.get('neuroLexId', ''))
        )
      for include in each.findall('{*}include'):
        inner = include.get('segmentGroup', '')
        if inner in groups and inner not in seen:
          seen.add(inner)
          waiting.append(groups[inner])
  return found


def _type(groups: list[tuple[str, str]], name: str) -> int:
  """SWC type by the groups of a segment, else by its name.

  Groups of apical and basal dendrites have no mark of their own but their
  names; they say more than the group of all dendrites.
  """
  for word in ('apic', 'basal'):
    if any(word in group.lower() for group, _ in groups):
      return _WORDS[word]
  for group, lex in groups:
    if lex in _TYPES or group in _GROUPS:
      return _TYPES.get(lex) or _GROUPS[group]
  texts = [name, *(group for group, _ in groups)]
  return next(
    (t for word, t in _WORDS.items() if any(word in n.lower() for n in texts)),
    0,
  )


def _runs(segments: dict[str, _Segment]) -> list[list[_Segment]]:
  """Joins segments to sections."""
  at_end = collections.Counter(
    s.parent for s in segments.values() if s.fraction == 1
  )
  runs: list[list[_Segment]] = []
  last: dict[str, list[_Segment]] = {}
  for segment in segments.values():
    above = segments.get(segment.parent or '')
    run = last.get(above.id) if above else None
    if above and run and _continues(segment, above, at_end[above.id]):
      del last[above.id]
      run.append(segment)
    else:
      run = [segment]
      runs.append(run)
    last[segment.id] = run
  return runs


def _continues(segment: _Segment, above: _Segment, at_end: int) -> bool:
  return (
    segment.fraction == 1
    and not (segment.is_sphere or above.is_sphere)
    and bool((segment.proximal[:3] == above.distal[:3]).all())
    and (segment.type, segment.cable) == (above.type, above.cable)
    and (at_end == 1 or segment.cable != '')
  )


def _points(run: list[_Segment]) -> np.ndarray:
  if run[0].is_sphere:
    return morphology.sphere(run[0].distal[:3], run[0].distal[3])
  points = [run[0].proximal]
  for segment in run:
    if segment.proximal[3] != points[-1][3]:
      points.append(segment.proximal)
    points.append(segment.distal)
  return np.stack(points)


def _place(run: list[_Segment], segment_id: str, fraction: float) -> float:
  """Where on a section a place on one of its segments is."""
  if run[0].is_sphere:
    return 0.5
  lengths = [np.linalg.norm((s.distal - s.proximal)[:3]) for s in run]
  index = [s.id for s in run].index(segment_id)
  before, after = sum(lengths[:index]), sum(lengths[index + 1 :])
  here = fraction * lengths[index]
  rest = (1 - fraction) * lengths[index] + after
  return float((before + here) / (before + here + rest))


def _names(runs: list[list[_Segment]]) -> list[str]:
  """Names sections by their groups; those without by type and number."""
  count = collections.Counter(run[0].cable for run in runs)
  names = morphology.numbered([run[0].type for run in runs])
  taken = set(names)
  for i, run in enumerate(runs):
    cable = run[0].cable
    if cable and count[cable] == 1 and cable not in taken:
      names[i] = cable
  return names


def _point(
  key: str, segment: ElementTree.Element, end: str
) -> np.ndarray | None:
  point = segment.find(f'{{*}}{end}')
  if point is None:
    return None
  values = [_number(key, n, point.get(n, '')) for n in ('x', 'y', 'z')]
  diameter = _number(key, 'diameter', point.get('diameter', ''))
  if not diameter > 0:
    raise MorphologyError(
      f'segment {key!r}: radius {diameter / 2} of <{end}> must be positive.'
    )
  return np.array([*values, diameter / 2])


def _number(key: str, name: str, text: str) -> float:
  try:
    value = float(text)
  except ValueError:
    value = np.nan
  if not np.isfinite(value):
    raise MorphologyError(f'segment {key!r}: {name} {text!r} is no number.')
  return value
