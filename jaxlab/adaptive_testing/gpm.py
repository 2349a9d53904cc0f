"""Gradient Path Matching: a rule that learns from tests of many examinees.

    params, history = train_gpm(key, bank, responses, GPMConfig())
    trace = run_cat(gpm_selector(GPMConfig()), params, bank, ...)

Training goes round by round: a rollout of the current rule, then steps on its
states. `start` and `train_round` are the parts, for those who want to store
what is in between.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike

from jaxlab.adaptive_testing import checks, gpm_losses, gradients, paths
from jaxlab.adaptive_testing.estimate import map_newton
from jaxlab.adaptive_testing.gpm_states import (
  Rollout,
  join,
  record,
  take_states,
)
from jaxlab.adaptive_testing.selectors.features import residual_correlation
from jaxlab.adaptive_testing.selectors.itemwise import for_bank, itemwise
from jaxlab.adaptive_testing.types import Bank, Selector
from jaxlab.errors import UserError

CREDITS = ('all_candidates', 'straight_through')
Source = ArrayLike | Callable[[jax.Array], jax.Array]


@dataclasses.dataclass(frozen=True)
class GPMConfig:
  """Settings of a training; hashable.

  Attributes:
    credit: 'all_candidates', the exact expectation over picks, or
      'straight_through', which samples whole tests.
    path: 'linear', 'teacher', 'student', or 'full', which is no path but the
      same points from -4 to 4 for everybody.
    match: 'newton' or 'mean'.
    diagonal: whether the Newton form takes the diagonal of the information.
    num_points: K, at least 3.
    test_length: T.
    weights: of the picks t, see `gpm_losses.time_weights`.
    rounds: rollouts, each followed by steps.
    steps: of gradient descent in a round.
    batch: states of a step, or examinees with straight-through picks.
    newest_share: share of the states that come from the newest rollout; the
      others come from the one before.
    noise: Gumbel noise on the scores, of the first rollout and of later ones.
    tau: temperature of the picks at the first and the last step; None for
      (0.2, 0.05), or (1.0, 0.2) with straight-through picks.
    learning_rate: of Adam at the first step; it falls as a cosine to 0.
    clip: largest norm of a gradient.
    pool_size: number of random items that an examinee may be asked in training,
      for a rule that goes to other banks; None for all.
    bptt: whether straight-through gradients go back through earlier picks.
    darts: whether straight-through picks are judged one gradient step ahead
      (a bilevel problem).
  """

  credit: str = 'all_candidates'
  path: str = 'linear'
  match: str = 'newton'
  diagonal: bool = False
  num_points: int = 5
  test_length: int = 20
  weights: str | float = 'linear'
  rounds: int = 3
  steps: int = 500
  batch: int = 128
  newest_share: float = 0.6
  noise: tuple[float, float] = (0.1, 0.05)
  tau: tuple[float, float] | None = None
  learning_rate: float = 3e-3
  clip: float = 1.0
  pool_size: int | None = None
  bptt: bool = False
  darts: bool = False

  def __post_init__(self):
    known = (
      ('credit', CREDITS),
      ('path', paths.PATHS),
      ('match', gradients.MATCHES),
    )
    for name, names in known:
      if getattr(self, name) not in names:
        raise UserError(f'{name} {getattr(self, name)!r}: use one of {names}.')
    if self.num_points < 3:
      raise UserError(
        f'num_points is {self.num_points}: a path needs at least 3, its ends '
        'and what is between.'
      )
    for name in ('test_length', 'rounds', 'steps', 'batch', 'num_points'):
      value = getattr(self, name)
      if not isinstance(value, int) or value < 1:
        raise UserError(f'{name} is {value}: give a whole number from 1 on.')
    positive = {name: getattr(self, name) for name in ('learning_rate', 'clip')}
    positive |= {f'tau[{i}]': tau for i, tau in enumerate(self.temperatures)}
    for name, value in positive.items():
      if not 0 < value < math.inf:
        raise UserError(f'{name} is {value}: give a positive number.')
    if not 0 <= self.newest_share <= 1:
      raise UserError(
        f'newest_share is {self.newest_share}: give a share from 0 to 1.'
      )
    if self.credit == 'all_candidates' and (self.bptt or self.darts):
      raise UserError("bptt and darts need credit='straight_through'.")
    if self.pool_size is not None and self.pool_size < self.test_length:
      raise UserError(
        f'pool_size is {self.pool_size}: give at least test_length, '
        f'{self.test_length}.'
      )
    gpm_losses.time_weights(self.weights, 1)

  @property
  def temperatures(self) -> tuple[float, float]:
    """First and last temperature of the picks."""
    if self.tau is not None:
      return self.tau
    return (0.2, 0.05) if self.credit == 'all_candidates' else (1.0, 0.2)


class Training(NamedTuple):
  """A training between two rounds; a pytree of arrays.

  Attributes:
    params: of the rule.
    optimizer: state of Adam.
    rollout: the newest one; None before the first round.
    scale: `[T]` mean squared errors in the first rollout, by which match values
      are divided; None before it.
    done: `[]` int32, rounds.
  """

  params: Any
  optimizer: Any
  rollout: Rollout | None
  scale: jax.Array | None
  done: jax.Array


class History(NamedTuple):
  """What a training saw.

  Attributes:
    loss: `[rounds, steps]`.
    error: `[rounds, T]` mean squared errors of the rollouts, with their noise,
      after each item; straight-through: of the last step's examinees.
  """

  loss: jax.Array
  error: jax.Array


def gpm_selector(cfg: GPMConfig, **settings: Any) -> Selector:
  """The rule that `train_gpm` trains by default; see `itemwise`."""
  return itemwise(horizon=cfg.test_length, **settings)


def train_gpm(
  key: jax.Array,
  bank: Bank,
  responses: Source,
  cfg: GPMConfig,
  *,
  selector: Selector | None = None,
  mask: ArrayLike | None = None,
  residuals: bool = True,
) -> tuple[Any, History]:
  """Trains a rule.

  Args:
    key: PRNG key.
    bank: of n items.
    responses: `[E, n]` recorded answers of training examinees, or a function of
      a key that draws such an array, for new examinees in each round.
    cfg: settings.
    selector: the rule, whose parameters are a dictionary with `network`, what
      is trained; None for `gpm_selector(cfg)`.
    mask: `[E, n]`, not 0 where there is an answer; None for all.
    residuals: whether the rule gets the residual correlations of the training
      examinees, if it has a place for them.

  Returns:
    The parameters of the rule, and the history.

  Raises:
    UserError: for responses other than 0 and 1 or of another shape, examinees
      with less than T answers.
  """
  selector = gpm_selector(cfg) if selector is None else selector
  state = start(
    key, bank, responses, cfg, selector=selector, mask=mask, residuals=residuals
  )
  found = []
  for _ in range(cfg.rounds):
    state, history = train_round(
      key, state, bank, responses, cfg, selector=selector, mask=mask
    )
    found.append(history)
  return state.params, History(
    *(jnp.stack(x) for x in zip(*found, strict=True))
  )


def start(
  key: jax.Array,
  bank: Bank,
  responses: Source,
  cfg: GPMConfig,
  *,
  selector: Selector,
  mask: ArrayLike | None = None,
  residuals: bool = True,
) -> Training:
  """A training before its first round; see `train_gpm`."""
  init_key, draw_key = jax.random.split(jax.random.fold_in(key, cfg.rounds))
  params = jax.jit(selector.init)(init_key, bank)
  if residuals and 'residuals' in params:
    y, known = _examinees(draw_key, bank, responses, mask, cfg)
    found = jax.jit(_residuals)(bank, y, known)
    params = for_bank(params, bank, found)
  optimizer = _optimizer(cfg).init(params['network'])
  return Training(params, optimizer, None, None, jnp.int32(0))


def train_round(
  key: jax.Array,
  state: Training,
  bank: Bank,
  responses: Source,
  cfg: GPMConfig,
  *,
  selector: Selector,
  mask: ArrayLike | None = None,
) -> tuple[Training, History]:
  """One round: a rollout, and steps on its states.

  Args:
    key: PRNG key of the whole training: that of `start`.
    state: from `start` or the round before.
    bank: of n items.
    responses: as for `train_gpm`.
    cfg: settings.
    selector: the rule.
    mask: as for `train_gpm`.

  Returns:
    The next state, and the history of this round without its first axis.
  """
  keys = jax.random.split(jax.random.fold_in(key, state.done), 3)
  y, known = _examinees(keys[0], bank, responses, mask, cfg)
  if cfg.credit == 'straight_through':
    target = jax.jit(map_newton)(bank, y, known)
    (params, optimizer), history = _sampled_steps(
      *(selector, cfg, state.params, state.optimizer, bank),
      *(y, known, target, state.done, keys[2]),
    )
    return Training(params, optimizer, None, None, state.done + 1), history
  rollout = record(
    *(selector, state.params, bank, y, known),
    key=keys[1],
    noise=jnp.where(state.done == 0, *cfg.noise),
    test_length=cfg.test_length,
    pool_size=cfg.pool_size,
  )
  scale = rollout.error if state.scale is None else state.scale
  older = rollout if state.rollout is None else state.rollout
  (params, optimizer), loss = _candidate_steps(
    *(selector, cfg, state.params, state.optimizer, bank),
    *(older, rollout, scale, state.done, keys[2]),
  )
  following = Training(params, optimizer, rollout, scale, state.done + 1)
  return following, History(loss, rollout.error)


def _residuals(bank, y, known):
  return residual_correlation(bank, y, map_newton(bank, y, known), known)


def _examinees(key, bank, responses, mask, cfg):
  """Responses, 0 where there is none, and where there is one."""
  y = responses(key) if callable(responses) else jnp.asarray(responses)
  if jnp.ndim(y) != 2 or not len(y):
    raise UserError(
      f'responses has the shape {jnp.shape(y)}; give [examinees, items].'
    )
  checks.check_responses('responses', y, mask, bank)
  known = jnp.ones(y.shape, bool) if mask is None else jnp.asarray(mask) != 0
  wanted = max(cfg.test_length, cfg.pool_size or 0)
  counts = np.sum(known, axis=1)
  if counts.min() < wanted:
    first = int(np.argmax(counts < wanted))
    raise UserError(
      f'examinee {first} has {counts[first]} answers: training needs {wanted} '
      'of each.'
    )
  return jnp.where(known, y, 0).astype(float), known


def _optimizer(cfg: GPMConfig) -> optax.GradientTransformation:
  schedule = optax.cosine_decay_schedule(
    cfg.learning_rate, cfg.rounds * cfg.steps
  )
  return optax.chain(optax.clip_by_global_norm(cfg.clip), optax.adam(schedule))


def _temperature(cfg: GPMConfig, step: jax.Array) -> jax.Array:
  """Falls geometrically over all rounds."""
  first, last = cfg.temperatures
  share = step / max(cfg.rounds * cfg.steps - 1, 1)
  return first * (last / first) ** share


def _descend(cfg, params, optimizer, loss_of, done, key):
  """Steps of a round on `loss_of(network, key, tau) -> (loss, aux)`."""
  update = _optimizer(cfg).update

  def step(carry, turn):
    network, optimizer = carry
    tau = _temperature(cfg, done * cfg.steps + turn)
    value, grads = jax.value_and_grad(loss_of, has_aux=True)(
      network, jax.random.fold_in(key, turn), tau
    )
    updates, optimizer = update(grads, optimizer, network)
    return (optax.apply_updates(network, updates), optimizer), value

  (network, optimizer), (loss, aux) = jax.lax.scan(
    step, (params['network'], optimizer), jnp.arange(cfg.steps)
  )
  return ({**params, 'network': network}, optimizer), loss, aux


@functools.partial(jax.jit, static_argnums=(0, 1))
def _candidate_steps(
  selector, cfg, params, optimizer, bank, older, newest, scale, done, key
):
  weights = gpm_losses.time_weights(cfg.weights, cfg.test_length)
  rollout = join(newest, older)
  num_newest, num_all = len(newest.y), len(rollout.y)
  settings = {
    name: getattr(cfg, name)
    for name in ('path', 'match', 'num_points', 'diagonal')
  }

  def loss_of(network, key, tau):
    keys = jax.random.split(key, 5)
    time = jax.random.choice(keys[0], cfg.test_length, (cfg.batch,), p=weights)
    new = jax.random.randint(keys[1], (cfg.batch,), 0, num_newest)
    old = jax.random.randint(keys[2], (cfg.batch,), num_newest, num_all)
    is_new = jax.random.uniform(keys[3], (cfg.batch,)) < cfg.newest_share
    chosen = take_states(bank, rollout, jnp.where(is_new, new, old), time)
    values = gpm_losses.candidate_values(bank, chosen, **settings)
    score = selector.score(
      {**params, 'network': network}, keys[4], bank, chosen.cat
    )
    loss = gpm_losses.candidate_loss(
      score, values, chosen.cat.available, scale[time], tau
    )
    return jnp.mean(loss), None

  found, loss, _ = _descend(cfg, params, optimizer, loss_of, done, key)
  return found, loss


@functools.partial(jax.jit, static_argnums=(0, 1))
def _sampled_steps(
  selector, cfg, params, optimizer, bank, y, known, target, done, key
):
  names = ('path', 'match', 'num_points', 'test_length', 'weights')
  settings = {name: getattr(cfg, name) for name in names}
  settings |= {'diagonal': cfg.diagonal, 'bptt': cfg.bptt, 'darts': cfg.darts}

  def loss_of(network, key, tau):
    draw_key, loss_key = jax.random.split(key)
    at = jax.random.randint(draw_key, (cfg.batch,), 0, y.shape[0])
    loss, found = gpm_losses.gpm_loss(
      *({**params, 'network': network}, loss_key, bank, y[at]),
      selector=selector,
      mask=known[at],
      target=target[at],
      tau=tau,
      **settings,
    )
    return loss, found['error']

  found, loss, error = _descend(cfg, params, optimizer, loss_of, done, key)
  return found, History(loss, error[-1])
