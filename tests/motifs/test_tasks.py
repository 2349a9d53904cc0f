"""Tasks: timing, cues, targets, and the distributions of NeuroGym."""

import functools

import chex
import jax
import numpy as np
import pytest

from jaxlab.errors import UserError
from jaxlab.motifs import tasks, tasks_series
from jaxlab.motifs.tasks_decision import DESIGNS

KEY = jax.random.key(7)
BATCH = 200


def sample(name, batch=BATCH, key=KEY, **options):
  task = tasks.make(name, **options)
  draw = jax.jit(task.sample, static_argnums=1)
  return task, jax.tree.map(np.asarray, draw(key, batch))


def digits():
  rng = np.random.default_rng(0)
  return {'images': rng.random((40, 8, 8)), 'labels': np.arange(40) % 10}


@pytest.mark.parametrize(
  ('period', 'dt', 'steps'),
  [(100, 20, 5), (250, 20, 13), (110, 20, 6), (30, 20, 2), (9, 20, 0)],
)
def test_period_steps_round_half_up(period, dt, steps):
  assert tasks.period_steps(period, dt) == steps


@functools.cache
def short(name):
  """Noiseless trials with 6 steps of fixation, 13 of stimulus, 3 of delay."""
  periods = {'fixation': 110, 'stimulus': 250, 'delay': 60, 'response': 100}
  return sample(name, periods_ms=periods, noise=0)


@pytest.mark.parametrize('name', DESIGNS)
def test_cue_stimulus_and_choice(name):
  task, trials = short(name)
  asked = task.num_steps - 5
  cue, stimuli = trials.inputs[..., 0], trials.inputs[..., 1:]
  np.testing.assert_array_equal(cue[:asked], 1)
  np.testing.assert_array_equal(cue[asked:], 0)
  np.testing.assert_array_equal(trials.targets[:asked], 0)
  choice = trials.targets[asked]
  np.testing.assert_array_equal(trials.targets[asked:], np.tile(choice, (5, 1)))
  assert set(choice) == set(range(1, task.num_outputs))
  np.testing.assert_array_equal(trials.mask, 1)
  assert task.steps['stimulus'] == 13
  shown = np.zeros(task.num_steps, bool)
  start = 0
  for period, steps in task.steps.items():
    shown[start : start + steps] = period in ('stimulus', 'test', 'reversal')
    start += steps
  np.testing.assert_array_equal(stimuli[~shown], 0)
  assert np.all(np.any(stimuli[shown], axis=-1))


def test_choices_do_not_depend_on_the_step():
  last = [sample('go_no_go', dt_ms=dt)[1].targets[-1] for dt in (10, 25)]
  np.testing.assert_array_equal(*last)


def test_fixation_of_no_time_keeps_its_channel():
  _, trials = sample('go_no_go', periods_ms={'fixation': 0}, dt_ms=100)
  assert trials.inputs.shape == (15, BATCH, 3)
  np.testing.assert_array_equal(trials.inputs[:10, :, 0], 1)


def test_drawn_periods_end_in_padding():
  task, trials = sample(
    'context_dependent_integration',
    periods_ms={'delay': (100, 500)},
    max_steps=90,
    noise=0,
  )
  length = trials.mask.sum(axis=0)
  assert trials.mask.shape[0] == task.num_steps == 90
  # 15 + 38 + 5 steps, and a delay of 5 to 25.
  assert length.min() >= 63
  assert length.max() <= 83
  assert len(np.unique(length)) > 15
  padding = trials.mask == 0
  assert not np.any(trials.targets[padding])
  assert not np.any(trials.inputs[padding])
  np.testing.assert_array_equal((trials.targets > 0).sum(axis=0), 5)


def test_noise_scales_with_the_step():
  for dt in (5, 20):
    _, trials = sample('perceptual_decision', dt_ms=dt, noise=2.0)
    steps = slice(round(100 / dt), round(2100 / dt))
    stimulus = trials.inputs[steps, :, 1:]
    spread = np.std(stimulus - stimulus.mean(axis=0))
    np.testing.assert_allclose(spread, 2 / dt**0.5, rtol=0.02)


def test_context_names_the_modality():
  for name, at in (
    ('context_dependent_integration', 10),
    ('rule_reversal', 30),
  ):
    _, trials = short(name)
    shown = trials.inputs[at]
    rule = shown[:, 6] > shown[:, 5]
    best = np.where(rule, shown[:, 3:5].argmax(1), shown[:, 1:3].argmax(1))
    np.testing.assert_array_equal(trials.targets[-1], 1 + best)
    assert 0.3 < rule.mean() < 0.7
  before = trials.inputs[10, :, 5:]
  np.testing.assert_array_equal(before, 1 - shown[:, 5:])


def test_memory_of_samples_and_values():
  _, trials = short('delayed_match_to_sample')
  same = np.isclose(trials.inputs[10, :, 1:], trials.inputs[30, :, 1:]).all(1)
  np.testing.assert_array_equal(trials.targets[-1], np.where(same, 1, 2))
  _, trials = short('parametric_working_memory')
  first, second = trials.inputs[10, :, 1], trials.inputs[30, :, 1]
  np.testing.assert_array_equal(
    trials.targets[-1], np.where(first > second, 1, 2)
  )


def test_anti_response_is_opposite():
  _, trials = short('delayed_anti_response')
  shown = trials.inputs[10, :, 1:].argmax(axis=1)
  np.testing.assert_array_equal(trials.targets[-1] - 1, (shown + 16) % 32)


def test_intervals_are_produced_and_reproduced():
  task, trials = sample('ready_set_go', dt_ms=10)
  start = np.argmin(trials.inputs[..., 0], axis=0)
  ready = np.argmax(trials.inputs[..., 1], axis=0)
  pulse = np.argmax(trials.inputs[..., 2], axis=0)
  measured = pulse - ready - task.steps['ready']
  asked = np.argmax(trials.targets, axis=0) - start
  assert np.max(np.abs(asked - measured)) <= 1
  assert np.ptp(measured) > 40
  task, trials = sample('interval_production', dt_ms=50)
  which = trials.inputs[12, :, 2] > 0
  asked = np.argmax(trials.targets, 0) - np.argmin(trials.inputs[..., 0], 0)
  np.testing.assert_array_equal(asked, np.where(which, 30, 16))


def test_moments_are_judged_by_the_first_go():
  task, trials = sample('interval_production', dt_ms=50, batch=4)
  asked = np.argmax(trials.targets, axis=0)
  start = np.argmin(trials.inputs[..., 0], axis=0)
  error = np.array([0, 100, 2, -1000])  # in time, never, in time, at once
  when = np.maximum(asked + error, start)
  goes = np.arange(task.num_steps)[:, None] >= when
  outputs = jax.nn.one_hot(goes.astype(int), 2)
  assert task.accuracy(outputs, trials) == 0.5


def test_copy():
  _, trials = sample('copy', periods_ms={'delay': (100, 400)})
  for b in range(5):
    shown = trials.inputs[:10, b, 1:]
    np.testing.assert_array_equal(shown.sum(axis=1), 1)
    asked = trials.targets[:, b]
    np.testing.assert_array_equal(asked[asked > 0], 1 + shown.argmax(axis=1))
    assert trials.inputs[np.argmax(asked > 0), b, 0] == 0


def test_adding():
  _, trials = sample('adding')
  values, marks = trials.inputs[..., 0], trials.inputs[..., 1]
  np.testing.assert_array_equal(marks[:25].sum(axis=0), 1)
  np.testing.assert_array_equal(marks[25:].sum(axis=0), 1)
  total = (values * marks).sum(axis=0)
  np.testing.assert_allclose(trials.targets[-1, :, 0], total, rtol=1e-6)
  np.testing.assert_array_equal(trials.mask.sum(axis=0), 1)


def test_flip_flop_holds_the_last_pulse():
  _, trials = sample('flip_flop', batch=3)
  held = np.zeros((3, 3))
  for pulse, target in zip(trials.inputs, trials.targets, strict=True):
    held = np.where(pulse != 0, pulse, held)
    np.testing.assert_array_equal(target, held)
  rate = np.mean(trials.inputs != 0)
  assert abs(rate - 0.1) < 0.04


@pytest.mark.parametrize('name', ['mackey_glass', 'lorenz'])
def test_forecasts_are_the_series_ahead(name):
  task, trials = sample(name, batch=16, horizon=3)
  np.testing.assert_array_equal(trials.targets[:-3], trials.inputs[3:])
  assert np.max(np.abs(trials.inputs.std(axis=(0, 1)) - 1)) < 0.15
  perfect = task.accuracy(trials.targets, trials)
  np.testing.assert_allclose(perfect, 1, atol=1e-6)
  mean = np.broadcast_to(trials.targets.mean((0, 1)), trials.targets.shape)
  np.testing.assert_allclose(task.accuracy(mean, trials), 0, atol=1e-4)


def test_mackey_glass_follows_its_equation():
  # A delay of 0.1 is one substep: the equation is then nearly an ODE, whose
  # fixed point 1 has x^10 = 1.
  series = tasks_series.mackey_glass_series(KEY, 4, 20, delay=0.1)
  np.testing.assert_allclose(series, 1, atol=1e-4)


def test_digits_by_rows_and_pixels():
  data = digits()
  task, rows = sample('sequential_digits', **data)
  assert rows.inputs.shape == (8, BATCH, 8)
  assert task.num_outputs == 11
  lookup = {
    im.astype(np.float32).tobytes(): n for n, im in enumerate(data['images'])
  }
  for b in range(20):
    n = lookup[np.ascontiguousarray(rows.inputs[:, b]).tobytes()]
    assert rows.targets[-1, b] == 1 + data['labels'][n]
  assert np.all(rows.mask.sum(axis=0) == rows.mask[-1])
  _, pixels = sample('sequential_digits', order='pixel', **data)
  np.testing.assert_array_equal(
    pixels.inputs[..., 0], rows.inputs.transpose(0, 2, 1).reshape(64, BATCH)
  )


def test_sampling_maps_over_keys():
  task = tasks.make('copy')
  keys = jax.random.split(KEY, 3)
  alone = jax.jit(task.sample, static_argnums=1)
  many = jax.jit(jax.vmap(lambda key: task.sample(key, 8)))(keys)
  for index, key in enumerate(keys):
    one = jax.tree.map(lambda x, at=index: x[at], many)
    chex.assert_trees_all_close(one, alone(key, 8))


def test_loss_counts_masked_steps_only():
  task, trials = sample('sequential_digits', **digits())
  outputs = np.zeros((8, BATCH, 11), np.float32)
  np.testing.assert_allclose(
    tasks.task_loss(outputs, trials), np.log(11), rtol=1e-6
  )
  outputs[-1] = 50 * np.eye(11)[trials.targets[-1]]
  assert tasks.task_loss(outputs, trials) < 1e-6
  assert task.accuracy(outputs, trials) == 1


@pytest.mark.parametrize(
  ('name', 'options', 'word'),
  [
    ('nothing', {}, 'unknown task'),
    ('copy', {'periods_ms': {'rest': 10}}, 'unknown period'),
    ('copy', {'periods_ms': {'delay': -1}}, '0 ms or longer'),
    ('copy', {'periods_ms': {'response': 300}}, 'one number of steps'),
    ('go_no_go', {'dt_ms': 0}, 'dt_ms must be positive'),
    ('go_no_go', {'max_steps': 10}, 'may need 75 steps'),
    ('go_no_go', {'periods_ms': {'response': 5}}, 'has no step'),
    ('go_no_go', {'periods_ms': {'delay': (9, 5)}}, 'swap them'),
    ('go_no_go', {'gain': 3}, 'no option'),
    ('ready_set_go', {'gain': 3}, 'period response longer'),
    ('sequential_digits', {}, 'needs images='),
    ('lorenz', {'horizon': 0}, 'horizon'),
    ('lorenz', {'noise': -1}, 'noise must be'),
  ],
)
def test_bad_requests(name, options, word):
  with pytest.raises(UserError, match=word):
    tasks.make(name, **options)


@pytest.mark.parametrize(
  ('name', 'peer', 'columns'),
  [
    ('perceptual_decision', 'PerceptualDecisionMaking-v0', slice(1, 3)),
    ('multisensory_integration', 'MultiSensoryIntegration-v0', slice(1, 5)),
    ('delayed_match_to_sample', 'DelayMatchSample-v0', slice(1, 3)),
    ('parametric_working_memory', 'DelayComparison-v0', slice(1, 2)),
  ],
)
def test_distribution_of_neurogym(name, peer, columns):
  neurogym = pytest.importorskip('neurogym')
  env = neurogym.make(peer, dt=50).unwrapped
  env.reset(seed=0)
  rows = []
  for _ in range(1500):
    env.new_trial()
    rows.append((env.gt[-1], env.ob[: len(env.gt)]))
  _, trials = sample(name, batch=1500, dt_ms=50)
  inputs = np.stack([ob for _, ob in rows], axis=1)
  assert inputs.shape == trials.inputs.shape
  for choice in (1, 2):
    theirs = inputs[:, [gt == choice for gt, _ in rows], columns]
    ours = trials.inputs[:, trials.targets[-1] == choice, columns]
    np.testing.assert_allclose(ours.mean(1), theirs.mean(1), atol=0.1)
    np.testing.assert_allclose(ours.std(1), theirs.std(1), atol=0.05)
