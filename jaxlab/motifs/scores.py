"""Robustness and flexibility of trained networks, and their comparison."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab import stats
from jaxlab.errors import UserError
from jaxlab.motifs.models import Step, as_float
from jaxlab.motifs.perturbations import Apply, Perturbation, Variables
from jaxlab.motifs.tasks_types import Trials

ROBUSTNESS = (
  'input_noise',
  'recurrent_noise',
  'weight_noise',
  'unit_lesions',
  'edge_lesions',
  'block_lesions',
  'input_dropout',
  'adversarial_inputs',
)
Accuracy = Callable[[jax.Array, Trials], jax.Array]


class Scores(NamedTuple):
  """What a network can stand and what it can learn; nan where not measured.

  Leading axes are networks.

  Attributes:
    clean: `[...]` accuracy without a perturbation.
    untrained: `[...]` bool; the clean accuracy is below the floor, and all
      other scores are nan.
    robustness: `[..., 8]` area under accuracy relative to clean, in the order
      of `ROBUSTNESS`.
    recovery_time: `[...]` steps until a kick of the state is forgotten.
    steps_to_criterion: `[...]` updates on a new task until it is solved.
    adaptation: `[..., 3]` accuracy on a new task after 1, 5 and 20 updates.
    forward_transfer: `[...]` over a sequence of tasks.
    backward_transfer: `[...]` over a sequence of tasks.
    multi_task: `[...]` mean accuracy over tasks that are known at once.
    reversal: `[...]` accuracy where the rule turns over inside the trial.
    num_attractors: `[...]` attractors that the network uses.
    dimension: `[...]` participation ratio of its activity.
  """

  clean: jax.Array
  untrained: jax.Array
  robustness: ArrayLike = jnp.nan
  recovery_time: ArrayLike = jnp.nan
  steps_to_criterion: ArrayLike = jnp.nan
  adaptation: ArrayLike = jnp.nan
  forward_transfer: ArrayLike = jnp.nan
  backward_transfer: ArrayLike = jnp.nan
  multi_task: ArrayLike = jnp.nan
  reversal: ArrayLike = jnp.nan
  num_attractors: ArrayLike = jnp.nan
  dimension: ArrayLike = jnp.nan


def make_scores(
  clean: ArrayLike, *, floor: ArrayLike, **measured: ArrayLike
) -> Scores:
  """Scores of networks that have learned something.

  Args:
    clean: `[...]` accuracy without a perturbation.
    floor: accuracy below which a network counts as untrained.
    **measured: other fields of `Scores`; axes of their own come last.

  Returns:
    The scores, nan where a network is untrained.

  Raises:
    UserError: for a name that is not a score.
  """
  unknown = sorted(set(measured) - set(Scores._fields[2:]))
  if unknown:
    raise UserError(
      f'unknown score {unknown[0]!r}; choose from '
      f'{", ".join(Scores._fields[2:])}'
    )
  clean = jnp.asarray(clean)
  untrained = ~(clean >= floor)

  def only_trained(value):
    value = as_float(value)
    extra = (1,) * max(value.ndim - clean.ndim, 0)
    return jnp.where(untrained.reshape(clean.shape + extra), jnp.nan, value)

  missing = jnp.full(clean.shape, jnp.nan)
  fields = dict.fromkeys(Scores._fields[2:], missing)
  fields |= {name: only_trained(value) for name, value in measured.items()}
  return Scores(clean=clean, untrained=untrained, **fields)


def robustness_curve(
  apply: Apply,
  accuracy: Accuracy,
  perturb: Perturbation,
  key: jax.Array,
  variables: Variables,
  trials: Trials,
  strengths: ArrayLike,
  *,
  num_draws: int = 1,
) -> jax.Array:
  """Accuracy against the strength of a perturbation.

  Args:
    apply: the network.
    accuracy: function of outputs and trials.
    perturb: the perturbation.
    key: PRNG key; the same draws for all strengths.
    variables: of the network.
    trials: held-out trials.
    strengths: `[S]` strengths, 0 for the clean accuracy.
    num_draws: perturbations that are averaged, static.

  Returns:
    `[S]` accuracies.
  """

  def evaluate(key, strength):
    perturb_key, noise_key = jax.random.split(key)
    disturbed = perturb(perturb_key, strength, variables, trials)
    outputs = apply(
      disturbed.variables,
      disturbed.trials.inputs,
      jnp.asarray(disturbed.recurrent_noise, trials.inputs.dtype),
      noise_key,
    )
    return accuracy(outputs, trials)

  keys = jax.random.split(key, num_draws)
  dtype = trials.inputs.dtype
  return jax.lax.map(
    lambda s: jnp.mean(jax.vmap(evaluate, (0, None))(keys, s)),
    jnp.asarray(strengths, dtype),
  )


def relative_area(
  strengths: ArrayLike, curve: ArrayLike, clean: ArrayLike = 1.0
) -> jax.Array:
  """Mean height of a curve over its strengths, relative to the clean accuracy.

  Args:
    strengths: `[S]` increasing.
    curve: `[..., S]` accuracies.
    clean: `[...]` what the curve is divided by; 1 leaves the area as it is.

  Returns:
    `[...]` area by the trapezoidal rule over the range of strengths.
  """
  strengths = as_float(strengths)
  area = jnp.trapezoid(as_float(curve), strengths, axis=-1)
  return area / (strengths[-1] - strengths[0]) / jnp.asarray(clean)


def robustness_areas(
  apply: Apply,
  accuracy: Accuracy,
  perturbations: Mapping[str, tuple[Perturbation, ArrayLike]],
  key: jax.Array,
  variables: Variables,
  trials: Trials,
  *,
  num_draws: int = 1,
) -> tuple[jax.Array, jax.Array]:
  """Clean accuracy, and the relative area under each perturbation's curve.

  Args:
    apply: the network.
    accuracy: function of outputs and trials.
    perturbations: by name in `ROBUSTNESS`, the perturbation and its strengths
      `[S]`.
    key: PRNG key; give all networks the same one.
    variables: of the network.
    trials: held-out trials.
    num_draws: perturbations that are averaged, static.

  Returns:
    The clean accuracy, and `[8]` areas, nan for what is not in
    `perturbations`.

  Raises:
    UserError: for a name that is not in `ROBUSTNESS`.
  """
  unknown = sorted(set(perturbations) - set(ROBUSTNESS))
  if unknown:
    raise UserError(
      f'unknown perturbation {unknown[0]!r}; choose from '
      f'{", ".join(ROBUSTNESS)}'
    )
  noiseless = jnp.zeros((), trials.inputs.dtype)
  clean = accuracy(apply(variables, trials.inputs, noiseless, key), trials)
  areas = []
  for index, name in enumerate(ROBUSTNESS):
    if name not in perturbations:
      areas.append(jnp.full_like(clean, jnp.nan))
      continue
    perturb, strengths = perturbations[name]
    curve = robustness_curve(
      apply,
      accuracy,
      perturb,
      jax.random.fold_in(key, index),
      variables,
      trials,
      strengths,
      num_draws=num_draws,
    )
    areas.append(relative_area(strengths, curve, clean))
  return clean, jnp.stack(areas)


def recovery_time(
  step: Step,
  state: jax.Array,
  kick: jax.Array,
  num_steps: int,
  *,
  share: ArrayLike = 0.05,
) -> jax.Array:
  """Steps until a kick is forgotten.

  Args:
    step: the network, `[N] -> [N]`.
    state: `[N]` state that is kicked.
    kick: `[N]` what is added to it.
    num_steps: steps that are watched, static.
    share: of the kick's length that still counts as remembered.

  Returns:
    The first step from which on the kicked trajectory stays that close to the
    other one, up to `num_steps`; inf where it does not.
  """
  size = jnp.linalg.norm(kick)

  def advance(pair, _):
    pair = jax.vmap(step)(pair)
    return pair, jnp.linalg.norm(pair[0] - pair[1])

  pair = jnp.stack([state, state + kick])
  _, distance = jax.lax.scan(advance, pair, length=num_steps)
  distance = jnp.concatenate([size[None], distance])
  apart = ~(distance <= share * size)
  last = jnp.max(jnp.where(apart, jnp.arange(num_steps + 1), -1))
  return jnp.where(last < num_steps, last + 1, jnp.inf)


class Comparison(NamedTuple):
  """Arms against a control, paired by seed.

  Attributes:
    difference: `[M]` mean of arm - control.
    low: `[M]` lower end of its bootstrap interval.
    high: `[M]` upper end.
    p: `[M]` p-value of a paired permutation test.
    p_holm: `[M]` the same, corrected for the M comparisons.
    num_pairs: `[M]` int32 seeds for which both were measured.
  """

  difference: jax.Array
  low: jax.Array
  high: jax.Array
  p: jax.Array
  p_holm: jax.Array
  num_pairs: jax.Array


def _mean_gap(arm: jax.Array, control: jax.Array) -> jax.Array:
  return jnp.nanmean(arm - control, axis=0)


def compare_arms(
  key: jax.Array,
  arms: ArrayLike,
  controls: ArrayLike,
  *,
  level: float = 0.95,
  num_resamples: int = 2000,
) -> Comparison:
  """Differences of a score to the control, over seeds.

  Args:
    key: PRNG key.
    arms: `[M, S]` score of each arm and seed; nan is left out with its pair.
    controls: `[M, S]` or `[S]` score of the control with the same seed.
    level: confidence level of the intervals.
    num_resamples: of the bootstrap and of the permutation test, static.

  Returns:
    The comparison; Holm's correction is over the M arms.

  Raises:
    UserError: if there are fewer than two seeds.
  """
  arms = as_float(arms)
  controls = jnp.broadcast_to(as_float(controls), arms.shape)
  if arms.ndim != 2 or arms.shape[1] < 2:
    raise UserError(
      f'arms must be [arms, seeds] with two seeds or more, got {arms.shape}'
    )
  interval_key, test_key = jax.random.split(key)

  def one(arm, control):
    interval = stats.paired_bootstrap_interval(
      interval_key, arm, control, _mean_gap, level, num_resamples
    )
    test = stats.permutation_test(
      test_key,
      arm,
      control,
      _mean_gap,
      paired=True,
      num_permutations=num_resamples,
    )
    return _mean_gap(arm, control), interval.low, interval.high, test.p_value

  difference, low, high, p = jax.vmap(one)(arms, controls)
  pairs = jnp.sum(~jnp.isnan(arms - controls), axis=1, dtype=jnp.int32)
  return Comparison(difference, low, high, p, stats.holm(p), pairs)
