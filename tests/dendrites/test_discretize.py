"""Compartments: areas and resistances of NEURON, closed forms, the tree."""

import dataclasses
import pickle

import numpy as np
import pytest

from jaxlab import errors
from jaxlab.data import neurons
from jaxlab.dendrites import morphology, swc
from jaxlab.dendrites.compartments import forest
from jaxlab.dendrites.discretize import discretize
from jaxlab.dendrites.morphology import MorphologyError
from tests.dendrites import neuron_import
from tests.dendrites.golden_morphology import (
  conductance_matrix,
  input_resistance,
)
from tests.golden import Golden

GOLDEN = Golden('heliox')
BRANCHED = [
  ('soma', 20.0, 20.0, None),
  ('dend', 300.0, 3.0, ('soma', 1.0)),
  ('apic[0]', 100.0, 2.0, ('dend', 1.0)),
  ('apic[1]', 150.0, 1.0, ('dend', 1.0)),
  ('axon', 80.0, 1.0, ('soma', 0.5)),
  ('spine', 2.0, 0.3, ('dend', 0.4)),
  ('twig', 40.0, 0.8, ('apic[0]', 0.0)),
]


def branched(**options):
  return discretize(morphology.from_cylinders(BRANCHED), **options)


def assert_is_tree(tree):
  """What every consumer relies on."""
  n = tree.n
  assert tree.parent[0] == -1
  assert (tree.parent[1:] < np.arange(1, n)).all()
  assert (tree.parent[1:] >= 0).all()
  # Depth first: a node is the next one of its parent or of an ancestor of
  # the node before it.
  for node in range(1, n):
    above = node - 1
    while above != tree.parent[node]:
      above = tree.parent[above]
      assert above >= 0
  assert tree.resistance[0] == 0
  assert (tree.resistance[1:] > 0).all()
  links = tree.parent[1:]
  np.testing.assert_array_equal(tree.depth[1:], tree.depth[links] + 1)
  assert (tree.distance[1:] > tree.distance[links]).all()
  algebraic = ~tree.is_segment
  assert (tree.area[~algebraic] > 0).all()
  for values in (tree.area, tree.length, tree.diameter, tree.x):
    assert (values[algebraic] == 0).all()
  degree = np.bincount(links, minlength=n) + (tree.parent >= 0)
  assert (degree[algebraic] >= 3).all()
  np.testing.assert_allclose(
    np.pi * tree.diameter * tree.length, tree.area, rtol=1e-12
  )


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
def test_segments_are_those_of_neuron(name):
  folder = GOLDEN.data_folder(f'swc/morph_{name}.swc')
  path = folder / f'swc/morph_{name}.swc'
  with neuron_import.imported(path) as (h, sections):
    # NEURON has points in float32: take them.
    morph = morphology.Morphology(
      tuple(
        s._replace(points=np.array(neuron_import.points(sections[s.name])))
        for s in swc.read_swc(path).sections
      )
    )
    tree = discretize(morph, max_len=40.0, Ra=120.0)
    automatic = discretize(morph, Ra=120.0, d_lambda=0.05, cm=2.0)
    assert_is_tree(tree)
    root = morph.sections[0].name
    for name_, section in sections.items():
      section.Ra, section.cm = 120.0, 2.0
      count = (section.L / (0.05 * h.lambda_f(100, sec=section)) + 0.9) / 2
      assert len(automatic.nodes(name_)) == 2 * int(count) + 1
      section.nseg = len(tree.nodes(name_))
      section.insert('pas')
      section.g_pas = 1e-4
      nodes = [tree.node(name_, segment.x) for segment in section]
      np.testing.assert_allclose(
        tree.area[nodes], [segment.area() for segment in section], rtol=1e-6
      )
      np.testing.assert_allclose(
        tree.x[nodes], [segment.x for segment in section], rtol=1e-12
      )
    assert tree.n_segments == sum(s.nseg for s in sections.values())
    h.finitialize(-70)
    impedance = h.Impedance()
    impedance.loc(0.5, sec=sections[root])
    impedance.compute(0)
    theirs = impedance.input(0.5, sec=sections[root])
    ours = input_resistance(tree, tree.node(root, 0.5), 1e-4)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize('x', [0.0, 0.3, 0.5, 1.0])
def test_attachments_are_those_of_neuron(x):
  """Resistance between two places of cylinders that meet anywhere."""
  h = pytest.importorskip('neuron').h
  cylinders = [
    ('soma', 30.0, 10.0, None),
    ('dend', 100.0, 2.0, ('soma', x)),
    ('apic', 60.0, 1.0, ('dend', x)),
    ('axon', 90.0, 0.5, ('dend', 0.0)),
  ]
  tree = discretize(morphology.from_cylinders(cylinders), nseg=3)
  sections = {}
  for name, length, diameter, attached in cylinders:
    section = sections[name] = h.Section(name)
    section.L, section.diam, section.nseg, section.Ra = length, diameter, 3, 100
    section.insert('pas')
    section.g_pas = 1e-4
    if attached:
      section.connect(sections[attached[0]](attached[1]), 0)
  h.finitialize(-70)
  impedance = h.Impedance()
  impedance.loc(0.5, sec=sections['soma'])
  impedance.compute(0)
  inverse = np.linalg.inv(conductance_matrix(tree, 1e-4))
  for name, section in sections.items():
    for segment in section:
      theirs = impedance.transfer(segment.x, sec=section)
      ours = inverse[0, tree.node(name, segment.x)]
      np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_a_cone_is_exact():
  """One frustum in five segments: closed forms of area and resistance."""
  points = np.array([[0.0, 0, 0, 4.0], [100.0, 0, 0, 1.0]])
  section = morphology.Section('dend[0]', 3, points, -1, 0.5)
  tree = discretize(morphology.Morphology((section,)), nseg=5, Ra=150.0)
  nodes = [tree.node('dend', (j + 0.5) / 5) for j in range(5)]

  def radius(s):
    return 4 - 0.03 * s

  ends = np.linspace(0, 100, 6)
  a, b = ends[:-1], ends[1:]
  area = np.pi * (radius(a) + radius(b)) * np.hypot(20, 0.6)
  np.testing.assert_allclose(tree.area[nodes], area, rtol=1e-12)
  middle = (a + b) / 2
  between = 0.01 * 150 / np.pi * 20 / radius(middle[:-1]) / radius(middle[1:])
  resistance = {}
  for child in range(1, 5):
    pair = sorted((nodes.index(child), nodes.index(tree.parent[child])))
    resistance[pair[0]] = tree.resistance[child]
  np.testing.assert_allclose(
    [resistance[j] for j in range(4)], between, rtol=1e-12
  )
  assert tree.node('dend[0]', 0.5) == 0
  np.testing.assert_allclose(tree.xyz[nodes][:, 0], middle)
  np.testing.assert_allclose(tree.distance[nodes], abs(middle - 50))


def test_a_step_of_the_radius_is_a_ring():
  points = np.array(
    [[0.0, 0, 0, 3], [10, 0, 0, 3], [10, 0, 0, 1], [30, 0, 0, 1]]
  )
  section = morphology.Section('dend', 3, points, -1, 0.5)
  tree = discretize(morphology.Morphology((section,)), nseg=1)
  ring = np.pi * (3**2 - 1**2)
  np.testing.assert_allclose(
    tree.area, [2 * np.pi * (10 * 3 + 20 * 1) + ring], rtol=1e-12
  )


def test_totals_do_not_depend_on_the_segments():
  few, many = branched(nseg=1), branched(nseg=9)
  sides = [np.pi * length * diameter for _, length, diameter, _ in BRANCHED]
  for tree in (few, many):
    assert_is_tree(tree)
    by_section = [tree.area[tree.nodes(row[0])].sum() for row in BRANCHED]
    np.testing.assert_allclose(by_section, sides, rtol=1e-12)
  assert (few.n_segments, many.n_segments) == (7, 63)
  # dend, apic[0], apic[1] and twig meet in one point; nothing else needs one.
  assert (few.n, many.n) == (8, 64)
  assert many.depth.max() == 4 + 9 + 1 + 9


def test_distances_are_those_along_the_cable():
  tree = branched(nseg=5)
  for name, x, distance in [
    ('soma', 0.5, 0),
    ('soma', 0.9, 8),
    ('dend', 0.5, 10 + 150),
    ('apic[1]', 0.7, 10 + 300 + 105),
    ('axon', 0.1, 8),
    # Cable at the middle of a section begins at the centre of the segment.
    ('spine', 0.3, 10 + 150 + 0.6),
    ('twig', 0.5, 10 + 300 + 20),
  ]:
    np.testing.assert_allclose(tree.distance[tree.node(name, x)], distance)


@pytest.mark.parametrize(
  ('options', 'counts'),
  [
    ({'max_len': 40.0}, [1, 9, 3, 5, 3, 1, 1]),
    ({'max_len': 300.0}, [1] * 7),
    ({'max_len': 299.0}, [1, 3, 1, 1, 1, 1, 1]),
    ({'nseg': 2}, [2] * 7),
    (
      {'max_len': 40.0, 'nseg': {'apical': 4, 'apic[1]': 8}},
      [1, 9, 4, 8, 3, 1, 1],
    ),
    ({'nseg': {'soma': 6}, 'd_lambda': 10.0}, [6, 1, 1, 1, 1, 1, 1]),
  ],
)
def test_numbers_of_segments(options, counts):
  tree = branched(**options)
  assert [len(tree.nodes(row[0])) for row in BRANCHED] == counts


def test_the_rule_without_any_is_d_lambda():
  tree = branched()
  assert tree == branched(d_lambda=0.1)
  assert tree != branched(d_lambda=0.02)


def test_places():
  tree = branched(nseg=4)
  assert tree.nodes('all').tolist() == np.flatnonzero(tree.is_segment).tolist()
  parts = [tree.nodes(p) for p in ('soma', 'basal', 'apical', 'axon', 'spine')]
  parts.append(tree.nodes('twig'))
  assert sorted(np.concatenate(parts)) == tree.nodes('all').tolist()
  assert set(tree.nodes('apic[1]')) < set(tree.nodes('apical'))
  places = [tree.node('dend', x) for x in (0, 0.2499, 0.25, 0.99, 1)]
  assert places[0] == places[1] != places[2]
  assert places[3] == places[4]
  assert tree.node('apic', 0.1) == tree.node('apic[0]', 0.1)


@pytest.mark.parametrize(
  ('ask', 'named'),
  [
    (lambda tree: tree.nodes('tuft'), r"'tuft'.*all, apical.*soma, dend"),
    (lambda tree: tree.node('tuft', 0.5), r"'tuft'.*soma, dend"),
    (lambda tree: tree.node('dend', 1.5), r"'dend': x=1\.5"),
    (lambda tree: tree.node('dend', np.nan), 'x=nan'),
    (lambda tree: forest([]), '0 trees'),
    (lambda tree: forest([tree, tree], ['a', 'a']), '2 trees and 1 different'),
  ],
)
def test_unknown_places_are_named(ask, named):
  with pytest.raises(errors.UserError, match=named) as caught:
    ask(branched(nseg=1))
  assert '\n' not in str(caught.value)


@pytest.mark.parametrize(
  ('options', 'named'),
  [
    ({'max_len': 0.0}, 'max_len=0'),
    ({'max_len': np.nan}, 'max_len=nan'),
    ({'Ra': -1.0}, 'Ra=-1'),
    ({'cm': 0.0}, 'cm=0'),
    ({'d_lambda': -0.1}, 'd_lambda=-0.1'),
    ({'nseg': 0}, 'nseg=0'),
    ({'nseg': 2.5}, r'nseg=2\.5'),
    ({'nseg': np.nan}, 'nseg=nan'),
    ({'nseg': {'dend': 0}}, "nseg=0 of 'dend'"),
    ({'nseg': {'tuft': 1}}, "'tuft'.*apical"),
    ({'nseg': 1, 'max_len': 40.0}, r'max_len=40\.0, nseg=1'),
    ({'max_len': 40.0, 'd_lambda': 0.1}, r'd_lambda=0\.1: give one'),
  ],
)
def test_bad_options_are_named(options, named):
  with pytest.raises(ValueError, match=named) as caught:
    branched(**options)
  assert '\n' not in str(caught.value)


def test_a_section_without_length_is_named():
  points = np.array([[0.0, 0, 0, 1], [0, 0, 0, 2]])
  section = morphology.Section('soma[0]', 1, points, -1, 0.5)
  with pytest.raises(MorphologyError, match=r"'soma\[0\]' has length 0"):
    discretize(morphology.Morphology((section,)))


def test_trees_are_values():
  tree, same, other = branched(nseg=3), branched(nseg=3), branched(nseg=5)
  assert tree == same != other
  assert hash(tree) == hash(same)
  assert {tree: 1}[same] == 1
  assert tree != 'a tree'
  assert tree.digest != dataclasses.replace(tree, Ra=50.0).digest
  assert pickle.loads(pickle.dumps(tree)) == tree
  with pytest.raises(ValueError, match='read-only'):
    tree.area[0] = 1
  with pytest.raises(dataclasses.FrozenInstanceError):
    tree.area = tree.length


def test_forest():
  small = discretize(morphology.from_cylinders(BRANCHED[:2]), nseg=2)
  big = branched(nseg=3)
  joint, offsets = forest([small, big, small], ['A', 'B', 'C'])
  assert offsets.tolist() == [0, small.n, small.n + big.n, 2 * small.n + big.n]
  assert joint.n_segments == 2 * small.n_segments + big.n_segments
  assert (joint.parent < np.arange(joint.n)).all()
  assert np.flatnonzero(joint.parent < 0).tolist() == offsets[:-1].tolist()
  assert joint.Ra == 100
  node = joint.node('B/apic[1]', 0.5)
  assert node == offsets[1] + big.node('apic[1]', 0.5)
  assert len(joint.nodes('soma')) == 2 + 3 + 2
  assert set(joint.nodes('C/dend')) == set(small.nodes('dend') + offsets[2])
  for i, tree in enumerate([small, big, small]):
    own = slice(offsets[i], offsets[i + 1])
    np.testing.assert_array_equal(joint.xyz[own], tree.xyz)
    np.testing.assert_array_equal(
      conductance_matrix(joint, 1e-4)[own, own], conductance_matrix(tree, 1e-4)
    )
  stiff = branched(nseg=3, Ra=200.0)
  assert np.isnan(forest([big, stiff])[0].Ra)
  assert forest([big])[0].names[0] == '0/soma'


def test_the_worm_has_its_segments():
  worm = neurons.load_worm(GOLDEN.data_folder('celegans_*'))
  trees = []
  for text, nseg in zip(worm.swc, worm.nseg, strict=True):
    morph = swc.parse_swc(text)
    names = [morph.sections[i].name for i in morphology.depth_first(morph)]
    counts = dict(zip(names, nseg, strict=True))
    trees.append(discretize(morph, nseg=counts))
    length = sum(section.L for section in morph.sections)
    np.testing.assert_allclose(trees[-1].length.sum(), length, rtol=1e-12)
  assert sum(tree.n_segments for tree in trees) == 15_910
  for tree in trees[::20]:
    assert_is_tree(tree)


def test_a_long_cable_needs_no_recursion():
  cable = morphology.from_cylinders([('dend', 1e5, 1.0, None)])
  tree = discretize(cable, nseg=20_001)
  assert tree.n == 20_001
  assert tree.depth.max() == 10_000
