"""Regimes of simulated motifs against the theory of their cycles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

from jaxlab.errors import UserError
from jaxlab.motifs import catalog, regimes, stability
from jaxlab.motifs.models import MotifParams

NAMES = [motif.name for motif in catalog.MOTIFS]
NUM_DRAWS = 8
# Ring weights on both sides of the Hopf bifurcation at -2.
RING = np.array([[0, 0, 1.0], [1, 0, 0], [0, 1, 0]])
RING_WEIGHTS = np.array([-1.9, -1.98, -1.995, -2.05, -2.2, -4.0])
# A chaotic network of three units with self-loops; Yang and Yuan (2005).
CHAOTIC = np.array([[2, -1.2, 0], [1.9, 1.71, 1.15], [-4.75, 0, 1.1]])


@pytest.fixture(scope='module')
def atlas():
  """Weights `[N, 3, 3]` of motifs and rings, and the regimes they have."""
  masks = np.stack([np.asarray(catalog.adjacency(name)).T for name in NAMES])
  draws = np.random.default_rng(5).normal(0, 3, (13, NUM_DRAWS, 3, 3))
  drawn = (draws * masks[:, None]).reshape(-1, 3, 3)
  rings = RING_WEIGHTS[:, None, None] * RING
  W = np.concatenate([drawn, rings, CHAOTIC[None]])
  config = regimes.RegimeConfig(n_starts=4)
  with jax.enable_x64(True):
    keys = jax.random.split(jax.random.key(0), len(W))
    found = jax.jit(
      jax.vmap(
        lambda key, W: regimes.classify_regime(key, MotifParams(W), config)
      )
    )(keys, jnp.asarray(W))
  found = jax.tree.map(np.asarray, found)
  motifs = jax.tree.map(lambda x: x[:-1], found)
  return W[:-1], motifs, jax.tree.map(lambda x: x[-1], found)


def by_layer(atlas, layer):
  W, found, _ = atlas
  return found.regime[np.asarray(stability.layer_effective(W)) == layer]


def test_feed_forward_motifs_have_one_fixed_point(atlas):
  assert np.all(by_layer(atlas, 1) == regimes.FIXED)


def test_pairwise_feedback_is_multistable_and_never_oscillates(atlas):
  shares = np.asarray(regimes.regime_shares(by_layer(atlas, 2)))
  assert shares[regimes.MULTISTABLE] > 0.2
  assert shares[regimes.FIXED] + shares[regimes.MULTISTABLE] == 1


def test_loops_can_oscillate(atlas):
  W, found, _ = atlas
  drawn = found.regime[: 13 * NUM_DRAWS].reshape(13, NUM_DRAWS)
  shares = np.asarray(regimes.regime_shares(drawn))
  loops = [NAMES.index(name) for name in ('030C', '120C', '210', '300')]
  assert shares[loops, regimes.OSCILLATING].mean() > 0.05
  assert not np.any(found.regime == regimes.CHAOTIC)
  monotone = np.asarray(stability.is_monotone(W))
  assert not np.any(found.regime[monotone] == regimes.OSCILLATING)


def test_ring_turns_at_weight_minus_2_with_period_2_pi_over_root_3(atlas):
  _, found, _ = atlas
  rings = found.regime[-len(RING_WEIGHTS) :]
  # Slow decay right below the bifurcation is no oscillation.
  expected = np.where(RING_WEIGHTS < -2, regimes.OSCILLATING, regimes.FIXED)
  np.testing.assert_array_equal(rings, expected)
  onset = found.period[-len(RING_WEIGHTS) + 3]
  np.testing.assert_allclose(onset, 2 * np.pi / 3**0.5, rtol=0.02)
  cycles = found.kind == regimes.OSCILLATING
  assert np.max(np.abs(found.exponent[cycles])) < 1e-2


def test_fixed_points_solve_the_equation_and_attract(atlas):
  W, found, _ = atlas
  rests = found.kind == regimes.FIXED
  index, _ = np.nonzero(rests)
  x = found.points[rests]
  fed = np.einsum('kij,kj->ki', W[index], np.tanh(x))
  np.testing.assert_allclose(x, fed, atol=1e-9)
  for k in range(0, len(x), 37):
    J = W[index[k]] * (1 - np.tanh(x[k]) ** 2) - np.eye(3)
    expected = np.linalg.eigvals(J)
    assert expected.real.max() < 0
    np.testing.assert_allclose(
      np.sort(found.eigenvalues[rests][k].real),
      np.sort(expected.real),
      atol=1e-6,
    )
  np.testing.assert_array_equal(found.num_fixed, found.first.sum(axis=1))


def test_period_and_amplitude_against_an_adaptive_integrator(atlas):
  W, found, _ = atlas
  for at in (-1, -2):
    rise = lambda _, x: x[0]  # noqa: E731, by symmetry the mean is 0
    rise.direction = 1
    run = scipy.integrate.solve_ivp(
      lambda _, x, W=W[at]: -x + W @ np.tanh(x),
      (0, 200),
      [0.1, -0.2, 0.3],
      events=rise,
      rtol=1e-9,
      atol=1e-9,
      max_step=0.2,
    )
    period = np.diff(run.t_events[0])[-1]
    swing = run.y[:, run.t > 150]
    amplitude = (swing.max(axis=1) - swing.min(axis=1)).max() / 2
    np.testing.assert_allclose(found.period[at], period, rtol=1e-4)
    np.testing.assert_allclose(found.amplitude[at], amplitude, rtol=1e-2)


def test_chaos_needs_a_network_that_is_no_motif(atlas):
  _, _, chaotic = atlas
  assert regimes.REGIMES[chaotic.regime] == 'chaotic'
  at = chaotic.kind == regimes.CHAOTIC
  assert np.all(chaotic.exponent[at] > 3 * chaotic.standard_error[at])
  assert not np.any(chaotic.kind == regimes.FIXED)


def test_steps_that_are_too_long():
  params = MotifParams(jnp.zeros((3, 3)), 0.0, jnp.array([1.0, 1.0, 0.05]))
  with pytest.raises(UserError, match='smaller dt'):
    regimes.classify_regime(jax.random.key(0), params)
