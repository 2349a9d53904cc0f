"""Robustness and flexibility against toy learners with known answers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from jaxlab.errors import UserError
from jaxlab.motifs import flexibility, perturbations, rnn, scores, tasks, wiring

N = 10
MODEL = rnn.MotifRNN(num_units=N, num_outputs=3)
APPLY = perturbations.network_apply(MODEL)
KEY = jax.random.key(0)


@pytest.fixture(scope='module')
def setting():
  """Variables and trials of an untrained network."""

  @jax.jit
  def build(key):
    trials = tasks.make('go_no_go', dt_ms=100).sample(key, 24)
    A = wiring.random_adjacency(key, N, 30)
    return MODEL.init(key, trials.inputs, adjacency=A), trials

  return build(KEY)


def disturb(perturb, setting, strength):
  variables, trials = setting
  return jax.jit(perturb)(jax.random.key(3), strength, variables, trials)


def recurrent(variables):
  return np.asarray(variables['params']['recurrent'])


def test_lesions_are_of_the_stated_size_and_nested(setting):
  W = recurrent(setting[0])
  cut = [
    recurrent(disturb(perturbations.edge_lesions, setting, s).variables)
    for s in (0.0, 0.2, 0.5, 1.0)
  ]
  assert [np.sum(w != 0) for w in cut] == [30, 24, 15, 0]
  assert np.all((cut[2] == 0) | (cut[1] == W))
  found = disturb(perturbations.unit_lesions, setting, 0.3).variables
  dead = ~np.asarray(found['params']['readout']['kernel']).any(axis=1)
  assert dead.sum() == 3
  expected = W * ~dead[None, :]
  np.testing.assert_array_equal(recurrent(found), expected)


def test_block_lesions_take_all_edges_of_a_copy(setting):
  nodes = np.array([[0, 1, 2], [2, 3, 4], [5, 6, 7], [7, 8, 9]])
  W = recurrent(setting[0])
  perturb = perturbations.block_lesions(nodes)
  found = recurrent(disturb(perturb, setting, 0.5).variables)
  lost = [np.all(found[np.ix_(t, t)] == 0) for t in nodes]
  assert sum(lost) >= 2
  kept = np.ones((N, N), bool)
  for triple, gone in zip(nodes, lost, strict=True):
    if gone:
      kept[np.ix_(triple, triple)] = False
  np.testing.assert_array_equal(found, W * kept)
  everything = recurrent(disturb(perturb, setting, 1.0).variables)
  assert np.sum(everything != 0) < np.sum(W != 0)


def test_noise_has_the_stated_size(setting):
  variables, trials = setting
  found = disturb(perturbations.input_noise, setting, 0.5).trials
  noise = np.asarray(found.inputs - trials.inputs)
  np.testing.assert_allclose(noise.std(), 0.5, rtol=0.1)
  found = disturb(perturbations.weight_noise, setting, 0.1).variables
  change = recurrent(found) - recurrent(variables)
  mask = np.asarray(variables['graph']['mask'])
  assert np.all(change[mask == 0] == 0)
  size = np.sqrt(np.mean(recurrent(variables)[mask > 0] ** 2))
  np.testing.assert_allclose(change[mask > 0].std(), 0.1 * size, rtol=0.4)
  assert disturb(perturbations.recurrent_noise, setting, 0.3)[2] == 0.3
  found = disturb(perturbations.input_dropout, setting, 0.25).trials
  shown = np.asarray(trials.inputs) != 0
  dropped = np.mean(np.asarray(found.inputs)[shown] == 0)
  assert abs(dropped - 0.25) < 0.07


def test_ascent_beats_noise_of_the_same_size(setting):
  variables, trials = setting
  perturb = perturbations.adversarial_inputs(APPLY)
  found = disturb(perturb, setting, 0.1).trials
  change = np.asarray(found.inputs - trials.inputs)
  assert np.max(np.abs(change)) <= 0.1 + 1e-6

  @jax.jit
  def loss(inputs):
    return tasks.task_loss(MODEL.apply(variables, inputs).outputs, trials)

  sign = jnp.sign(jax.random.normal(KEY, change.shape))
  random = loss(trials.inputs + 0.1 * sign)
  assert loss(found.inputs) - loss(trials.inputs) > 3 * abs(
    random - loss(trials.inputs)
  )


def test_areas_of_known_curves():
  strengths = np.array([0.0, 1.0, 3.0])
  curve = np.array([0.8, 0.4, 0.2])
  # (0.6 * 1 + 0.3 * 2) / 3 = 0.4.
  np.testing.assert_allclose(scores.relative_area(strengths, curve), 0.4)
  np.testing.assert_allclose(
    scores.relative_area(strengths, curve, curve[0]), 0.5
  )


def test_curve_of_a_threshold_is_a_normal_tail():
  # The answer is right while noise does not exceed the input.
  trials = tasks.Trials(
    jnp.ones((1, 4000, 1)), jnp.ones((1, 4000), int), jnp.ones((1, 4000))
  )
  strengths = np.array([0.0, 0.5, 1.0, 2.0])

  def accuracy(outputs, trials):
    return jnp.mean(outputs[..., 0] > 0)

  def apply(variables, inputs, noise, key):
    return inputs + noise * jax.random.normal(key, inputs.shape)

  expected = scipy.stats.norm.cdf(1 / np.maximum(strengths, 1e-9))
  both = {
    name: (getattr(perturbations, name), strengths)
    for name in ('input_noise', 'recurrent_noise')
  }
  for perturb, _ in both.values():
    found = scores.robustness_curve(
      apply, accuracy, perturb, KEY, {}, trials, strengths, num_draws=2
    )
    np.testing.assert_allclose(found, expected, atol=0.015)
  clean, areas = scores.robustness_areas(apply, accuracy, both, KEY, {}, trials)
  assert clean == 1
  area = np.trapezoid(expected, strengths) / 2
  np.testing.assert_allclose(areas[:2], area, atol=0.02)
  assert np.all(np.isnan(areas[2:]))
  with pytest.raises(UserError, match='unknown perturbation'):
    scores.robustness_areas(
      apply, accuracy, {'heat': both['input_noise']}, KEY, {}, trials
    )


def test_networks_at_chance_have_no_scores():
  found = scores.make_scores(
    np.array([0.9, 0.4, np.nan]),
    floor=0.6,
    robustness=np.ones((3, 8)),
    dimension=np.arange(3),
  )
  np.testing.assert_array_equal(found.untrained, [False, True, True])
  np.testing.assert_array_equal(found.dimension, [0, np.nan, np.nan])
  np.testing.assert_array_equal(
    np.isnan(found.robustness).all(axis=1), [False, True, True]
  )
  assert np.all(np.isnan(found.reversal))
  with pytest.raises(UserError, match='unknown score'):
    scores.make_scores(1.0, floor=0.5, speed=3)


def test_recovery_from_a_kick():
  kick = jnp.array([1.0, -2.0])
  # 0.5^5 < 0.05 <= 0.5^4.
  halves = scores.recovery_time(lambda x: x / 2, jnp.ones(2), kick, 20)
  assert halves == 5
  for factor in (1.0, 1.1):
    grows = scores.recovery_time(lambda x, f=factor: f * x, kick, kick, 20)
    assert grows == np.inf


def counter(rate):
  """Learning adds `rate` to the skill of a task, and a fifth off the other."""
  return lambda state, key: state + rate


def test_learning_curve_of_a_counter():
  state, curve = flexibility.learning_curve(
    counter(0.04), lambda s: jnp.minimum(s, 1), jnp.zeros(()), KEY, 24
  )
  np.testing.assert_allclose(state, 0.96, rtol=1e-5)
  np.testing.assert_allclose(curve, 0.04 * np.arange(25), rtol=1e-5)
  assert flexibility.steps_to_criterion(curve, 0.5) == 13
  assert flexibility.steps_to_criterion(curve, 0.99) == np.inf
  assert flexibility.steps_to_criterion(curve[::4], 0.5, every=4) == 16
  np.testing.assert_allclose(
    flexibility.adaptation_accuracy(curve), [0.04, 0.2, 0.8], rtol=1e-5
  )
  with pytest.raises(UserError, match='multiple of every'):
    flexibility.learning_curve(
      counter(1.0), lambda s: s, jnp.zeros(()), KEY, 5, every=2
    )
  with pytest.raises(UserError, match='train for longer'):
    flexibility.adaptation_accuracy(curve[:20])


def test_transfer_over_a_sequence():
  # Each update adds 0.1 to its own task, 0.02 to the next, -0.01 to the last.
  def update(index):
    gain = jnp.zeros(3).at[index].set(0.1)
    gain = gain.at[(index + 1) % 3].add(0.02).at[(index + 2) % 3].add(-0.01)
    return lambda state, key: state + gain

  updates = [update(index) for index in range(3)]
  evaluates = [lambda s, i=index: s[i] for index in range(3)]
  state, found = flexibility.sequence_transfer(
    updates, evaluates, jnp.zeros(3), KEY, 4
  )
  np.testing.assert_allclose(found.after[0], [0.4, 0.08, -0.04], atol=1e-6)
  np.testing.assert_allclose(found.before, 0)
  # Tasks 1 and 2 before their turn: 0.08, and -0.04 + 0.08.
  np.testing.assert_allclose(found.forward, (0.08 + 0.04) / 2, atol=1e-6)
  # Task 0 then changes by -0.04 + 0.08, task 1 by -0.04.
  np.testing.assert_allclose(found.backward, 0.0, atol=1e-6)
  np.testing.assert_allclose(
    flexibility.multi_task_accuracy(evaluates, state),
    np.mean(state),
    rtol=1e-6,
  )
  with pytest.raises(UserError, match='two tasks'):
    flexibility.sequence_transfer(updates[:1], evaluates, state, KEY, 2)


def test_attractors_are_counted_once():
  centers = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, -1.0]])
  states = centers[np.arange(9) % 3] + 1e-4 * np.arange(9)[:, None]
  assert flexibility.attractor_count(jnp.asarray(states)) == 3
  states[0] = np.nan
  assert flexibility.attractor_count(jnp.asarray(states)) == 3


def test_comparison_is_paired_and_corrected():
  rng = np.random.default_rng(1)
  control = rng.normal(size=12)
  noise = 0.1 * rng.normal(size=(3, 12))
  arms = control + np.array([[0.5], [0.0], [-0.3]]) + noise
  arms[2, 4] = np.nan  # an untrained network
  found = scores.compare_arms(KEY, arms, control, num_resamples=999)
  gaps = arms - control
  np.testing.assert_allclose(
    found.difference, np.nanmean(gaps, axis=1), atol=1e-6
  )
  assert found.num_pairs.tolist() == [12, 12, 11]
  for m in range(3):
    seen = gaps[m][~np.isnan(gaps[m])]
    low, high = scipy.stats.bootstrap(
      (seen,), np.mean, rng=rng
    ).confidence_interval
    np.testing.assert_allclose(found.low[m], low, atol=0.03)
    np.testing.assert_allclose(found.high[m], high, atol=0.03)
    exact = scipy.stats.wilcoxon(seen).pvalue
    assert (found.p[m] < 0.05) == (exact < 0.05)
  order = np.argsort(np.asarray(found.p))
  p = np.asarray(found.p)[order]
  expected = np.maximum.accumulate(p * np.array([3, 2, 1]))
  np.testing.assert_allclose(
    np.asarray(found.p_holm)[order], np.minimum(expected, 1), rtol=1e-6
  )
  with pytest.raises(UserError, match='two seeds'):
    scores.compare_arms(KEY, arms[:, :1], control[:1])
