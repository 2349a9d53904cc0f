"""Fisher factors against full Jacobians, and their compressed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from jaxlab.errors import UserError
from jaxlab.quantization import fisher, sketch

D, HIDDEN, C, N = 6, 5, 4, 3
RNG = np.random.default_rng(0)
FIRST, SECOND = RNG.normal(size=(D, HIDDEN)), RNG.normal(size=(HIDDEN, C))
Z = RNG.normal(size=(N, D))


@pytest.fixture
def rng():
  return np.random.default_rng(1)


def _rest(z):
  return jnp.tanh(z.reshape(len(z), D) @ FIRST) @ SECOND


def _exact(z):
  """F of one sample from the Jacobian, in NumPy."""
  hidden = np.tanh(z @ FIRST)
  J = (FIRST * (1 - hidden**2) @ SECOND).T
  p = special.softmax(hidden @ SECOND)
  return J.T @ (np.diag(p) - np.outer(p, p)) @ J


def test_exact_factors_equal_the_jacobian(rng):
  with jax.enable_x64(True):
    z = jnp.asarray(Z).reshape(N, 2, 3)
    G = jax.jit(lambda z: fisher.fisher_factors(_rest, z, jax.random.key(0)))(z)
    assert G.shape == (N, C, 2, 3)
    gram = np.einsum('nri,nrj->nij', *[G.reshape(N, C, D)] * 2)
    expected = np.array([_exact(z) for z in Z])
    np.testing.assert_allclose(gram, expected, atol=1e-6 * expected.max())
    assert all(np.linalg.matrix_rank(F, tol=1e-9) == C - 1 for F in gram)
    delta = rng.normal(size=(N, D))
    np.testing.assert_allclose(
      fisher.quadratic_form(G, delta.reshape(z.shape)),
      0.5 * np.einsum('ni,nij,nj->n', delta, expected, delta),
      rtol=1e-9,
    )
    np.testing.assert_allclose(
      sketch.diagonal_factor(G).reshape(N, D),
      np.diagonal(expected, axis1=1, axis2=2),
      rtol=1e-9,
    )


def test_probes_are_unbiased():
  draws, probes = 3000, 2

  @jax.jit
  @jax.vmap
  def grams(key):
    G = fisher.fisher_factors(
      _rest,
      jnp.asarray(Z, jnp.float32),
      key,
      probes=probes,
      exact_max_classes=2,
    )
    assert G.shape == (N, probes, D)
    return jnp.einsum('nri,nrj->nij', G, G)

  seen = np.asarray(grams(jax.random.split(jax.random.key(1), draws)))
  expected = np.array([_exact(z) for z in Z])
  error = seen.std(axis=0) / draws**0.5
  assert (np.abs(seen.mean(axis=0) - expected) <= 4 * error + 1e-6).all()
  assert error.max() < 0.2 * expected.max()


def test_kl_divergence(rng):
  with jax.enable_x64(True):
    a, b = rng.normal(size=(2, 5, C))
    found = fisher.kl_divergence(jnp.asarray(a), jnp.asarray(b))
    p, q = special.softmax(a, axis=1), special.softmax(b, axis=1)
    np.testing.assert_allclose(found, stats.entropy(p, q, axis=1), rtol=1e-9)
    sure = jnp.asarray([[0.0, 800.0]])
    np.testing.assert_allclose(fisher.kl_divergence(sure, -sure), [800.0])


def test_the_path_predicts_an_affine_rest_to_third_order(rng):
  with jax.enable_x64(True):
    z, spread = jnp.asarray(Z), jnp.asarray(rng.normal(size=(D, C)))
    delta = jnp.asarray(rng.normal(size=(N, D)))

    @jax.jit
    def errors(size):
      G0, G1 = (
        fisher.fisher_factors(lambda z: z @ spread, y, jax.random.key(0))
        for y in (z, z + size * delta)
      )
      true = fisher.kl_divergence(z @ spread, (z + size * delta) @ spread)
      path = fisher.path_fisher(G0, G1)
      return [
        jnp.abs(fisher.quadratic_form(G, size * delta) / true - 1)
        for G in (G0, path)
      ]

    for small, large in zip(errors(1e-2), errors(1e-1), strict=True):
      assert small.max() < large.max()
    at_point, path = errors(1e-2)
    assert path.max() < 0.05 * at_point.max()


def test_wrong_heads_are_named():
  z, key = jnp.ones((2, 3)), jax.random.key(0)
  with pytest.raises(UserError, match="choose loss='mse'"):
    fisher.fisher_factors(lambda z: z[:, :1], z, key)
  with pytest.raises(UserError, match='logits'):
    fisher.fisher_factors(lambda z: z[:, 0], z, key)


def test_fidelity_is_spearmans(rng):
  a, b = rng.normal(size=(2, 30))
  np.testing.assert_allclose(
    fisher.fidelity(a, a + b), stats.spearmanr(a, a + b)[0], rtol=1e-5
  )


@pytest.mark.parametrize(('channels', 'chunk'), [(7, None), (7, 5), (30, 8)])
def test_the_sketch_keeps_its_promise(channels, chunk, rng):
  rank, rows = 4, rng.normal(size=(43, channels))
  rows *= 0.6 ** np.arange(channels)
  with jax.enable_x64(True):
    found = jnp.zeros((rank, channels), jnp.float64)
    for part in (rows[:20], rows[20:]):
      found = sketch.sketch_update(found, part, chunk=chunk)
  found = np.asarray(found)
  missed = np.linalg.eigvalsh(rows.T @ rows - found.T @ found)
  assert missed.min() > -1e-9
  energy = np.linalg.svd(rows, compute_uv=False) ** 2
  bound = min(energy[k:].sum() / (rank + 1 - k) for k in range(rank))
  assert missed.max() <= bound * (1 + 1e-9)
  assert missed.max() < 0.5 * energy[0]


def test_channel_structure(rng):
  G = rng.normal(size=(5, 3, 2, 2, 4)) * np.array([3, 1, 1, 0.1])
  G[0, :, 0, 0] *= 300
  with jax.enable_x64(True):
    full = sketch.channel_factor(jnp.asarray(G), 6)
    flat = G.reshape(-1, 4)
    mean = flat.T @ flat / (5 * 2 * 2)
    np.testing.assert_allclose(full.rows.T @ full.rows, mean, rtol=1e-9)
    np.testing.assert_allclose(full.delta, 0, atol=1e-9)
    cut = sketch.channel_factor(jnp.asarray(G), 2)
    diagonal = np.diag(cut.rows.T @ cut.rows) + cut.delta
    np.testing.assert_allclose(diagonal, np.diag(mean), rtol=1e-9)
    energy = np.sum(G**2, axis=(1, 4))
    weight = np.minimum(0.5 + 0.5 * energy / energy.mean(), 10)
    assert weight.max() == 10 and weight.min() > 0.5
    np.testing.assert_allclose(full.weight, weight, rtol=1e-9)
    delta = rng.normal(size=(5, 2, 2, 4))
    np.testing.assert_allclose(
      sketch.channel_quadratic(full, jnp.asarray(delta), full.weight),
      0.5 * np.einsum('nab,nabi,ij,nabj->n', weight, delta, mean, delta),
      rtol=1e-9,
    )
    np.testing.assert_allclose(
      sketch.diagonal_quadratic(G[:, 0] ** 2, delta),
      0.5 * np.sum((G[:, 0] * delta) ** 2, axis=(1, 2, 3)),
      rtol=1e-9,
    )
    nothing = sketch.channel_factor(jnp.zeros((2, 3, 4)), 2)
    assert (nothing.weight == 1).all() and not nothing.rows.any()
