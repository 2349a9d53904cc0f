"""Generators: what they promise holds for the graphs that they return."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxlab import motifs
from jaxlab.motifs import generate, targets

SIZE = 24
KEY = jax.random.key(0)


def check_placements(A, placements, *, exact=True):
  A, seen = np.asarray(A), np.zeros(np.shape(A), int)
  for motif, nodes in zip(*(np.asarray(x) for x in placements), strict=True):
    induced, wanted = A[np.ix_(nodes, nodes)], motifs.adjacency(int(motif))
    assert (induced == wanted).all() if exact else (induced >= wanted).all()
    seen[np.ix_(nodes, nodes)] += 1 - np.eye(3, dtype=int)
  assert seen.max() <= 1
  assert not A.diagonal().any()


def test_tile_reaches_edges_and_shares():
  q = motifs.layer_shares([0.2, 0.3, 0.5])
  A, placements = motifs.tile(KEY, q, num_nodes=SIZE, num_edges=180)
  check_placements(A, placements)
  assert int(A.sum()) == 180
  counts = np.bincount(placements.motif, minlength=13)
  # Whole copies, and a few more or less of them to reach all edges.
  ideal = 180 * q / (q @ [len(m.edges) for m in motifs.MOTIFS])
  assert np.abs(counts - ideal).max() < 1.5
  other, _ = motifs.tile(jax.random.key(1), q, num_nodes=SIZE, num_edges=180)
  assert (np.asarray(other) != np.asarray(A)).any()


def test_tile_one_motif():
  A, placements = motifs.tile(KEY, '021C', num_nodes=SIZE, copies=4)
  check_placements(A, placements)
  assert int(A.sum()) == 8
  assert len(placements.motif) == 4


def test_first_triple_is_uniform():
  drawn = [
    tuple(
      sorted(
        np.asarray(motifs.tile(k, '300', num_nodes=5, copies=1)[1].nodes)[0]
      )
    )
    for k in jax.random.split(KEY, 100)
  ]
  _, counts = np.unique(drawn, axis=0, return_counts=True)
  assert len(counts) == 10
  assert stats.chisquare(counts).pvalue > 1e-4


def test_more_than_fits_is_refused():
  # Five nodes have ten dyads, but no three triples without a common one.
  with pytest.raises(motifs.InfeasibleTarget, match=r'placed [12] of 3 copies'):
    motifs.tile(KEY, '030C', num_nodes=5, copies=3)
  with pytest.raises(motifs.InfeasibleTarget, match=r'num_edges=9 .*021C.*8'):
    motifs.tile(KEY, '021C', num_nodes=SIZE, num_edges=9)
  with pytest.raises(ValueError, match=r'999X.*021D.*300'):
    motifs.tile(KEY, '999X', num_nodes=SIZE, copies=4)
  with pytest.raises(ValueError, match='one of them'):
    motifs.tile(KEY, '300', num_nodes=SIZE)


def test_restarts_find_the_affine_plane():
  # Nine nodes: twelve triples cover every dyad once.
  A, placements = motifs.tile(KEY, '030C', num_nodes=9, copies=12)
  check_placements(A, placements)
  assert int(A.sum()) == 36


def test_largest_packings():
  # Known packing numbers D(N, 3, 2).
  known = {3: 1, 4: 1, 5: 2, 6: 4, 7: 7, 8: 8, 9: 12, 10: 13, 11: 17, 12: 20}
  assert {n: targets.most_triples(n) for n in known} == known


def test_copies_with_edges_are_the_nearest():
  rng = np.random.default_rng(0)
  size = np.array([len(m.edges) for m in motifs.MOTIFS])
  for _ in range(30):
    q = np.zeros(13)
    chosen = rng.choice(13, 2, replace=False)
    q[chosen] = (share := rng.random()), 1 - share
    edges = int(rng.integers(20, 60))
    a, b = size[chosen]
    pairs = [
      (x, (edges - a * x) // b)
      for x in range(edges // a + 1)
      if (edges - a * x) % b == 0
    ]
    if not pairs:
      with pytest.raises(motifs.InfeasibleTarget, match='no sum'):
        generate.copies_with_edges(q, edges)
      continue
    ideal = edges * q[chosen] / (q @ size)
    best = min(((np.array(p) - ideal) ** 2).sum() for p in pairs)
    found = generate.copies_with_edges(q, edges)
    assert found @ size == edges
    # Only numbers near the ideal are looked at.
    assert ((found[chosen] - ideal) ** 2).sum() <= best + 1e-9 or best > 4


@pytest.mark.parametrize(
  ('asked', 'kind', 'named'),
  [
    ({'num_nodes': 5, 'num_edges': 21}, motifs.InfeasibleTarget, '21.*20'),
    ({'num_nodes': 2}, ValueError, 'at least 3'),
    ({'num_edges': -1}, ValueError, 'negative'),
    ({'q': [0.1] * 13}, ValueError, r'sum to 1\.3'),
    ({'q': [1.2, -0.2, *[0] * 11]}, ValueError, 'negative'),
    ({'q': [np.nan] * 13}, ValueError, 'nan'),
    ({'q': [1.0]}, ValueError, r'\(1,\)'),
  ],
)
def test_bad_targets_are_named(asked, kind, named):
  with pytest.raises(kind, match=named):
    motifs.check_target(**asked)
  assert motifs.check_target(5, 20, [1, *[0] * 12])


@pytest.mark.parametrize('moves', ['degree', 'edges'])
def test_anneal_keeps_degrees_and_counts_right(random_graph, moves):
  A = random_graph(0, SIZE, 0.15)
  target = motifs.census(np.asarray(motifs.rewire(KEY, A, 'degree')))
  found = motifs.anneal(
    KEY, A, target, moves=moves, n_iter=4096, tolerance=0.02
  )
  B = np.asarray(found.A)
  assert (motifs.census(B) == np.asarray(found.census)).all()
  right = np.abs(found.census - target).sum() / target.sum()
  np.testing.assert_allclose(found.error, right, rtol=1e-5)
  assert float(found.error) < 0.05
  assert int(found.moves) % 512 == 0
  assert B.sum() == A.sum()
  kept = [(B.sum(axis) == A.sum(axis)).all() for axis in (0, 1)]
  assert kept == [moves == 'degree'] * 2
  assert not B.diagonal().any()
  # Already there: no move is made.
  still = motifs.anneal(KEY, A, motifs.census(A), moves=moves, n_iter=4096)
  assert (int(still.moves), float(still.error)) == (0, 0)
  assert (np.asarray(still.A) == A).all()


def test_anneal_chains_are_mapped(random_graph):
  A = random_graph(0, SIZE, 0.15)
  target = motifs.census(A) * np.where(np.arange(13) == 5, 2.0, 1.0)
  keys = jax.random.split(KEY, 3)
  run = jax.vmap(lambda k: motifs.anneal(k, A, target, n_iter=2048))(keys)
  for graph, counts in zip(
    np.asarray(run.A), np.asarray(run.census), strict=True
  ):
    assert (motifs.census(graph) == counts).all()
    assert counts[5] > 1.5 * motifs.census(A)[5]
  assert len({graph.tobytes() for graph in np.asarray(run.A)}) == 3
  with pytest.raises(ValueError, match="moves='swap'"):
    motifs.anneal(KEY, A, target, moves='swap')
  with pytest.raises(ValueError, match=r'\(3,\)'):
    motifs.anneal(KEY, A, [1, 2, 3])


def test_soft_meets_its_target():
  graph, _ = motifs.tile(
    KEY, motifs.layer_shares([0, 0, 1]), num_nodes=SIZE, num_edges=120
  )
  target = motifs.census(np.asarray(graph))
  degrees = graph.sum(0), graph.sum(1)
  fit = motifs.soft(KEY, target, num_nodes=SIZE, num_edges=120, degrees=degrees)
  assert int(fit.repaired.A.sum()) == 120
  assert float(fit.repaired.error) < 0.05
  assert float(fit.losses[-1]) < 0.1 * float(fit.losses[0])
  np.testing.assert_allclose(fit.P.sum(), 120, rtol=0.1)
  assert np.abs(fit.expected - target).sum() < 0.2 * target.sum()
  correlation = np.corrcoef(fit.P.sum(0), degrees[0])[0, 1]
  assert correlation > 0.5


def test_drawn_edges_have_their_probabilities():
  logits = jnp.asarray(np.random.default_rng(0).normal(size=(6, 6)))
  draw = jax.vmap(lambda k: generate.draw_edges(k, logits, 10))
  graphs = np.asarray(draw(jax.random.split(KEY, 800)))
  assert (graphs.sum((1, 2)) == 10).all()
  assert not graphs[:, range(6), range(6)].any()
  off = ~np.eye(6, dtype=bool)
  order = stats.spearmanr(graphs.mean(0)[off], np.asarray(logits)[off])
  assert order.statistic > 0.95


def test_blocks():
  A, placements = motifs.blocks(KEY, '030C', num_blocks=8, coupling=0.1)
  assert A.shape == (SIZE, SIZE)
  check_placements(A, placements)
  between = int(A.sum()) - 24
  assert 20 < between < 85  # 504 pairs at 0.1
  alone, _ = motifs.blocks(KEY, '030C', num_blocks=8)
  assert motifs.census(np.asarray(alone))[6] == 8
  with pytest.raises(ValueError, match='coupling=2'):
    motifs.blocks(KEY, '030C', num_blocks=8, coupling=2.0)
  with pytest.raises(ValueError, match='num_blocks=0'):
    motifs.blocks(KEY, '030C', num_blocks=0)


@pytest.fixture(scope='module')
def tiled():
  q = motifs.layer_shares([0.2, 0.3, 0.5])
  return motifs.tile(KEY, q, num_nodes=SIZE, num_edges=180)


def test_weight_laws(tiled):
  A, placements = tiled
  edge = np.asarray(A).T  # W[j, i] acts from i to j
  values = np.arange(1.0, 181)
  drawn = {
    law: np.asarray(motifs.weights(KEY, A, law, gain=1.5, **options))
    for law, options in {
      'gaussian': {},
      'lognormal': {'sigma': 0.3},
      'dale': {'inhibitory': 0.25},
      'copied': {'source': values},
      'loop_sign': {'placements': placements, 's3': -1},
    }.items()
  }
  for law, W in drawn.items():
    assert ((W != 0) == edge).all(), law
    if law != 'copied':
      size = np.sqrt((W**2).sum() / 180 * 180 / SIZE)
      np.testing.assert_allclose(size, 1.5, rtol=0.2, err_msg=law)
  assert (drawn['lognormal'][edge] > 0).all()
  assert sorted(drawn['copied'][edge]) == values.tolist()
  negative = (drawn['dale'] < 0).any(axis=0)
  assert negative.sum() == 6
  assert not (drawn['dale'][:, negative] > 0).any()


@pytest.mark.parametrize(('s2', 's3'), [(1, -1), (0, -1), (1, 0)])
def test_loop_signs_hold_in_every_placement(tiled, s2, s3):
  A, placements = tiled
  W = np.asarray(
    motifs.weights(KEY, A, 'loop_sign', placements=placements, s2=s2, s3=s3)
  )
  if (s2, s3) == (1, -1):
    # Three positive pairs leave the two rings of a clique one common sign.
    assert (np.asarray(placements.motif) == 12).any()
  products = {2: [], 3: []}
  for nodes in np.asarray(placements.nodes):
    V = W[np.ix_(nodes, nodes)]
    products[2] += [V[a, b] * V[b, a] for a, b in ((0, 1), (0, 2), (1, 2))]
    products[3] += [V[0, 1] * V[1, 2] * V[2, 0], V[0, 2] * V[2, 1] * V[1, 0]]
  for length, wanted in ((2, s2), (3, s3)):
    signs = {np.sign(p) for p in products[length] if p}
    assert signs == ({wanted} if wanted else {-1, 1})


def test_signs_that_cannot_be():
  A, placements = motifs.tile(KEY, '300', num_nodes=SIZE, copies=2)
  law = {'law': 'loop_sign', 'placements': placements}
  with pytest.raises(ValueError, match=r'300.*s2=-1.*s3=1'):
    motifs.weights(KEY, A, **law, s2=-1, s3=1)
  with pytest.raises(ValueError, match='no placements'):
    motifs.weights(KEY, A, 'loop_sign', s2=1)
  with pytest.raises(ValueError, match=r"'normal'.*gaussian"):
    motifs.weights(KEY, A, 'normal')
  with pytest.raises(ValueError, match='3 values for 12 edges'):
    motifs.weights(KEY, A, 'copied', source=np.ones(3))


def radius(W):
  return np.abs(np.linalg.eigvals(np.asarray(W, float))).max()


@pytest.mark.parametrize('kind', ['er', 'degree'])
def test_control_keeps_values_and_radius(tiled, kind):
  W = motifs.weights(KEY, tiled[0])
  V = np.asarray(motifs.control(jax.random.key(5), W, kind))
  W = np.asarray(W)
  np.testing.assert_allclose(radius(V), radius(W), rtol=1e-4)
  assert ((V != 0) != (W != 0)).any()
  factor = np.abs(V).max() / np.abs(W).max()
  np.testing.assert_allclose(
    np.sort(V[V != 0]), factor * np.sort(W[W != 0]), rtol=1e-4
  )
  if kind == 'degree':
    for axis in (0, 1):
      assert ((V != 0).sum(axis) == (W != 0).sum(axis)).all()


def test_rescale():
  W = jnp.asarray(np.random.default_rng(0).normal(size=(SIZE, SIZE)))
  np.testing.assert_allclose(radius(motifs.rescale(W, 1.7)), 1.7, rtol=1e-4)
  nilpotent = jnp.tril(W, -1)
  assert (motifs.rescale(nilpotent, 1.7) == nilpotent).all()
