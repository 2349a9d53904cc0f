"""Counts from lists of edges."""

import math

import numpy as np
import pytest

from jaxlab import motifs


def test_equals_the_dense_census(random_graph):
  for seed in range(20):
    # The dense census sees one shape.
    A = np.pad(random_graph(seed, 6 + seed, seed / 20), (0, 26 - seed))
    rows, cols = A.nonzero()
    # Repeated edges and loops change nothing.
    rows, cols = (
      np.append(rows, [*rows[:3], 2]),
      np.append(cols, [*cols[:3], 2]),
    )
    found = motifs.sparse_census(rows, cols, len(A), full=True)
    assert found.dtype == np.int64
    assert found.tolist() == motifs.triad_census(A).tolist()


def test_large_star_and_a_ring():
  leaves = 100_000
  hub = np.zeros(leaves, int)
  rows = np.append(hub, [1, 2])
  cols = np.append(np.arange(1, leaves + 1), [2, 3])
  found = motifs.sparse_census(rows, cols, leaves + 1)
  # Two edges join leaves 1, 2, 3 to a path.
  right = np.zeros(13, int)
  right[0] = math.comb(leaves, 2) - 2
  right[5] = 2
  right[2] = 1
  assert found.tolist() == right.tolist()
  assert found[0] > 2**31


def test_many_blocks_of_wedges():
  # 60 nodes with all edges: 34,220 triples are more than one block.
  size = 60
  rows, cols = (~np.eye(size, dtype=bool)).nonzero()
  found = motifs.sparse_census(rows, cols, size, full=True)
  assert found.tolist() == [0] * 15 + [math.comb(size, 3)]


def test_empty():
  found = motifs.sparse_census([], [], 5, full=True)
  assert found.tolist() == [10] + [0] * 15
  assert motifs.sparse_census([0], [0], 1).tolist() == [0] * 13


@pytest.mark.parametrize(
  ('rows', 'cols', 'num_nodes', 'named'),
  [
    ([0, 1], [1], 3, r'\(2,\).*\(1,\)'),
    ([0, 3], [1, 1], 3, r'rows\[1\] = 3.*0\.\.2'),
    ([0, 1], [1, -1], 3, r'cols\[1\] = -1'),
    ([0.5], [1], 3, 'rows holds float64'),
    ([], [], -1, 'num_nodes=-1.*negative'),
  ],
)
def test_bad_edges_are_named(rows, cols, num_nodes, named):
  with pytest.raises(ValueError, match=named):
    motifs.sparse_census(rows, cols, num_nodes)
