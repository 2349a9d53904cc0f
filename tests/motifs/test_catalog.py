"""The catalogue against other software's classes and the graphs' own cycles."""

import itertools

import numpy as np
import pytest
from scipy.sparse import csgraph

from jaxlab import motifs
from jaxlab.motifs import catalog


def graph_of_code(code):
  """The `[3, 3]` graph of a triple code, bit by bit."""
  A = np.zeros((3, 3), int)
  for place, (x, y) in enumerate(((0, 1), (0, 2), (1, 2))):
    A[x, y], A[y, x] = code >> 2 * place & 1, code >> 2 * place & 2
  return (A > 0).astype(int)


def test_all_64_triples_have_the_class_of_networkx():
  nx = pytest.importorskip('networkx')
  for code in range(64):
    graph = nx.from_numpy_array(graph_of_code(code), create_using=nx.DiGraph)
    census = nx.triadic_census(graph)
    (name,) = (name for name, count in census.items() if count)
    index = catalog.CLASS_OF_CODE[code]
    assert (motifs.NAMES[index] if index >= 0 else 'none') == (
      name if name in motifs.NAMES else 'none'
    )


def test_igraph_classes():
  igraph = pytest.importorskip('igraph')
  for index in range(13):
    edges = motifs.MOTIFS[index].edges
    graph = igraph.Graph(n=3, edges=edges, directed=True)
    assert motifs.convert_ids([index], 'index', 'igraph') == graph.isoclass()


def test_sporns_numbers_follow_from_sorted_degrees():
  # The Brain Connectivity Toolbox sorts motifs by the sorted (out, in) degrees
  # of their nodes and renames seven of them after the published figure.
  labels = {}
  for index in range(13):
    A = motifs.adjacency(index)
    label = sorted(zip(A.sum(1).tolist(), A.sum(0).tolist(), strict=True))
    labels[index] = label
  order = sorted(range(13), key=labels.get)
  published = dict(
    zip((1, 3, 4, 6, 7, 8, 11), (3, 6, 1, 11, 4, 7, 8), strict=True)
  )
  for place, index in enumerate(order, 1):
    right = published.get(place, place)
    assert motifs.convert_ids([index], 'index', 'sporns') == right
  # The best known: the feed-forward loop is 5, the ring 7, the clique 13.
  names = ['030T', '030C', '201', '300']
  assert motifs.convert_ids(names, 'name', 'milo').tolist() == [5, 7, 9, 13]


def test_mfinder_numbers_are_smallest_binary_matrices():
  for index in range(13):
    A = motifs.adjacency(index)
    codes = [
      int((A[np.ix_(order, order)].ravel() << np.arange(9)).sum())
      for order in itertools.permutations(range(3))
    ]
    assert motifs.convert_ids(index, 'index', 'mfinder') == min(codes)


def test_layers_are_what_the_cycles_allow():
  for name in motifs.NAMES:
    A = motifs.adjacency(name)
    two, three = np.trace(A @ A), np.trace(A @ A @ A)
    assert motifs.layer_of(name) == (3 if three else 2 if two else 1)
    _, label = csgraph.connected_components(A, connection='strong')
    assert motifs.layer_of(name, by='scc') == np.bincount(label).max()
  assert np.bincount(motifs.LAYER_OF).tolist() == [0, 4, 5, 4]
  shares = motifs.layer_shares([0.2, 0.3, 0.5])
  sums = [shares[layer == motifs.LAYER_OF].sum() for layer in (1, 2, 3)]
  np.testing.assert_allclose(sums, [0.2, 0.3, 0.5])


def test_roles_are_the_orbits():
  assert len(motifs.ROLES) == 30
  sizes = motifs.ROLES[:, 2]
  for index in range(13):
    assert sizes[motifs.ROLES[:, 0] == index].sum() == 3
  # Nodes of one role have the same degrees in all 64 labellings.
  for code in range(64):
    A = graph_of_code(code)
    for node, role in enumerate(motifs.ROLE_OF_CODE[code]):
      if role >= 0:
        degrees = A[:, node].sum(), A[node].sum()
        assert degrees == (catalog.ROLE_IN[role], catalog.ROLE_OUT[role])


def test_identifiers_translate_both_ways():
  kinds = ('index', 'name', 'sporns', 'igraph', 'mfinder')
  everything = np.arange(13)
  for src, dst in itertools.permutations(kinds, 2):
    there = motifs.convert_ids(everything, 'index', src)
    again = motifs.convert_ids(motifs.convert_ids(there, src, dst), dst, src)
    assert again.tolist() == there.tolist()


def test_what_is_unknown_is_named():
  for call in (motifs.layer_of, motifs.adjacency):
    with pytest.raises(ValueError, match=r"'999X'.*021D.*300"):
      call('999X')
  with pytest.raises(ValueError, match=r"'bct'.*igraph"):
    motifs.convert_ids([1], 'bct', 'index')
  with pytest.raises(ValueError, match='14 is no sporns'):
    motifs.convert_ids([14], 'sporns', 'index')
  with pytest.raises(ValueError, match=r"by='size'.*scc"):
    motifs.layer_of('300', by='size')
