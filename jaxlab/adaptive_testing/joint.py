"""Calibration of many-dimensional models: items and abilities together.

Both are fitted by stochastic gradients (optax) in one scan over minibatches of
examinees. Sources: Reckase, Multidimensional Item Response Theory, 2009; Cai,
Psychometrika, 2010 (Metropolis-Hastings); Wang et al., AAAI 2020 (neural
cognitive diagnosis).
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike

from jaxlab.adaptive_testing import (
  checks,
  estimate,
  models,
  small_matrices,
  synthetic,
)
from jaxlab.adaptive_testing.types import ItemBank, NeuralBank, item_bank
from jaxlab.errors import UserError

_SLOPE_SD = 2.0  # of the normal prior of slopes
_INTERCEPT_SD = 4.0  # of the normal prior of intercepts
_NEWTON = 2  # steps from the last estimate of an ability
_LAST = 4  # steps from the mean of its posterior to its mode
_FASTER = 10.0  # rate of abilities, which have few steps, in rates of items
_GAIN = 2.0  # of the layers of a network, at the start


class Options(NamedTuple):
  """How to fit.

  Attributes:
    num_steps: steps of the optimiser.
    batch_size: examinees in a step.
    learning_rate: the largest, of Adam with cosine decay.
  """

  num_steps: int
  batch_size: int
  learning_rate: float


MIRT_OPTIONS = Options(num_steps=1500, batch_size=256, learning_rate=0.05)
NCD_OPTIONS = Options(num_steps=1000, batch_size=128, learning_rate=0.02)


def fit_mirt(
  responses: ArrayLike,
  mask: ArrayLike | None = None,
  *,
  dims: int,
  key: jax.Array,
  guessing: ArrayLike = 0.0,
  q_matrix: ArrayLike | None = None,
  options: Options = MIRT_OPTIONS,
) -> tuple[ItemBank, jax.Array, jax.Array]:
  """Fits the compensatory multidimensional model.

  In each step the abilities of a batch go to their modes by Newton's method, a
  Metropolis-Hastings step draws new ones around the modes, and the items go
  down the gradient at what was drawn. At the modes themselves, under their
  prior N(0, I), abilities would shrink and slopes grow without end. At last the
  axes are turned to the principal ones of the slopes, unless there is a
  Q-matrix.

  Args:
    responses: `[E, n]`, 0 or 1; any value, NaN too, where they are masked.
    mask: `[E, n]`, not 0 where there is a response; None for all.
    dims: D.
    key: PRNG key.
    guessing: probabilities of guessing, a number or `[n]`; they stay fixed.
    q_matrix: `[n, D]` 1 where a slope may differ from 0; None for everywhere.
    options: how to fit.

  Returns:
    The bank, `[E, D]` abilities, and `[num_steps]` the mean loss of a response
    in each step, in nats.

  Raises:
    UserError: responses other than 0 and 1, shapes that do not fit, an item
      without concept.
  """
  right, seen = _responses(responses, mask)
  num_items = right.shape[1]
  if dims < 1:
    raise UserError(f'dims = {dims}: take at least one dimension.')
  start = item_bank(
    np.ones((num_items, dims)), np.zeros(num_items), guessing, 1.0, q_matrix
  )
  if q_matrix is not None and np.shape(q_matrix) != (num_items, dims):
    raise UserError(
      f'q_matrix has the shape {np.shape(q_matrix)}; give {num_items, dims}.'
    )
  return _fit_mirt(right, seen, start, key, options=options)


@functools.partial(jax.jit, static_argnames='options')
def _fit_mirt(right, seen, start: ItemBank, key, *, options: Options):
  start_key, key = jax.random.split(key)
  free = 1.0 if start.q_matrix is None else start.q_matrix
  share = (jnp.sum(right, axis=0) + 0.5) / (jnp.sum(seen, axis=0) + 1)
  knowing = jnp.clip((share - start.c) / (1 - start.c), 0.05, 0.95)
  noise = jax.random.normal(start_key, start.a.shape)
  params = {
    'a': free * (1 + 0.5 * noise) / start.a.shape[1] ** 0.5,
    'b': jax.scipy.special.logit(knowing),
  }
  theta = jnp.zeros((len(right), start.a.shape[1]), right.dtype)

  def bank_of(params):
    return start._replace(a=params['a'] * free, b=params['b'])

  def loss(params, y, mask, theta):
    total = jnp.sum(models.nll(bank_of(params), theta, y, mask))
    penalty = jnp.sum((params['a'] / _SLOPE_SD) ** 2) / 2
    penalty += jnp.sum((params['b'] / _INTERCEPT_SD) ** 2) / 2
    count = jnp.maximum(jnp.sum(mask), 1)
    return (total + penalty * len(y) / len(right)) / count, total / count

  optimizer = _optimizer(options)
  size = min(options.batch_size, len(right))

  def step(carry, key):
    params, modes, draws, state = carry
    batch_key, draw_key = jax.random.split(key)
    rows = jax.random.choice(batch_key, len(right), (size,), replace=False)
    y, mask, bank = right[rows], seen[rows], bank_of(params)
    mode = estimate.map_newton(
      bank, y, mask, theta0=modes[rows], iterations=_NEWTON
    )
    drawn = _draw(draw_key, bank, y, mask, mode, draws[rows])
    grads, each = jax.grad(loss, has_aux=True)(params, y, mask, drawn)
    updates, state = optimizer.update(grads, state)
    params = optax.apply_updates(params, updates)
    modes, draws = modes.at[rows].set(mode), draws.at[rows].set(drawn)
    return (params, modes, draws, state), each

  carry: Any = (params, theta, theta, optimizer.init(params))
  keys = jax.random.split(key, options.num_steps)
  (params, *_), history = jax.lax.scan(step, carry, keys)
  bank = bank_of(params)
  if start.q_matrix is None:
    bank = _turned(bank)
  return bank, estimate.map_newton(bank, right, seen), history


def fit_ncd(
  responses: ArrayLike,
  mask: ArrayLike | None = None,
  q_matrix: ArrayLike | None = None,
  *,
  key: jax.Array,
  hidden: tuple[int, ...] = (128, 64),
  dropout: float = 0.5,
  options: Options = NCD_OPTIONS,
) -> tuple[NeuralBank, jax.Array, jax.Array]:
  """Fits neural cognitive diagnosis.

  Abilities have the prior N(0, I). Their posteriors are taken for normal and
  independent, and fitted along with the items by the evidence lower bound: as
  in `fit_mirt`, abilities without spread would shrink. Each examinee has
  moments in Adam of its own, which rest while it is in no batch.

  Args:
    responses: `[E, n]`, 0 or 1; any value, NaN too, where they are masked.
    mask: `[E, n]`, not 0 where there is a response; None for all.
    q_matrix: `[n, D]` of 0 and 1, which concepts an item needs; None for one
      concept that all need.
    key: PRNG key.
    hidden: widths of the hidden layers.
    dropout: share of hidden units that are left out in training.
    options: how to fit.

  Returns:
    The bank, `[E, D]` abilities, and `[num_steps]` the mean loss of a response
    in each step, in nats, with dropout.

  Raises:
    UserError: responses other than 0 and 1, shapes that do not fit, an item
      without concept.
  """
  right, seen = _responses(responses, mask)
  num_items = right.shape[1]
  if q_matrix is None:
    q_matrix = np.ones((num_items, 1))
  checked = item_bank(1.0, np.zeros(num_items), q_matrix=q_matrix).q_matrix
  if not 0 <= dropout < 1:
    raise UserError(f'dropout = {dropout:g} is not in [0, 1).')
  return _fit_ncd(
    right, seen, checked, key, hidden=hidden, dropout=dropout, options=options
  )


@functools.partial(jax.jit, static_argnames=('hidden', 'dropout', 'options'))
def _fit_ncd(right, seen, q_matrix, key, *, hidden, dropout, options):
  start_key, key = jax.random.split(key)
  dims = q_matrix.shape[1]
  bank = synthetic.random_neural_bank(
    start_key, len(q_matrix), num_dimensions=dims, hidden=hidden, gain=_GAIN
  )
  bank = bank._replace(
    difficulty=jnp.zeros_like(bank.difficulty),
    discrimination=jnp.zeros_like(bank.discrimination),
    q_matrix=q_matrix,
  )
  # Means and logarithms of standard deviations.
  posteriors = jnp.zeros((len(right), 2, dims), right.dtype)

  def loss(trained, y, mask, key):
    bank, posterior = trained
    mean, log_sd = posterior[:, 0], posterior[:, 1]
    noise_key, drop_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, mean.shape, mean.dtype)
    theta = mean + jnp.exp(log_sd) * noise
    p = models.neural_prob(bank, theta, dropout=dropout, key=drop_key)
    total = -jnp.sum(mask * jnp.where(y > 0, jnp.log(p), jnp.log1p(-p)))
    divergence = jnp.sum(mean**2 + jnp.exp(2 * log_sd) - 1 - 2 * log_sd) / 2
    count = jnp.maximum(jnp.sum(mask), 1)
    return (total + divergence) / count, total / count

  optimizer = _optimizer(options)
  own_optimizer = optax.adam(_FASTER * options.learning_rate)
  size = min(options.batch_size, len(right))

  def step(carry, key):
    bank, posteriors, state, own_states = carry
    batch_key, loss_key = jax.random.split(key)
    rows = jax.random.choice(batch_key, len(right), (size,), replace=False)
    own, own_state = jax.tree.map(lambda x: x[rows], (posteriors, own_states))
    (of_items, of_own), each = jax.grad(loss, has_aux=True)(
      (bank, own), right[rows], seen[rows], loss_key
    )
    of_items = of_items._replace(q_matrix=jnp.zeros_like(q_matrix))
    updates, state = optimizer.update(of_items, state)
    moves, own_state = jax.vmap(own_optimizer.update)(of_own, own_state)
    bank = optax.apply_updates(bank, updates)
    posteriors = posteriors.at[rows].add(moves)
    own_states = jax.tree.map(
      lambda x, new: x.at[rows].set(new), own_states, own_state
    )
    return (bank, posteriors, state, own_states), each

  own_states = jax.vmap(own_optimizer.init)(posteriors)
  carry = (bank, posteriors, optimizer.init(bank), own_states)
  keys = jax.random.split(key, options.num_steps)
  (bank, posteriors, _, _), history = jax.lax.scan(step, carry, keys)
  theta = estimate.map_newton(
    bank, right, seen, theta0=posteriors[:, 0], iterations=_LAST
  )
  return bank, theta, history


def _optimizer(options: Options) -> optax.GradientTransformation:
  schedule = optax.cosine_decay_schedule(
    options.learning_rate, options.num_steps
  )
  return optax.adam(schedule)


def _responses(responses, mask) -> tuple[jax.Array, jax.Array]:
  """Right answers and answers, `[E, n]` numbers 0 or 1."""
  if np.ndim(responses) != 2 or 0 in np.shape(responses):
    raise UserError(
      f'responses has the shape {np.shape(responses)}; give [examinees, items].'
    )
  checks.check_responses('responses', responses, mask)
  responses = jnp.asarray(responses)
  dtype = jnp.promote_types(responses.dtype, jnp.float32)
  seen = True if mask is None else jnp.asarray(mask) != 0
  seen = jnp.broadcast_to(seen, responses.shape)
  return (seen & (responses == 1)).astype(dtype), seen.astype(dtype)


def _draw(key, bank, y, mask, mode, current) -> jax.Array:
  """Draws `[B, D]` abilities from their posteriors: a Metropolis-Hastings step.

  Proposals come from the normal approximations at the modes.
  """
  noise_key, accept_key = jax.random.split(key)
  noise = jax.random.normal(noise_key, mode.shape, mode.dtype)
  precision = estimate.posterior_precision(bank, mode, mask)
  root = small_matrices.cholesky(precision)
  # root^-T noise = precision^-1 root noise.
  moved = jnp.einsum('bij,bj->bi', root, noise)
  proposal = mode + small_matrices.solve(precision, moved)
  back = jnp.einsum('bij,bi->bj', root, current - mode)

  def height(theta, distance):
    """Posterior over density of the proposals, in logarithms."""
    loss = models.nll(bank, theta, y, mask) + jnp.sum(theta**2, axis=-1) / 2
    return jnp.sum(distance**2, axis=-1) / 2 - loss

  gain = height(proposal, noise) - height(current, back)
  chance = jax.random.uniform(accept_key, gain.shape, gain.dtype)
  return jnp.where((jnp.log(chance) < gain)[:, None], proposal, current)


def _turned(bank: ItemBank) -> ItemBank:
  """Slopes along their principal axes, the largest first, sums positive."""
  _, _, axes = jnp.linalg.svd(bank.a, full_matrices=False)
  a = bank.a @ axes.T
  return bank._replace(a=a * jnp.where(jnp.sum(a, axis=0) < 0, -1, 1))
