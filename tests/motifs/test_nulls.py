"""Null models: what they keep, what they reach, and what z-scores mean."""

import collections
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab import motifs
from jaxlab.motifs import nulls, rewiring

SIZE = 24
CAP = 256


def kept(A):
  both = A & A.T
  return {
    'edges': A.sum(),
    'mutual': both.sum(),
    'in': A.sum(0).tolist(),
    'out': A.sum(1).tolist(),
    'mutual_degree': both.sum(1).tolist(),
    'loops': np.trace(A),
  }


KEPT = {
  'er': {'edges', 'loops'},
  'degree': {'edges', 'in', 'out', 'loops'},
  'reciprocity': {'edges', 'mutual', 'loops'},
  'degree_mutual': {'edges', 'mutual', 'in', 'out', 'mutual_degree', 'loops'},
}


@pytest.mark.parametrize('kind', motifs.KINDS)
def test_what_a_model_keeps(random_graph, kind):
  A = random_graph(0, SIZE, 0.25)
  keys = jax.random.split(jax.random.key(0), 16)
  drawn = jax.vmap(lambda key: motifs.rewire_chain(key, A, kind))(keys)
  graphs = np.asarray(drawn.A)
  before = kept(A)
  for graph in graphs:
    after = kept(graph)
    assert {name for name in KEPT[kind] if after[name] != before[name]} == set()
  changed = {n for n in before if any(kept(g)[n] != before[n] for g in graphs)}
  assert changed == set(before) - KEPT[kind]
  assert len({graph.tobytes() for graph in graphs}) == 16
  assert (np.asarray(drawn.acceptance) > 0.2).all()
  memory = np.asarray(drawn.autocorrelation).mean(axis=0)
  assert memory.shape == (10,)
  assert np.abs(np.diff(memory[5:])).max() < 0.1


def same_class(A, kind):
  """All graphs that have what the model keeps, by going through 2^12."""
  cells = [(i, j) for i in range(4) for j in range(4) if i != j]
  found = []
  for chosen in itertools.combinations(cells, int(A.sum())):
    graph = np.zeros((4, 4), bool)
    graph[tuple(np.array(chosen).T)] = True
    after, before = kept(graph), kept(A)
    if all(after[name] == before[name] for name in KEPT[kind]):
      found.append(graph.tobytes())
  return found


@pytest.mark.parametrize('kind', ['degree', 'degree_mutual'])
def test_chain_reaches_all_graphs_alike(random_graph, kind):
  # Exchanges are tried more rarely than swaps.
  steps = 1024 if kind == 'degree' else 2048
  draw = jax.jit(
    jax.vmap(
      lambda key, A: rewiring.rewired(key, A, steps, kind=kind, cap=CAP).A,
      (0, None),
    )
  )
  draws = 600
  keys = jax.random.split(jax.random.key(1), draws)
  sizes = []
  # Of 34 and 30 swaps alone reach one graph: a path must be turned, pairs of
  # single and mutual edges exchanged.
  for seed in (1, 2, 30, 34):
    A = random_graph(seed, 4, 0.5)
    possible = same_class(A, kind)
    seen = collections.Counter(g.tobytes() for g in np.asarray(draw(keys, A)))
    assert set(seen) <= set(possible)
    expected = draws / len(possible)
    chi2 = sum((seen[g] - expected) ** 2 / expected for g in possible)
    # Five standard deviations above the mean of chi squared.
    freedom = len(possible) - 1
    assert chi2 <= freedom + 5 * np.sqrt(2 * freedom)
    sizes.append(len(possible))
  assert max(sizes) >= 4
  # Only a reversal turns a ring round: no swap is legal.
  ring = np.zeros((4, 4), bool)
  ring[[0, 1, 2], [1, 2, 0]] = True
  turned = np.asarray(draw(keys, ring))[:, 1, 0].mean()
  assert abs(turned - 0.5) < 5 * 0.5 / np.sqrt(draws)


def test_without_a_legal_move_nothing_changes():
  star = np.zeros((SIZE, SIZE), bool)
  star[0, 1:6] = True
  for kind in ('degree', 'degree_mutual'):
    assert (
      np.asarray(motifs.rewire(jax.random.key(0), star, kind)) == star
    ).all()
    empty = np.zeros_like(star)
    assert not motifs.rewire(jax.random.key(0), empty, kind).any()
  result = motifs.null_census(jax.random.key(0), star, 'degree', 4, 64)
  assert result.degenerate.all()
  assert np.isnan(result.z).all()
  assert (result.std == 0).all()
  assert result.observed[0] == 10
  assert (result.p_emp == 1).all()


def test_graph_of_the_null_has_standard_normal_z(random_graph):
  # 200 graphs of the null, each beside 32 replicas of its own.
  A = random_graph(3, SIZE, 0.2)
  first, second = jax.random.split(jax.random.key(2))

  def rewired(key, graph):
    return rewiring.rewired(key, graph, 1536, kind='degree_mutual', cap=CAP).A

  graphs = jax.jit(jax.vmap(rewired, (0, None)))(
    jax.random.split(first, 200), A
  )
  keys = jax.random.split(second, (32, 200))
  replicas = jax.jit(jax.vmap(jax.vmap(rewired), (0, None)))(keys, graphs)
  observed = motifs.count_graphs(graphs).astype(float)
  counts = motifs.count_graphs(replicas.reshape(-1, SIZE, SIZE))
  result = motifs.compare(observed, counts.reshape(32, 200, 13).astype(float))
  common = np.flatnonzero(result.mean.mean(axis=0) > 20)
  assert len(common) >= 6
  z = result.z[:, common]
  assert (np.abs(z.mean(axis=0)) < 0.2).all()
  assert ((z.std(axis=0) > 0.8) & (z.std(axis=0) < 1.2)).all()
  # Ranks of 33 exchangeable values.
  assert 0.45 < result.p_emp[:, common].mean() < 0.6


def test_comparison_by_hand():
  samples = np.array([[1.0, 5, 2], [2.0, 5, 4], [3.0, 5, 6], [2.0, 5, 8]])
  result = motifs.compare(np.array([4.0, 5, 5]), samples)
  np.testing.assert_allclose(result.mean, [2, 5, 5])
  np.testing.assert_allclose(result.std, [np.sqrt(2 / 3), 0, np.sqrt(20 / 3)])
  assert result.degenerate.tolist() == [False, True, False]
  np.testing.assert_allclose(result.z, [2 / np.sqrt(2 / 3), np.nan, 0])
  np.testing.assert_allclose(result.p_emp, [1 / 5, 1, 3 / 5])
  np.testing.assert_allclose(result.p_low, [1, 1, 3 / 5])
  np.testing.assert_allclose(result.profile, [1, np.nan, 0])


def test_a_planted_ring_tiling_stands_out():
  A, _ = motifs.tile(jax.random.key(0), '030C', num_nodes=SIZE, copies=36)
  result = motifs.null_census(jax.random.key(1), A, 'degree_mutual', 20)
  ring = motifs.motif_index('030C')
  assert result.z[ring] > 3
  assert result.p_emp[ring] == 1 / 21
  assert 0 < result.acceptance <= 1
  np.testing.assert_allclose(np.nansum(result.profile**2), 1)
  again = motifs.null_census(jax.random.key(1), A, 'degree_mutual', 20)
  assert (again.mean == result.mean).all()


def test_any_statistic_and_replicas_by_number(random_graph, monkeypatch):
  A = random_graph(4, SIZE, 0.2)
  key = jax.random.key(3)

  def trace(graphs):
    cubes = jnp.einsum('bij,bjk,bki->b', *[graphs.astype(jnp.float32)] * 3)
    return np.asarray(cubes)

  whole = nulls.null_statistic(key, A, trace, 'er', 10)
  # Chunks of 3 graphs draw the same replicas.
  monkeypatch.setattr(nulls, '_CHAIN_BYTES', 3 * SIZE * SIZE)
  parts = nulls.null_statistic(key, A, trace, 'er', 10)
  np.testing.assert_allclose(whole.mean, parts.mean)
  np.testing.assert_allclose(whole.std, parts.std)
  assert whole.observed == np.trace(np.linalg.matrix_power(A.astype(int), 3))


def test_bad_arguments_are_named(random_graph):
  A, key = random_graph(0, 5, 0.5), jax.random.key(0)
  with pytest.raises(ValueError, match=r"'swap'.*degree_mutual"):
    motifs.rewire(key, A, 'swap')
  with pytest.raises(ValueError, match='n_swaps=-1'):
    motifs.rewire(key, A, 'degree', -1)
  with pytest.raises(ValueError, match=r'\(2, 3\)'):
    motifs.rewire(key, np.zeros((2, 3)))
  with pytest.raises(ValueError, match='replicas=1'):
    motifs.null_census(key, A, replicas=1)
