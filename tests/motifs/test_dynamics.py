"""Stability, integrators and fixed points against scipy and closed forms."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

from jaxlab.errors import UserError
from jaxlab.motifs import catalog, dynamics
from jaxlab.motifs.dynamics import MotifParams

NAMES = [motif.name for motif in catalog.MOTIFS]
ADJACENCY = np.stack([np.asarray(catalog.adjacency(name)) for name in NAMES])


@pytest.fixture(autouse=True)
def double_precision():
  with jax.enable_x64(True):
    yield


def random_weights(num, scale=3.0, seed=0):
  """`[num, 3, 3]` normal weights on the 13 motifs in turn."""
  rng = np.random.default_rng(seed)
  masks = np.swapaxes(ADJACENCY, 1, 2)[np.arange(num) % 13]
  return scale * rng.standard_normal((num, 3, 3)) * masks


class OriginStabilityTest(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True)
  def test_leading_eigenvalue(self):
    with jax.enable_x64(True):
      W = random_weights(260)
      tau = np.exp(np.random.default_rng(1).uniform(-1.5, 1.5, (260, 3)))
      found = self.variant(dynamics.origin_stability)(W, tau)
    values = np.linalg.eigvals((W - np.eye(3)) / tau[..., None])
    leading = values.real.max(axis=-1)
    np.testing.assert_allclose(found.max_real, leading, atol=1e-9)
    np.testing.assert_allclose(2 * found.c2, np.trace(W @ W, 0, 1, 2))
    np.testing.assert_allclose(
      3 * found.c3, np.trace(W @ W @ W, 0, 1, 2), atol=1e-9
    )
    for value, state, omega in zip(
      values, found.state, found.omega, strict=True
    ):
      first = value[value.real > value.real.max() - 1e-6]
      turns = np.abs(first.imag).max()
      assert abs(omega - turns) < 1e-6
      unstable = 2 if turns > 1e-6 else 1
      assert state == (0 if value.real.max() < 0 else unstable)


def test_margins_decide_stability_for_equal_time_constants():
  W = random_weights(2600, scale=2.0)
  found = jax.jit(dynamics.origin_stability)(W)
  static, hopf = dynamics.margins(found.c2, found.c3)
  np.testing.assert_array_equal((static > 0) & (hopf > 0), found.state == 0)
  assert 0.3 < np.mean(found.state == 0) < 0.9


def test_both_lines_and_beyond():
  # c2 = 0, c3 = -8 is the ring at weight -2: it starts to turn at sqrt(3).
  ring = -2 * np.array([[0, 0, 1.0], [1, 0, 0], [0, 1, 0]])
  at_onset = dynamics.origin_stability(ring)
  assert abs(at_onset.max_real) < 1e-12
  np.testing.assert_allclose(at_onset.omega, 3**0.5, rtol=1e-12)
  states = [
    dynamics.STATES[int(dynamics.origin_stability(s * ring).state)]
    for s in (0.99, 1.01, -0.49, -0.51)
  ]
  assert states == ['stable', 'hopf-unstable', 'stable', 'static-unstable']
  # Beyond the Hopf line alone, but with two real unstable eigenvalues.
  far = np.array([[0, 7.0, 0], [1, 0, -7.1 / 7], [1, 0, 0]])
  found = dynamics.origin_stability(far)
  np.testing.assert_allclose([found.c2, found.c3], [7, -7.1])
  assert dynamics.STATES[int(found.state)] == 'static-unstable'


def test_layers_follow_from_the_cycles_and_time_constants():
  layers = dynamics.layer_effective(ADJACENCY)
  assert dict(zip(NAMES, layers.tolist(), strict=True)) == {
    **dict.fromkeys(('021D', '021U', '021C', '030T'), 1),
    **dict.fromkeys(('111D', '111U', '120D', '120U', '201'), 2),
    **dict.fromkeys(('030C', '120C', '210', '300'), 3),
  }
  uneven = dynamics.layer_effective(ADJACENCY, np.array([1.0, 2.0, 3.0]))
  changed = np.flatnonzero(np.asarray(uneven != layers))
  assert [NAMES[i] for i in changed] == ['201']
  mutual = ADJACENCY[NAMES.index('201')]
  tau = np.ones(3)
  tau[mutual.sum(axis=1).argmax()] = 5.0  # the hub alone differs
  assert dynamics.layer_effective(mutual, tau) == 2


def test_uneven_time_constants_let_201_oscillate():
  # A fast positive and a slow negative loop: unstable, and complex.
  W = np.array([[0, 1.5, -2.0], [1.0, 0, 0], [1.0, 0, 0]])
  tau = np.array([1.0, 0.1, 10.0])
  found = dynamics.origin_stability(W, tau)
  assert dynamics.STATES[int(found.state)] == 'hopf-unstable'
  assert dynamics.STATES[int(dynamics.origin_stability(W).state)] == 'stable'
  assert dynamics.layer_effective(W, tau) == 3


def test_monotone_motifs():
  assert dynamics.is_monotone(np.array([[0, 2.0, 0], [1, 0, 0], [-3, 1, 0]]))
  assert not dynamics.is_monotone(
    np.array([[0, -2.0, 0], [1, 0, 0], [0, 0, 0]])
  )


@pytest.mark.parametrize(
  ('W', 'tau', 'word'),
  [
    (np.eye(3), 1.0, 'diagonal'),
    (np.zeros((3, 3)), 0.0, 'tau'),
    (np.zeros((3, 3)), [1.0, -1.0, 1.0], 'tau'),
    (np.zeros((2, 2)), 1.0, '3 x 3'),
    (np.full((3, 3), np.nan), 1.0, 'nan'),
  ],
)
def test_bad_weights(W, tau, word):
  with pytest.raises(UserError, match=word):
    dynamics.origin_stability(W, tau)


def test_steps_that_are_too_long():
  with pytest.raises(UserError, match=r'dt = 0\.6'):
    dynamics.integrate(
      MotifParams(jnp.zeros((3, 3))), np.zeros(3), dt=0.6, num_steps=2
    )


@pytest.mark.parametrize('activation', ['tanh', 'softplus'])
def test_trajectory_with_inputs(activation):
  rng = np.random.default_rng(3)
  W, b, B = (rng.normal(size=s) / 2 for s in ((3, 3), 3, (3, 2)))
  tau, x0 = np.array([0.5, 1.0, 2.0]), rng.normal(size=3)
  u = np.repeat(rng.normal(size=(4, 2)), 100, axis=0)
  phi = {'tanh': np.tanh, 'softplus': lambda x: np.logaddexp(x, 0)}[activation]
  found = dynamics.integrate(
    MotifParams(*map(jnp.asarray, (W, b, tau, B))),
    x0,
    jnp.asarray(u),
    dt=0.02,
    num_steps=400,
    activation=activation,
  )
  state = x0
  for stage in range(4):  # the input is constant on each
    drive = b + B @ u[100 * stage]
    state = scipy.integrate.solve_ivp(
      lambda _, x, drive=drive: (-x + W @ phi(x) + drive) / tau,
      (0, 2),
      state,
      rtol=1e-10,
      atol=1e-12,
    ).y[:, -1]
    np.testing.assert_allclose(found[100 * (stage + 1)], state, atol=1e-6)


def test_exponential_euler_is_exact_without_weights():
  tau, x0 = jnp.array([0.5, 1.0, 2.0]), np.array([1.0, -2.0, 3.0])
  params = MotifParams(jnp.zeros((3, 3)), jnp.array([0.0, 1.0, 2.0]), tau)
  found = dynamics.integrate(
    params, x0, dt=0.25, num_steps=8, method='exponential_euler'
  )
  decay = np.exp(-2 / np.asarray(tau))
  expected = decay * x0 + (1 - decay) * np.asarray(params.b)
  np.testing.assert_allclose(found[-1], expected, rtol=1e-12)


def test_the_map_alternates_where_the_flow_rests():
  params = MotifParams(jnp.array([[0.0, -2.0], [-2.0, 0.0]]))
  start = np.array([1.0, 1.0])
  run = {
    method: dynamics.integrate(
      params, start, dt=dt, num_steps=400, method=method
    )[-2:]
    for method, dt in (('rk4', 0.05), ('map', 1.0))
  }
  x = scipy.optimize.brentq(lambda x: x - 2 * np.tanh(x), 1, 3)
  np.testing.assert_allclose(run['rk4'][-1], 0, atol=1e-9)
  np.testing.assert_allclose(np.abs(run['map']), x, rtol=1e-9)
  assert np.sign(run['map'][0, 0]) == -np.sign(run['map'][1, 0])


def test_fixed_points_of_a_bistable_pair():
  W = jnp.array([[0.0, 2.0, 0.0], [2.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
  find = jax.jit(lambda key, W: dynamics.fixed_points(key, MotifParams(W), 32))
  found = find(jax.random.key(0), W)
  x = scipy.optimize.brentq(lambda x: x - 2 * np.tanh(x), 1, 3)
  points = np.asarray(found.points)[np.asarray(found.first)]
  points = points[np.argsort(points[:, 0])]
  side = np.array([x, x, np.tanh(x)])
  np.testing.assert_allclose(points, [-side, 0 * side, side], atol=1e-9)
  stable = np.asarray(found.stable)[np.asarray(found.first)]
  assert sorted(stable) == [False, True, True]
  slope = 1 - np.tanh(x) ** 2
  at = int(np.argmax(np.asarray(found.points)[:, 0]))
  np.testing.assert_allclose(
    np.sort(found.eigenvalues[at].real),
    [-1 - 2 * slope, -1, -1 + 2 * slope],
    atol=1e-8,
  )
