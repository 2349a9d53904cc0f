"""Segments of cable: how many, their membrane and their axial resistance."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from jaxlab.dendrites.morphology import (
  Morphology,
  MorphologyError,
  Section,
  listed,
)

# MOhm in 1 ohm cm / um.
_MOHM = 0.01
_D_LAMBDA = 0.1
_FREQUENCY = 100.0


class Cable(NamedTuple):
  """A section in m segments.

  Attributes:
    area: `[m]` membrane area in um2.
    halves: `[m, 2]` axial resistance of the segment's halves in MOhm.
    xyz: `[m, 3]` centres in um.
    step: length of a segment in um.
  """

  area: np.ndarray
  halves: np.ndarray
  xyz: np.ndarray
  step: float


def segment_counts(
  morph: Morphology,
  max_len: float | None,
  nseg: int | Mapping[str, int] | None,
  Ra: float,
  d_lambda: float | None,
  cm: float,
) -> list[int]:
  """Returns the number of segments of each section; see `discretize`.

  Raises:
    ValueError: if two rules are given, a number is not positive or a section
      is unknown.
  """
  _check_positive(max_len=max_len, Ra=Ra, d_lambda=d_lambda, cm=cm)
  given = _given(morph, nseg)
  if (max_len is not None) + (d_lambda is not None) + ('all' in given) > 1:
    raise ValueError(
      f'max_len={max_len}, nseg={nseg}, d_lambda={d_lambda}: give one of them.'
    )
  counts = []
  for section in morph.sections:
    count = given.get(section.name, given.get(section.region))
    if count is None and max_len is not None:
      count = _odd(np.ceil(section.L / max_len))
    elif count is None and 'all' not in given:
      share = _D_LAMBDA if d_lambda is None else d_lambda
      count = _odd(_length_constants(section, Ra, cm) / share + 0.9)
    counts.append(given['all'] if count is None else count)
  return counts


def _check_positive(**values: float | None) -> None:
  for name, value in values.items():
    if value is not None and not 0 < value < np.inf:
      raise ValueError(f'{name}={value} must be positive and finite.')


def _given(
  morph: Morphology, nseg: int | Mapping[str, int] | None
) -> dict[str, int]:
  """The numbers of segments that are given, by section, region or 'all'."""
  if nseg is None:
    return {}
  given = dict(nseg) if isinstance(nseg, Mapping) else {'all': nseg}
  known = {place for s in morph.sections for place in (s.region, s.name)}
  for place, count in given.items():
    if not (count >= 1 and count % 1 == 0):
      raise ValueError(
        f'nseg={count} of {place!r} must be a whole number from 1.'
      )
    if place not in {'all', *known}:
      raise ValueError(
        f'nseg names {place!r}, which is no region and no section; known:'
        f' {listed(sorted(known))}.'
      )
  return {place: int(count) for place, count in given.items()}


def _odd(wanted: float) -> int:
  return 2 * int(wanted / 2) + 1


def _length_constants(section: Section, Ra: float, cm: float) -> float:
  """Length of a section in AC length constants at 100 Hz."""
  steps = np.diff(section.arc)
  diameters = 2 * section.points[:, 3]
  root = np.sqrt((diameters[1:] + diameters[:-1]) / 2)
  return 1e-5 * np.sqrt(4 * np.pi * _FREQUENCY * Ra * cm) * (steps / root).sum()


def cut(section: Section, count: int, Ra: float) -> Cable:
  """Integrates area and resistance of the frusta over half-segments.

  Args:
    section: the cable.
    count: m, the number of segments.
    Ra: axial resistivity in ohm cm.

  Raises:
    MorphologyError: if the section has no length.
  """
  if not section.L > 0:
    raise MorphologyError(
      f'section {section.name!r} has length 0; move or merge its points.'
    )
  arc, radius = section.arc, section.points[:, 3]
  cuts = np.linspace(0.0, arc[-1], 2 * count + 1)
  ends = np.union1d(arc, cuts)
  middle = (ends[1:] + ends[:-1]) / 2
  frustum = np.searchsorted(arc, middle, 'right') - 1
  slope = np.diff(radius) / np.where(np.diff(arc) > 0, np.diff(arc), 1)
  r1, r2 = (
    radius[frustum] + slope[frustum] * (end - arc[frustum])
    for end in (ends[:-1], ends[1:])
  )
  length = np.diff(ends)
  half = np.searchsorted(cuts, middle, 'right') - 1
  # Where the radius jumps, the ring between the two circles is membrane too.
  jump = np.flatnonzero((np.diff(arc) == 0) & (np.diff(radius) != 0))
  ring = np.abs(np.diff(radius**2))[jump]
  ring_half = np.searchsorted(cuts, arc[jump], 'right') - 1
  area = np.bincount(
    np.concatenate([half, ring_half.clip(max=2 * count - 1)]),
    np.pi * np.concatenate([(r1 + r2) * np.hypot(length, r1 - r2), ring]),
    minlength=2 * count,
  )
  resistance = np.bincount(
    half, _MOHM * Ra * length / (np.pi * r1 * r2), minlength=2 * count
  )
  xyz = [np.interp(cuts[1::2], arc, c) for c in section.points[:, :3].T]
  return Cable(
    area.reshape(count, 2).sum(axis=1),
    resistance.reshape(count, 2),
    np.stack(xyz, axis=1),
    arc[-1] / count,
  )
