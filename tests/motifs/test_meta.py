"""How motifs hang together, against pairs of instances one by one."""

import itertools

import jax
import numpy as np
import pytest

from jaxlab import motifs


def test_motif_graph_equals_enumeration(random_graph, instances):
  A = random_graph(0, 9, 0.35)
  node, dyad, gap = np.zeros((3, 13, 13), int)
  handover = np.zeros((30, 30), int)
  for (x, m, roles), (y, k, others) in itertools.permutations(instances(A), 2):
    shared = sorted(set(x) & set(y))
    if len(shared) == 1:
      (v,) = shared
      node[m, k] += 1
      if A[list(x), v].any() and A[v, list(y)].any():
        handover[roles[v], others[v]] += 1
    elif len(shared) == 2:
      i, j = shared
      (dyad if A[i, j] or A[j, i] else gap)[m, k] += 1
  found = motifs.motif_graph(A)
  for right, name in ((node, 'node'), (dyad, 'dyad'), (gap, 'gap')):
    # Ordered pairs were counted.
    np.fill_diagonal(right, right.diagonal() // 2)
    assert (getattr(found, name) == right).all(), name
  assert (found.handover == handover).all()


def test_null_of_the_motif_graph(random_graph):
  A = random_graph(1, 9, 0.35)
  result = motifs.null_motif_graph(jax.random.key(0), A, 'degree', 6)
  assert result.handover.z.shape == (30, 30)
  assert (result.node.observed == motifs.motif_graph(A).node).all()
  # The mean of replicas is a mean of whole numbers.
  np.testing.assert_allclose(result.dyad.mean * 6 % 1 % 1, 0, atol=1e-6)
  assert np.isnan(result.gap.z[result.gap.degenerate]).all()


def test_meta_connectivity_equals_numpy(x64):
  x = np.random.default_rng(0).normal(size=(90, 5)).cumsum(axis=0)
  pairs = np.triu_indices(5, 1)
  courses = [np.corrcoef(x[s : s + 20].T)[pairs] for s in range(0, 71, 10)]
  meta, found = motifs.meta_connectivity(x, 20, 10)
  np.testing.assert_allclose(found, courses, atol=1e-12)
  np.testing.assert_allclose(
    meta, np.corrcoef(np.transpose(courses)), atol=1e-12
  )
  constant = np.column_stack([x, np.full(90, 0.1)])
  meta, found = motifs.meta_connectivity(constant, 20, 10)
  assert np.isfinite(meta).all()
  assert np.asarray(found)[:, 4].tolist() == [0] * 8
  with pytest.raises(ValueError, match=r'window=90.*1 windows'):
    motifs.meta_connectivity(x, 90)
