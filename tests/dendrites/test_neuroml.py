"""NeuroML 2: the same neurons as from cylinders and from SWC."""

import numpy as np
import pytest

from jaxlab.dendrites import morphology, neuroml, swc
from jaxlab.dendrites.discretize import discretize
from jaxlab.dendrites.morphology import MorphologyError

FILE = """<?xml version="1.0" encoding="UTF-8"?>
<neuroml xmlns="http://www.neuroml.org/schema/neuroml2" id="doc">
  <cell id="cell">
    <morphology id="shape">{}</morphology>
  </cell>
</neuroml>
"""


def point(end, x, y, diameter):
  return f'<{end} x="{x}" y="{y}" z="0" diameter="{diameter}"/>'


def segment(number, parent, *points, fraction=None, name=''):
  along = '' if fraction is None else f' fractionAlong="{fraction}"'
  link = '' if parent is None else f'<parent segment="{parent}"{along}/>'
  return (
    f'<segment id="{number}" name="{name}">{link}{"".join(points)}</segment>'
  )


def group(name, members=(), include=(), lex=''):
  marked = f' neuroLexId="{lex}"' if lex else ''
  return (
    f'<segmentGroup id="{name}"{marked}>'
    + ''.join(f'<member segment="{member}"/>' for member in members)
    + ''.join(f'<include segmentGroup="{each}"/>' for each in include)
    + '</segmentGroup>'
  )


CABLE = 'sao864921383'
# A soma; a dendrite of two cylinders of one diameter whose second one is
# branched at 0.5; two branches at its end; an axon at the middle of the soma.
SEGMENTS = (
  segment(
    0,
    None,
    point('proximal', 0, 0, 20),
    point('distal', 20, 0, 20),
    name='Soma',
  ),
  segment(
    1, 0, point('proximal', 20, 0, 3), point('distal', 120, 0, 3), name='dend1'
  ),
  segment(2, 1, point('distal', 320, 0, 3), name='dend2'),
  segment(
    3,
    2,
    point('proximal', 320, 0, 2),
    point('distal', 420, 0, 2),
    fraction=1,
    name='apic1',
  ),
  segment(
    4,
    2,
    point('proximal', 320, 0, 1),
    point('distal', 320, 150, 1),
    name='apic2',
  ),
  segment(
    5,
    2,
    point('proximal', 220, 0, 0.5),
    point('distal', 220, 40, 0.5),
    fraction=0.5,
    name='apic3',
  ),
  segment(
    6,
    0,
    point('proximal', 10, 0, 1),
    point('distal', 10, -80, 1),
    fraction=0.5,
    name='Axon',
  ),
)
GROUPS = (
  group('soma', [0], lex=CABLE),
  group('trunk', [1, 2], lex=CABLE),
  group('left', [3], lex=CABLE),
  group('right', [4], lex=CABLE),
  group('oblique', [5], lex=CABLE),
  group('hillock', [6], lex=CABLE),
  group('soma_group', include=['soma']),
  group('axon_group', include=['hillock'], lex='GO:0030424'),
  group('dendrites', include=['trunk', 'tufts'], lex='GO:0030425'),
  group('tufts', include=['left', 'right', 'oblique']),
  group('apical_dendrites', include=['tufts']),
)
CYLINDERS = [
  ('soma', 20.0, 20.0, None),
  ('dend', 300.0, 3.0, ('soma', 1.0)),
  ('apic[0]', 100.0, 2.0, ('dend', 1.0)),
  ('apic[1]', 150.0, 1.0, ('dend', 1.0)),
  ('apic[2]', 40.0, 0.5, ('dend', 2 / 3)),
  ('axon', 80.0, 1.0, ('soma', 0.5)),
]


def read(tmp_path, *parts):
  path = tmp_path / 'cell.nml'
  path.write_text(FILE.format(''.join(parts)))
  return neuroml.read_neuroml(path)


def assert_same_cable(first, second):
  """Equal but for names, positions and the order of sections."""
  trees = [discretize(m, max_len=30.0) for m in (first, second)]
  for field in ('parent', 'resistance', 'area', 'length', 'distance', 'x'):
    a, b = (getattr(tree, field) for tree in trees)
    np.testing.assert_allclose(a, b, rtol=1e-12, err_msg=field)


@pytest.mark.parametrize('groups', [GROUPS, ()])
def test_same_as_cylinders(tmp_path, groups):
  names = ['soma', 'trunk', 'left', 'right', 'oblique', 'hillock']
  morph = read(tmp_path, *SEGMENTS, *groups)
  assert_same_cable(morph, morphology.from_cylinders(CYLINDERS))
  if groups:
    assert [s.name for s in morph.sections] == names
  regions = ['soma', 'basal', 'apical', 'apical', 'apical', 'axon']
  assert [s.region for s in morph.sections] == regions
  assert [s.parent for s in morph.sections] == [-1, 0, 1, 1, 1, 0]
  places = [s.parent_x for s in morph.sections]
  np.testing.assert_allclose(places, [0.5, 1, 1, 1, 2 / 3, 0.5])


def test_same_as_swc(tmp_path):
  text = (
    '1 1 0 0 0 10 -1\n2 1 20 0 0 8 1\n3 3 60 0 0 2 2\n4 3 120 0 0 1 3\n'
    '5 3 170 0 0 0.5 4\n6 3 120 90 0 0.5 4\n7 3 120 120 0 0.25 6\n'
  )
  morph = read(
    tmp_path,
    segment(
      0,
      None,
      point('proximal', 0, 0, 20),
      point('distal', 20, 0, 16),
      name='Soma',
    ),
    segment(
      1, 0, point('proximal', 20, 0, 4), point('distal', 60, 0, 4), name='dend1'
    ),
    segment(2, 1, point('distal', 120, 0, 2), name='dend2'),
    segment(3, 2, point('distal', 170, 0, 1), name='dend3'),
    segment(4, 2, point('distal', 120, 90, 1), name='dend4'),
    segment(5, 4, point('distal', 120, 120, 0.5), name='dend5'),
  )
  other = swc.parse_swc(text)
  assert_same_cable(morph, other)
  assert [s[:2] for s in morph.sections] == [s[:2] for s in other.sections]
  for ours, theirs in zip(morph.sections, other.sections, strict=True):
    np.testing.assert_array_equal(ours.points, theirs.points)


def test_spheres_gaps_and_steps(tmp_path):
  morph = read(
    tmp_path,
    segment(0, None, point('proximal', 0, 0, 10), point('distal', 0, 0, 10)),
    segment(1, 0, point('proximal', 5, 0, 2), point('distal', 25, 0, 2)),
    segment(2, 1, point('proximal', 25, 0, 1), point('distal', 45, 0, 1)),
    segment(3, 2, point('proximal', 46, 0, 1), point('distal', 66, 0, 1)),
  )
  assert [s.L for s in morph.sections] == [10, 40, 20]
  assert [s.parent_x for s in morph.sections] == [0.5, 0.5, 1]
  assert morph.sections[1].points[:, 3].tolist() == [1, 1, 0.5, 0.5]
  tree = discretize(morph, nseg=1)
  np.testing.assert_allclose(tree.area[0], np.pi * 10**2)


ROOT = segment(0, None, point('proximal', 0, 0, 9), point('distal', 9, 0, 9))
TIP = point('distal', 20, 0, 1)


@pytest.mark.parametrize(
  ('parts', 'named'),
  [
    ((), 'empty'),
    ((ROOT, ROOT), "'0' is there twice"),
    ((ROOT, segment(1, 7, TIP)), "'1': parent '7'"),
    ((ROOT, segment(1, None, TIP)), 'root'),
    ((ROOT, segment(1, 2, TIP), segment(2, 1, TIP)), 'cycle'),
    ((segment(1, 2, TIP), segment(2, 1, TIP)), 'cycle'),
    ((ROOT, segment(1, 0)), "'1' needs <distal>"),
    ((segment(0, None, TIP),), "'0' needs <distal>, and <proximal>"),
    ((ROOT, segment(1, 0, point('distal', 1, 0, 0))), "'1': radius 0.0"),
    ((ROOT, segment(1, 0, point('distal', 1, 0, 'x'))), "diameter 'x'"),
    ((ROOT, segment(1, 0, point('distal', 'nan', 0, 1))), "x 'nan'"),
    ((ROOT, segment(1, 0, TIP, fraction=1.5)), r'fractionAlong 1\.5'),
  ],
)
def test_faults_are_named(tmp_path, parts, named):
  with pytest.raises(MorphologyError, match=named) as caught:
    read(tmp_path, *parts)
  assert str(caught.value).startswith(str(tmp_path / 'cell.nml'))
  assert '\n' not in str(caught.value)


@pytest.mark.parametrize(
  ('text', 'named'),
  [
    ('<neuroml', 'no XML'),
    ('<neuroml/>', '0 elements <morphology>'),
    (
      '<n><morphology id="a"/><morphology id="b"/></n>',
      r"2 elements <morphology> \('a', 'b'\)",
    ),
  ],
)
def test_files_without_one_morphology(tmp_path, text, named):
  path = tmp_path / 'cell.nml'
  path.write_text(text)
  with pytest.raises(MorphologyError, match=named):
    neuroml.read_neuroml(path)
  with pytest.raises(MorphologyError, match='No such file'):
    neuroml.read_neuroml(tmp_path / 'none.nml')
