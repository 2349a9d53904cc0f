"""The EM algorithm of marginal maximum likelihood; see `calibrate`.

Parameters are `[n, r]`: the logarithm of the slope, the intercept and, in a
model with guessing, the logit of its probability.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.adaptive_testing import models, newton
from jaxlab.adaptive_testing.types import ItemBank

# Bounds of the slope's logarithm, of the intercept and of the logit of c.
_LOW = np.array([np.log(0.01), -30.0, -12.0])
_HIGH = np.array([np.log(20.0), 30.0, 12.0])
_STEPS = 3  # of Newton's method in an M-step
_RIDGE = 1e-6  # on curvatures, for items that nobody answered
_VARIANCE = 0.35  # of a N(0, 1) ability beside that of the logistic curve


class Data(NamedTuple):
  """Responses and a quadrature.

  Attributes:
    right: `[E, n]` 1 for right answers, else 0.
    seen: `[E, n]` 1 for answers, else 0.
    nodes: `[K]` abilities.
    log_weight: `[K]` of their weights, which sum to 1.
  """

  right: jax.Array
  seen: jax.Array
  nodes: jax.Array
  log_weight: jax.Array


class Priors(NamedTuple):
  """Priors of item parameters.

  Attributes:
    a: mean and standard deviation of log a, which is normal; None for none.
    c: parameters of the beta distribution of c; None for a model without c.
  """

  a: tuple[ArrayLike, ArrayLike] | None
  c: tuple[ArrayLike, ArrayLike] | None


class Run(NamedTuple):
  """Where an ascent stands.

  Steps go in threes: two from `params`, then one from where they seem to lead.

  Attributes:
    params: `[n, r]`, where the next step starts.
    first: `[n, r]`, where the last three steps started.
    once: `[n, r]`, what became of that in a step.
    twice: `[n, r]`, what became of it in two.
    reached: `[]` penalised log-likelihood of `once`.
    change: `[]` largest change of a parameter in the last step but the third.
    steps: `[]` int32 so far.
  """

  params: jax.Array
  first: jax.Array
  once: jax.Array
  twice: jax.Array
  reached: jax.Array
  change: jax.Array
  steps: jax.Array


def bank(params: jax.Array) -> ItemBank:
  """Items in the form with intercepts, of slopes `[n, 1]`."""
  log_a, intercept, *logit_c = params.T
  guess = jax.nn.sigmoid(logit_c[0]) if logit_c else jnp.zeros_like(log_a)
  return ItemBank(
    jnp.exp(log_a)[:, None], intercept, guess, jnp.ones_like(guess)
  )


def start(data: Data, priors: Priors) -> jax.Array:
  """`[n, r]` parameters from the shares of right answers."""
  count, solved = jnp.sum(data.seen, axis=0), jnp.sum(data.right, axis=0)
  share = (solved + 0.5) / (count + 1)
  log_a = jnp.full_like(share, 0 if priors.a is None else priors.a[0])
  guess = jnp.zeros_like(share)
  if priors.c is not None:
    alpha, beta = priors.c
    guess += alpha / (alpha + beta)
  knowing = jnp.clip((share - guess) / (1 - guess), 0.02, 0.98)
  intercept = jax.scipy.special.logit(knowing)
  intercept *= jnp.sqrt(1 + _VARIANCE * jnp.exp(2 * log_a))
  columns = [log_a, intercept]
  if priors.c is not None:
    columns.append(jax.scipy.special.logit(guess))
  return jnp.stack(columns, axis=1)


def expect(data: Data, params: jax.Array) -> tuple[jax.Array, jax.Array]:
  """The E-step.

  Returns:
    `[E, K]` posterior weights of the nodes and `[]` log-likelihood.
  """
  wrong, right = models.log_prob(bank(params), data.nodes[:, None])
  joint = data.log_weight + product(data.right, right.T)
  joint += product(data.seen - data.right, wrong.T)
  each = jax.nn.logsumexp(joint, axis=1)
  # The sum is large beside its differences: float32 needs them apart.
  middle = jnp.mean(each)
  total = jnp.sum(each - middle) + middle * len(each)
  return jnp.exp(joint - each[:, None]), total


def scores(
  params: jax.Array, nodes: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """How answers at the nodes move the parameters.

  Returns:
    `[K, n]` p, `[K, n, r]` w and `[K, n]` p (1 - p). The score of an answer y
    is `(y - p) w`, its Fisher information `p (1 - p) w w^T`.
  """
  items, at = bank(params), nodes[:, None]
  z, p = models.logit(items, at), models.prob(items, at)
  lever = models.leverage(items, z)
  columns = [lever * items.a[:, 0] * at, lever, items.c / p]
  w = jnp.stack(columns[: params.shape[1]], axis=-1)
  return p, w, p * (1 - items.c) * jax.nn.sigmoid(-z)


def penalty(priors: Priors, params: jax.Array) -> jax.Array:
  """`[]` negative logarithm of the prior densities of all a and c."""
  total = jnp.zeros((), params.dtype)
  if priors.a is not None:
    mean, sd = priors.a
    log_a = params[:, 0]
    total += jnp.sum(log_a + ((log_a - mean) / sd) ** 2 / 2)
  if priors.c is not None:
    alpha, beta = priors.c
    total -= jnp.sum((alpha - 1) * jax.nn.log_sigmoid(params[:, 2]))
    total -= jnp.sum((beta - 1) * jax.nn.log_sigmoid(-params[:, 2]))
  return total


def penalty_curvature(priors: Priors, params: jax.Array) -> jax.Array:
  """`[n, r]` second derivatives of `penalty`, which are >= 0."""
  curve = jnp.zeros_like(params)
  if priors.a is not None:
    curve = curve.at[:, 0].set(1 / jnp.square(priors.a[1]))
  if priors.c is not None:
    guess = jax.nn.sigmoid(params[:, 2])
    alpha, beta = priors.c
    curve = curve.at[:, 2].set((alpha + beta - 2) * guess * (1 - guess))
  return curve


def ascend(
  data: Data,
  priors: Priors,
  params: jax.Array,
  tolerance: ArrayLike,
  max_iter: ArrayLike,
  *,
  common: bool,
) -> Run:
  """EM steps, every third one from a point that two others foretell.

  Args:
    data: responses.
    priors: of item parameters.
    params: `[n, r]` to start from.
    tolerance: change of a parameter in an EM step that is small enough.
    max_iter: EM steps at most.
    common: whether all items have one slope, which has one prior.
  """
  share = 1 / len(params) if common else 1.0

  # One step a turn: three in a row would take three times as long to compile.
  def turn(run):
    weights, loglik = expect(data, run.params)
    value = loglik - share * penalty(priors, run.params)
    new = maximise(data, priors, run.params, weights, common=common)
    phase = run.steps % 3
    change = jnp.max(jnp.abs(new - run.params))
    leap = _extrapolate(run.first, run.once, new)
    # Not better too where the leap led to what is not a number.
    landed = jnp.where(value >= run.reached, new, run.twice)
    return Run(
      params=_choose(phase, new, leap, landed),
      first=_choose(phase, run.params, run.first, run.first),
      once=_choose(phase, new, run.once, run.once),
      twice=_choose(phase, run.twice, new, run.twice),
      reached=_choose(phase, run.reached, value, run.reached),
      change=_choose(phase, change, change, run.change),
      steps=run.steps + 1,
    )

  far = jnp.full((), jnp.inf, params.dtype)
  steps = jnp.zeros((), jnp.int32)
  run = Run(params, params, params, params, -far, far, steps)
  run = jax.lax.while_loop(
    lambda run: (run.change >= tolerance) & (run.steps < max_iter), turn, run
  )
  # It may have ended before the second step, on a point that is only foretold.
  return run._replace(
    params=_choose((run.steps - 1) % 3, run.params, run.twice, run.params)
  )


def maximise(
  data: Data,
  priors: Priors,
  params: jax.Array,
  weights: jax.Array,
  *,
  common: bool,
) -> jax.Array:
  """The M-step: parameters `[n, r]` for posterior weights `[E, K]`."""
  count = product(weights.T, data.seen)
  solved = product(weights.T, data.right)
  share = 1 / len(params) if common else 1.0

  def parts(params):
    p, w, size = scores(params, data.nodes)
    slope = -jnp.einsum('kn,knr->nr', solved - count * p, w)
    curve = jnp.einsum('kn,knr,kns->nrs', count * size, w, w)
    slope += share * jax.grad(penalty, 1)(priors, params)
    bend = share * penalty_curvature(priors, params) + _RIDGE
    return slope, curve + bend[:, :, None] * jnp.eye(params.shape[1])

  low, high = _box(params)
  if not common:
    return newton.descend(parts, params, iterations=_STEPS, bounds=(low, high))

  def of_intercepts(intercept):
    slope, curve = parts(params.at[:, 1].set(intercept))
    return slope[:, 1], curve[:, 1, 1]

  def of_slope(log_a):
    slope, curve = parts(params.at[:, 0].set(log_a))
    return jnp.sum(slope[:, 0]), jnp.sum(curve[:, 0, 0])

  for column, part in ((1, of_intercepts), (0, of_slope)):
    at = params[:, 1] if column else params[0, 0]
    at = newton.descend(
      part, at, iterations=_STEPS, bounds=(low[column], high[column])
    )
    params = params.at[:, column].set(at)
  return params


def product(left: jax.Array, right: jax.Array) -> jax.Array:
  """Matrix product of full precision, whatever the device prefers."""
  return jnp.matmul(left, right, precision='highest')


def _extrapolate(
  params: jax.Array, once: jax.Array, twice: jax.Array
) -> jax.Array:
  """Where a sequence of three seems to lead (SQUAREM, third scheme)."""
  step = once - params
  bend = twice - once - step
  length = jnp.linalg.norm(step) / jnp.maximum(jnp.linalg.norm(bend), 1e-30)
  # At 1 this is the second of two plain steps.
  length = jnp.maximum(length, 1)
  return jnp.clip(params + 2 * length * step + length**2 * bend, *_box(params))


def _box(params: jax.Array) -> tuple[jax.Array, jax.Array]:
  kept = params.shape[1]
  low, high = (bound[:kept].astype(params.dtype) for bound in (_LOW, _HIGH))
  return jnp.asarray(low), jnp.asarray(high)


def _choose(phase: jax.Array, *values: jax.Array) -> jax.Array:
  return jax.lax.select_n(phase, *(jnp.asarray(value) for value in values))
