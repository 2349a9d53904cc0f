"""Picks and errors beside catsim and mirt, where they are installed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.adaptive_testing import models, simulate, state, types
from jaxlab.adaptive_testing.selectors import selector

N, E, T = 60, 600, 10
RNG = np.random.default_rng(0)
A, B = RNG.lognormal(0, 0.4, N), RNG.normal(size=N)
THETA = RNG.normal(size=E)


@pytest.fixture(scope='module')
def errors():
  """Squared errors of tests by Fisher information with EAP estimates."""
  trace = simulate.run_cat(
    *(selector('mfi'), (), types.item_bank(A, B)),
    true_theta=THETA,
    test_length=T,
    key=jax.random.key(0),
    estimator='eap',
  )
  return (np.asarray(trace.theta[-1]) - THETA) ** 2


def test_picks_are_those_of_catsim():
  pytest.importorskip('catsim', reason='catsim of the bench extra is absent')
  from catsim import irt
  from catsim.item_bank import ItemBank
  from catsim.selection import MaxInfoSelector

  guessing = RNG.beta(5, 17, N)
  table = np.column_stack([A, B, guessing, np.ones(N)])
  bank = types.item_bank(A, B, guessing)
  theta = np.linspace(-2.5, 2.5, 40)
  np.testing.assert_allclose(
    jax.jit(models.item_information)(bank, jnp.asarray(theta)),
    [irt.inf_hpc(t, table) for t in theta],
    rtol=1e-4,
    atol=1e-6,
  )
  asked = np.array([RNG.permutation(N)[:5] for _ in theta])
  cat = jax.jit(state.recorded_state)(bank, asked, np.zeros(asked.shape))
  cat = cat._replace(theta=jnp.asarray(theta))
  ask = jax.jit(simulate.choose_items, static_argnums=0)
  found, _ = ask(selector('mfi'), (), bank, cat, jax.random.key(0))
  wanted = [
    MaxInfoSelector().select(
      item_bank=ItemBank(table),
      administered_items=items.tolist(),
      est_theta=t,
    )
    for items, t in zip(asked, theta, strict=True)
  ]
  assert found.tolist() == wanted
  assert len(set(wanted)) > 5


def test_errors_are_those_of_mirt(errors):
  pytest.importorskip('mirt', reason='mirt of the bench extra is absent')
  from mirt.cat import CATEngine
  from mirt.models import TwoParameterLogistic

  model = TwoParameterLogistic(n_items=N)
  model.set_parameters(discrimination=A, difficulty=B)
  model._is_fitted = True  # the engine takes no model that was not fitted
  engine = CATEngine(
    model,
    'MFI',
    stopping_rule='SE',
    se_threshold=1e-6,
    scoring_method='EAP',
    n_quadpts=61,
    max_items=T,
    seed=1,
  )
  results = engine.run_batch_simulation(THETA)
  theirs = (np.array([result.theta for result in results]) - THETA) ** 2
  gap, spread = errors.mean() - theirs.mean(), errors - theirs
  assert abs(gap) < 3 * spread.std() / np.sqrt(E)
  assert errors.mean() < 0.3


@pytest.mark.slow
def test_errors_are_those_of_catsim(errors):
  pytest.importorskip('catsim', reason='catsim of the bench extra is absent')
  from catsim.estimation import NumericalSearchEstimator
  from catsim.initialization import FixedPointInitializer
  from catsim.item_bank import ItemBank
  from catsim.selection import MaxInfoSelector
  from catsim.simulation import Simulator
  from catsim.stopping import TestLengthStopper

  count = 40
  table = np.column_stack([A, B, np.zeros(N), np.ones(N)])
  tests = Simulator(
    ItemBank(table),
    THETA[:count],
    FixedPointInitializer(0),
    MaxInfoSelector(),
    NumericalSearchEstimator(),
    TestLengthStopper(max_items=T),
  )
  tests.simulate()
  theirs = np.array([path[-1] for path in tests.estimations]) - THETA[:count]
  # Maximum likelihood has no prior, which matters after ten items.
  trace = simulate.run_cat(
    *(selector('mfi'), (), types.item_bank(A, B)),
    true_theta=THETA,
    test_length=T,
    key=jax.random.key(0),
    estimator='mle',
  )
  ours = (np.asarray(trace.theta[-1]) - THETA) ** 2
  margin = 3 * np.hypot(
    ours.std() / np.sqrt(E), (theirs**2).std() / np.sqrt(count)
  )
  assert abs(ours.mean() - np.mean(theirs**2)) < margin
