"""SWC files: sections as NEURON's, repairs, faults."""

import random

import numpy as np
import pytest

from jaxlab.dendrites import morphology, swc
from jaxlab.dendrites.morphology import MorphologyError
from tests.dendrites import neuron_import
from tests.golden import Golden

GOLDEN = Golden('heliox')
SOMA = '1 1 0 0 0 5 -1\n'


def assert_like_neuron(morph, sections):
  """Names, parents and points; NEURON has points in float32."""
  assert {section.name for section in morph.sections} == set(sections)
  for section in morph.sections:
    theirs = sections[section.name]
    above = morph.sections[section.parent]
    is_root = section.parent < 0
    attached = None if is_root else (above.name, section.parent_x)
    assert attached == neuron_import.parent(theirs)
    np.testing.assert_allclose(section.L, theirs.L, rtol=1e-5, atol=1e-4)
    points = np.array(neuron_import.points(theirs))
    if is_root and len(section.points) == 3:
      # A sphere's cylinder may lie along any axis.
      points = np.sort(np.abs(points - points[1]))
      ours = np.sort(np.abs(section.points - section.points[1]))
      np.testing.assert_allclose(ours, points, rtol=1e-5)
    else:
      np.testing.assert_allclose(section.points, points, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
  'name',
  [
    '3_types',
    '3_types_single_point_soma',
    'allen_485574832',
    'ca1_n120',
    'interrupted_soma',
    'l5pc_with_axon',
    'minimal',
    'non_somatic_branchpoint',
    'soma_both_ends',
    'somatic_branchpoint',
    'variable_radiuses_within_branch',
  ],
)
def test_files_have_the_sections_of_neuron(name):
  folder = GOLDEN.data_folder(f'swc/morph_{name}.swc')
  path = folder / f'swc/morph_{name}.swc'
  with neuron_import.imported(path) as (_, sections):
    assert_like_neuron(swc.read_swc(path), sections)


def grown(seed):
  """Rows of a small neuron, of any shape that NEURON reads by its rules.

  At a first point of a neurite its import counts children in an order of its
  own, and makes sections of rows that are no neighbours: no branches there.
  """
  draw = random.Random(seed)
  rows = []
  for index in range(draw.randrange(1, 12)):
    above, kind = -1, 1 if draw.random() < 0.8 else 3
    if index:
      above = index - 1 if draw.random() < 0.6 else draw.randrange(index)
      kind = rows[above][1]
      if draw.random() < 0.3 or (kind == 1 and draw.random() < 0.5):
        kind = draw.choice([1, 2, 3, 4])
    place = [draw.randrange(-40, 40) for _ in range(3)]
    radius = draw.choice([0.5, 1, 2, 4])
    rows.append([index + 1, kind, *place, radius, above + 1 if index else -1])
  return rows if all(is_plain(i, rows) for i in range(len(rows))) else None


def is_plain(point, rows):
  children = [i for i, row in enumerate(rows) if row[6] == point + 1]
  kinds = [rows[child][1] for child in children]
  if rows[point][1] == 1:
    return point > 0 or kinds.count(1) < 2 or kinds.count(1) == len(kinds)
  first = point == 0 or rows[rows[point][6] - 1][1] == 1
  elsewhere = any(child != point + 1 for child in children)
  if not (first and elsewhere):
    return True
  same = all(kind == rows[point][1] for kind in kinds)
  return point != 1 and point + 1 in children and same


def test_small_neurons_have_the_sections_of_neuron(tmp_path):
  path, count = tmp_path / 'grown.swc', 0
  for rows in filter(None, map(grown, range(120))):
    path.write_text(''.join(' '.join(map(str, row)) + '\n' for row in rows))
    with neuron_import.imported(path) as (_, sections):
      assert_like_neuron(swc.read_swc(path), sections)
    count += 1
  assert count > 60


def test_every_cell_of_the_worm_is_read():
  folder = GOLDEN.data_folder('celegans_swc') / 'celegans_swc'
  cells = [swc.read_swc(path) for path in sorted(folder.glob('*.swc'))]
  assert len(cells) == 302
  assert all(cell.sections[0].region == 'soma' for cell in cells)


def test_order_ids_commas_and_comments_do_not_matter():
  plain = SOMA + '2 3 9 0 0 1 1\n3 3 20 0 0 2 2\n'
  other = (
    '\ufeff# comment\n\n30, 3, 20, 0, 0, 2, 20 # tip\n10 1 0 0 0 5.0 -1 7 8\n'
    '20\t3.0\t9 0 0 1 10\n'
  )
  first, second = swc.parse_swc(plain), swc.parse_swc(other.lstrip('\ufeff'))
  assert [s[:2] + s[3:] for s in first.sections] == [
    s[:2] + s[3:] for s in second.sections
  ]
  for a, b in zip(first.sections, second.sections, strict=True):
    np.testing.assert_array_equal(a.points, b.points)
  assert first.report == ()
  assert 'sorted' in second.report[0]


def test_a_byte_order_mark_is_no_number(tmp_path):
  path = tmp_path / 'x.swc'
  path.write_text('\ufeff' + SOMA, encoding='utf-8')
  assert len(swc.read_swc(path).sections) == 1


def test_a_parent_may_have_a_later_id():
  text = '1 3 30 0 0 1 2\n2 3 20 0 0 1 3\n3 1 0 0 0 5 -1\n'
  named = {s.name: s for s in swc.parse_swc(text).sections}
  assert named['soma[0]'].L == 10
  assert named['dend[1]'].points[:, 0].tolist() == [0, 20]
  assert named['dend[0]'].points[:, 0].tolist() == [20, 30]


def test_the_largest_of_several_trees():
  text = '9 1 50 0 0 5 -1\n' + SOMA + '2 3 9 0 0 1 1\n'
  with pytest.raises(MorphologyError, match=r"2 points.*'largest'"):
    swc.parse_swc(text)
  morph = swc.parse_swc(text, on_multiple_roots='largest')
  assert [s.name for s in morph.sections] == ['soma[0]', 'dend[0]']
  assert '2 roots (ids 1, 9): kept the tree of 2 points, dropped 1' in (
    ' '.join(morph.report)
  )


@pytest.mark.parametrize(
  ('ends', 'sphere'),
  [
    ('2 1 0 -5 0 5 1\n3 1 0 5 0 5 1\n', True),
    ('2 1 0 -5 0 5 1\n3 1 0 5.09 0 5 1\n', True),
    ('2 1 0 -5 0 5 1\n3 1 0 5.2 0 5 1\n', False),
    ('2 1 0 -5 0 5 1\n3 1 0 5 0 4 1\n', False),
    ('2 1 0 -5 0 5 1\n3 1 0 5 0 5 2\n', False),
    ('2 1 0 -5 0 5 1\n3 1 0 5 0 5 1\n4 3 0 9 0 1 3\n', False),
  ],
)
def test_a_soma_of_three_points(ends, sphere):
  text = SOMA + ends + '7 3 20 0 0 1 1\n8 3 30 0 0 1 7\n'
  morph = swc.parse_swc(text)
  assert (morph.sections[0].L == 10 and len(morph.sections) == 2) == sphere
  assert any('sphere' in line for line in morph.report) == sphere
  stacked = swc.parse_swc(text, soma='frusta')
  assert not any('sphere' in line for line in stacked.report)
  if sphere:
    assert morph.sections[1].parent_x == 0.5
    assert [s.name for s in stacked.sections[:2]] == ['soma[0]', 'soma[1]']


def test_sections_of_no_length_are_dropped():
  """NEURON drops them too."""
  text = (
    SOMA + '2 1 10 0 0 5 1\n3 3 20 0 0 1 2\n4 3 30 0 0 1 3\n5 3 30 0 0 1 4\n'
    '6 3 40 0 0 1 5\n7 3 40 9 0 1 5\n8 3 30 20 0 1 4\n'
  )
  morph = swc.parse_swc(text)
  assert [s.name for s in morph.sections][1:] == [
    f'dend[{i}]' for i in range(4)
  ]
  assert [s.L for s in morph.sections[1:]] == [20, 10, np.hypot(10, 9), 20]
  assert [(s.parent, s.parent_x) for s in morph.sections[2:]] == [(1, 1)] * 3
  assert any('1 sections of no length' in line for line in morph.report)


def test_what_is_odd_is_reported():
  morph = swc.parse_swc('1 7 0 0 0 5 -1\n2 7 9 0 0 1 1\n3 7 9 0 0 1 2\n')
  report = ' '.join(morph.report)
  for words in ('no soma', 'types [7]', '1 points lie where'):
    assert words in report
  assert morph.sections[0].name == 'dend_7[0]'
  assert morph.sections[0].region == 'dend_7'


@pytest.mark.parametrize(
  ('text', 'words'),
  [
    ('# nothing\n\n', ['empty']),
    ('1 1 0 0 0 5\n', ['line 1', '6 numbers']),
    (SOMA + '\n2 3 1e 0 0 1 1\n', ['line 3', "x '1e'"]),
    (SOMA + '2.5 3 1 0 0 1 1\n', ['line 2', "id '2.5'"]),
    (SOMA + '2 3 nan 0 0 1 1\n', ['line 2', "x 'nan'"]),
    (SOMA + '1 3 1 0 0 1 1\n', ['line 2', 'id 1', 'line 1']),
    (SOMA + '2 3 9 0 0 nan 1\n', ['point 2', 'radius nan']),
    (SOMA + '2 3 9 0 0 inf 1\n', ['point 2', 'radius inf']),
    (SOMA + '2 3 9 0 0 -1 1\n', ['point 2', 'radius -1']),
    (SOMA + '2 3 9 0 0 1 0\n', ['point 2', 'parent 0']),
    ('1 1 0 0 0 5 1\n', ['point 1', 'cycle']),
    ('1 1 0 0 0 5 3\n2 1 1 0 0 5 1\n3 1 2 0 0 5 2\n', ['cycle']),
    # Faults are found in this order: line, radius, parent, cycle, root.
    ('1 1 0 0 0 0 9\n2 1 x 0 0 5 1\n', ['line 2']),
    ('1 1 0 0 0 0 9\n2 1 0 0 0 5 2\n', ['radius']),
    ('1 1 0 0 0 5 9\n2 1 0 0 0 5 2\n', ['parent 9']),
    (SOMA + '2 1 0 0 0 5 -1\n3 1 0 0 0 5 3\n', ['cycle']),
    (SOMA + '2 1 0 0 0 5 -1\n', ['root']),
  ],
)
def test_faults_are_named(tmp_path, text, words):
  path = tmp_path / 'bad.swc'
  path.write_text(text)
  with pytest.raises(MorphologyError) as caught:
    swc.read_swc(path)
  for word in [str(path), *words]:
    assert word in str(caught.value)
  assert '\n' not in str(caught.value)


def test_options_and_paths_are_named(tmp_path):
  with pytest.raises(ValueError, match=r"soma='ball'.*auto, frusta"):
    swc.parse_swc(SOMA, soma='ball')
  with pytest.raises(ValueError, match=r"on_multiple_roots='all'"):
    swc.parse_swc(SOMA, on_multiple_roots='all')
  with pytest.raises(MorphologyError, match=r'none\.swc: No such file'):
    swc.read_swc(tmp_path / 'none.swc')


def test_depth_first_order():
  text = SOMA + ''.join(
    f'{i} {kind} {9 * i} {i % 2} 0 1 {above}\n'
    for i, kind, above in [(2, 3, 1), (3, 2, 1), (4, 3, 2), (5, 3, 2)]
  )
  morph = swc.parse_swc(text)
  order = morphology.depth_first(morph)
  assert order[0] == 0
  assert sorted(order) == list(range(len(morph.sections)))
  place = {section: i for i, section in enumerate(order)}
  for index, section in enumerate(morph.sections):
    assert section.parent < 0 or place[section.parent] < place[index]
