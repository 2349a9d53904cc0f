"""Dense and sampled counts against networkx, enumeration and closed forms."""

import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from jaxlab import motifs

# All graphs of a comparison are padded to one size.
SIZE = 40


def padded(A):
  return np.pad(A, (0, SIZE - len(A)))


@pytest.fixture(scope='module')
def many():
  """200 graphs of 5 to 40 nodes and all densities, with loops."""
  rng = np.random.default_rng(0)
  sizes = rng.integers(5, SIZE + 1, 200)
  return np.stack([padded(rng.random((n, n)) < rng.random()) for n in sizes])


def test_200_random_graphs_equal_networkx(many):
  nx = pytest.importorskip('networkx')
  ours = jax.jit(lambda x: jax.lax.map(motifs.triad_census, x))(many)
  limbs = jax.jit(lambda x: jax.lax.map(motifs.census_limbs, x))(many)
  for A, found in zip(many, np.asarray(ours), strict=True):
    graph = nx.from_numpy_array(A.astype(int), create_using=nx.DiGraph)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    right = nx.triadic_census(graph)
    assert found.tolist() == [right[name] for name in motifs.TRIADS]
  assert (motifs.join_limbs(limbs) == np.asarray(ours)[:, 3:]).all()
  assert (motifs.triad_census(many[7]) == np.asarray(ours)[7]).all()
  mapped = jax.vmap(motifs.census)(jnp.asarray(many[:3]))
  assert (np.asarray(mapped) == np.asarray(ours)[:3, 3:]).all()


def test_igraph_counts(random_graph):
  igraph = pytest.importorskip('igraph')
  A = random_graph(1, SIZE, 0.2)
  graph = igraph.Graph.Adjacency(A.astype(int).tolist())
  by_class = np.array(graph.motifs_randesu(3))
  place = motifs.convert_ids(np.arange(13), 'index', 'igraph')
  assert motifs.census(A).tolist() == by_class[place].tolist()


@pytest.mark.parametrize('dtype', [bool, np.int32, np.float32])
def test_roles_equal_enumeration(random_graph, instances, dtype):
  A = random_graph(2, 12, 0.45)
  right = np.zeros((SIZE, 30), int)
  for _, _, roles in instances(A):
    for node, role in roles.items():
      right[node, role] += 1
  found = motifs.role_census(padded(A).astype(dtype))
  assert found.dtype == jnp.int32
  assert (np.asarray(found) == right).all()
  nodes = np.asarray(motifs.node_census(padded(A)))
  assert (nodes.sum(0) == 3 * motifs.census(A)).all()


def test_counts_beyond_float32_and_int32_are_exact():
  size = 519
  complete = ~np.eye(size, dtype=bool)
  with warnings.catch_warnings():
    warnings.simplefilter('ignore')
    assert motifs.census(complete)[12] == math.comb(size, 3)
  assert math.comb(size, 3) > 2**24
  assert math.comb(size, 3) % 2 == 1
  # Limbs of 2400 nodes with 2^30 ends of rings each.
  limbs = np.zeros((2, 13), np.int32)
  limbs[0, 6], limbs[1, 6] = 2400 << 15, 2400
  assert motifs.join_limbs(limbs)[6] == 2400 * (2**30 + 1) // 3
  shape = jax.ShapeDtypeStruct((2346, 2346), bool)
  with pytest.raises(ValueError, match=r'2346.*int32.*census_limbs'):
    jax.eval_shape(motifs.census, shape)
  assert jax.eval_shape(motifs.census_limbs, shape).shape == (2, 13)
  with pytest.raises(ValueError, match='sparse_census'):
    jax.eval_shape(
      motifs.census_limbs, jax.ShapeDtypeStruct((40_000, 40_000), bool)
    )


def test_permutation_and_reversal(random_graph):
  A = random_graph(3, SIZE, 0.15)
  order = np.random.default_rng(0).permutation(SIZE)
  there, moved = motifs.role_census(A), motifs.role_census(A[order][:, order])
  assert (np.asarray(there)[order] == np.asarray(moved)).all()
  # All edges turned round: D and U change places.
  swap = [1, 0, 2, 4, 3, 5, 6, 7, 9, 8, 10, 11, 12]
  assert (motifs.census(A.T) == motifs.census(A)[swap]).all()


def test_expected_census_of_a_graph_is_its_census(x64, random_graph):
  A = random_graph(4, 11, 0.4)
  found = motifs.expected_census(A.astype(float))
  np.testing.assert_allclose(found, motifs.census(A), atol=1e-9)


def test_expected_census_is_the_mean_over_all_graphs(x64):
  rng = np.random.default_rng(5)
  P = rng.random((4, 4))
  cells = [(i, j) for i in range(4) for j in range(4) if i != j]
  rows, cols = np.array(cells).T
  bits = np.arange(4096)[:, None] >> np.arange(12) & 1
  graphs = np.zeros((4096, 4, 4), bool)
  graphs[:, rows, cols] = bits
  chance = np.where(bits, P[rows, cols], 1 - P[rows, cols]).prod(axis=1)
  counts = motifs.count_graphs(graphs)
  found = motifs.expected_census(P)
  np.testing.assert_allclose(found, chance @ counts, rtol=1e-12)
  check_grads(motifs.expected_census, (jnp.asarray(P),), 1, ('rev',))


def test_expected_census_keeps_float32():
  P = jnp.full((10, 10), 0.1, jnp.float32)
  found, gradient = jax.value_and_grad(lambda p: motifs.expected_census(p)[5])(
    P
  )
  assert found.dtype == gradient.dtype == jnp.float32
  # 10 * 9 * 8 ordered triples, three edges and three absences.
  np.testing.assert_allclose(found, 720 * 0.1**3 * 0.9**3, rtol=1e-5)
  assert np.asarray(gradient).diagonal().tolist() == [0] * 10


def test_sample_is_unbiased_and_knows_its_error(random_graph):
  A = random_graph(6, SIZE, 0.25)
  right = motifs.census(A)
  keys = jax.random.split(jax.random.key(0), 64)
  estimate = jax.vmap(lambda k: motifs.estimate_census(k, A, 1024))(keys)
  counts, error = np.asarray(estimate.counts), np.asarray(estimate.std_error)
  common = right > 200
  assert common.sum() >= 5
  spread = np.maximum(counts.std(axis=0, ddof=1), 1e-9)
  z = (counts.mean(axis=0) - right) / spread * 8
  assert np.abs(z[common]).max() < 4
  ratio = error.mean(axis=0) / spread
  assert ((ratio > 0.75) & (ratio < 1.33))[common].all()


def test_signed_and_weighted_equal_enumeration(instances):
  rng = np.random.default_rng(7)
  W = rng.normal(size=(11, 11)) * (rng.random((11, 11)) < 0.5)
  np.fill_diagonal(W, 0)
  B = W.T
  count, total, coherence = np.zeros((3, 13))
  inhibitory = np.zeros((13, 7), int)
  two, three, paths = np.zeros((3, 13, 2))
  for nodes, motif, _ in instances(B != 0):
    values = [B[a, b] for a in nodes for b in nodes if B[a, b]]
    mean = np.exp(np.log(np.abs(values)).mean())
    count[motif] += 1
    total[motif] += mean
    coherence[motif] += mean / np.abs(values).mean()
    inhibitory[motif, sum(v < 0 for v in values)] += 1
    for a in nodes:
      for b in set(nodes) - {a}:
        (c,) = set(nodes) - {a, b}
        for table, product, share in (
          (two, B[a, b] * B[b, a], 1 / 2),
          (three, B[a, b] * B[b, c] * B[c, a], 1 / 3),
          (paths, B[a, b] * B[b, c] * B[a, c], 1),
        ):
          if product:
            table[motif, int(product > 0)] += share
  found = motifs.intensity(W.astype(np.float32))
  seen, count = count > 0, np.maximum(count, 1)
  np.testing.assert_allclose(found.total, total, rtol=1e-5)
  np.testing.assert_allclose(
    found.intensity[seen], (total / count)[seen], rtol=1e-5
  )
  np.testing.assert_allclose(
    found.coherence[seen], (coherence / count)[seen], rtol=1e-5
  )
  assert np.isnan(np.asarray(found.intensity)[~seen]).all()
  signed = motifs.signed_census(W)
  assert (np.asarray(signed.inhibitory) == inhibitory).all()
  for table, name in (
    (two, 'two_cycles'),
    (three, 'three_cycles'),
    (paths, 'paths'),
  ):
    np.testing.assert_allclose(getattr(signed, name), table, atol=1e-9)


def test_what_is_no_graph_is_refused():
  for matrix, named in (
    (np.zeros((3, 4)), r'\(3, 4\)'),
    (np.full((3, 3), np.nan), 'nan.*threshold'),
    ([[0, 2, 0], [0, 0, 1], [1, 0, 0]], r'A\[0, 1\] = 2.*threshold'),
  ):
    for call in (motifs.census, motifs.triad_census, motifs.check_adjacency):
      with pytest.raises(ValueError, match=named):
        call(matrix)
  with pytest.warns(UserWarning, match='undirected'):
    checked = motifs.check_adjacency(np.ones((4, 4)))
  assert checked.loops_ignored == 4
  assert checked.A.sum() == 12
  with pytest.raises(ValueError, match=r'1291.*1290'):
    jax.eval_shape(motifs.signed_census, jnp.zeros((1291, 1291)))


def test_thresholds():
  W = np.array([[9.0, -3, 0], [0.5, 0, 2], [0, 1, 0]])
  right = {'level': 0.75, 'density': 3 / 6}
  for name, value in right.items():
    found = np.asarray(motifs.threshold(W, **{name: value}))
    assert (
      found.T.tolist() == (np.abs(W - np.diag([9.0, 0, 0])) > 0.75).tolist()
    )
  params = {'cell': {'h': {'kernel': W}, 'i': {'kernel': np.ones((2, 3))}}}
  found = motifs.from_params(params, level=0.75)
  assert list(found) == ['cell/h/kernel']
  # A kernel multiplies from the right: kernel[i, j] acts from i to j.
  assert np.asarray(found['cell/h/kernel'])[1, 2]
  with pytest.raises(ValueError, match='no square matrix'):
    motifs.from_params({'a': np.ones(3)})
  with pytest.raises(ValueError, match='density=2'):
    motifs.threshold(W, density=2)
  with pytest.raises(ValueError, match='one of them'):
    motifs.threshold(W, density=0.5, level=1)
