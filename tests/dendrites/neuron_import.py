"""Neurons as NEURON imports them."""

import contextlib

import pytest


@contextlib.contextmanager
def imported(path):
  """Yields NEURON and its sections of an SWC file by name."""
  h = pytest.importorskip('neuron').h
  h.load_file('stdlib.hoc')
  h.load_file('import3d.hoc')
  reader = h.Import3d_SWC_read()
  reader.quiet = 1
  reader.input(str(path))
  cell = _Cell()
  h.Import3d_GUI(reader, 0).instantiate(cell)
  sections = {section.name().split('.')[-1]: section for section in h.allsec()}
  try:
    yield h, sections
  finally:
    for section in sections.values():
      h.delete_section(sec=section)


class _Cell:
  def __str__(self):
    return 'cell'


def parent(section):
  """Name of the parent and the place on it; None at the root."""
  at = section.parentseg()
  return None if at is None else (at.sec.name().split('.')[-1], at.x)


def points(section):
  """Rows of x, y, z and radius."""
  return [
    (section.x3d(i), section.y3d(i), section.z3d(i), section.diam3d(i) / 2)
    for i in range(section.n3d())
  ]
