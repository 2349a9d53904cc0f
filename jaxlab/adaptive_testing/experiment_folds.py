"""Examinees of the experiments: recorded tests by folds, or simulated ones."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxlab import data, errors
from jaxlab.adaptive_testing import calibrate, estimate, joint, synthetic
from jaxlab.adaptive_testing.selectors import features
from jaxlab.adaptive_testing.types import Bank, ItemBank
from jaxlab.data.response_matrix import ResponseMatrix
from jaxlab.harness.settings import check, check_positive, key_of

SIMULATED = 'simulated'
RECORDED = (
  *('swesat_quant', 'swesat_verbal', 'national_maths', 'lsat6', 'lsat7'),
  *('assistments2009', 'eedi', 'educat', 'bobcat'),
)
MODELS = ('1PL', '2PL', '3PL', 'MIRT', 'NCD')
_CALIBRATED = ('1PL', '2PL', '3PL')
_MOST_FOLDS = 5  # of recorded data


class Fold(NamedTuple):
  """A calibrated bank, examinees to train rules on, and others to test.

  Attributes:
    number: of the fold, or seed of the simulation.
    bank: of n items, calibrated without the test examinees.
    train: `[E, n]` responses of training examinees.
    train_mask: `[E, n]` bool, where there is one.
    fresh: draws training examinees anew in each round; None for `train`.
    y: `[E', n]` responses of test examinees.
    mask: `[E', n]` bool, where there is one.
    target: `[E', *latent]` their abilities from all responses.
    theta: `[E', *latent]` their true abilities, NaN where nobody knows them.
    audit: what a table says about the split.
  """

  number: int
  bank: Bank
  train: np.ndarray
  train_mask: np.ndarray
  fresh: Callable[[jax.Array], jax.Array] | None
  y: np.ndarray
  mask: np.ndarray
  target: np.ndarray
  theta: np.ndarray
  audit: dict[str, Any]


def check_config(config) -> None:
  """Raises `UserError` where the examinees of a config are no good."""
  good = config.model in MODELS
  check(config, 'model', good, f'one of {", ".join(MODELS)}')
  check_positive(config, 'folds')
  if config.model == 'NCD':
    _check_has(config, 'ncd', 'hidden', 'calibration_steps')
    check_positive(config, 'hidden', 'calibration_steps')
  if config.data != SIMULATED:
    known = (SIMULATED, *RECORDED)
    check(config, 'data', config.data in known, f'one of {", ".join(known)}')
    fields = ('min_answers', 'most_examinees')
    _check_has(config, 'swesat_quant', 'folder', *fields)
    check_positive(config, *fields)
    good = config.folds <= _MOST_FOLDS
    check(config, 'folds', good, f'at most {_MOST_FOLDS}')
    return
  sizes = ('num_items', 'train_examinees', 'test_examinees', 'dims')
  _check_has(config, 'sim_2pl', *sizes, 'calibrated')
  check_positive(config, *sizes)
  if 'longest' in config:
    good = config.num_items >= config.longest
    check(config, 'num_items', good, f'at least {config.longest} (longest)')


def _check_has(config, name: str, *fields: str) -> None:
  for field in fields:
    if field not in config:
      raise errors.UserError(
        f'config.data = {config.data!r} and config.model = {config.model!r} '
        f'need config.{field}: start from adaptive_testing/{name}.'
      )


def fold_of(config, number: int) -> Fold:
  """The examinees of a fold; needs the fields that `check_config` checks."""
  if config.data == SIMULATED:
    return simulated(config, number)
  return recorded(config, number)


def simulated(config, number: int) -> Fold:
  """A random bank whose parameters are known, unless they are calibrated."""
  keys = jax.random.split(key_of(config.seed, 'simulated', number), 4)
  if config.model == 'NCD':
    truth: Bank = synthetic.random_neural_bank(
      *(keys[0], config.num_items),
      num_dimensions=config.dims,
      hidden=tuple(config.hidden),
    )
  else:
    truth = synthetic.random_bank(
      *(keys[0], config.num_items),
      model=config.model,
      num_dimensions=config.dims,
    )

  def fresh(key):
    theta = synthetic.random_abilities(key, truth, config.train_examinees)
    answer_key = jax.random.fold_in(key, 1)
    return synthetic.random_responses(answer_key, truth, theta)

  train = np.asarray(fresh(keys[1]), np.int8)
  theta = synthetic.random_abilities(keys[2], truth, config.test_examinees)
  y = np.asarray(synthetic.random_responses(keys[3], truth, theta), np.int8)
  bank = truth
  if config.calibrated:
    known = np.ones(train.shape, bool)
    q_matrix = getattr(truth, 'q_matrix', None)
    bank = _calibrated(config, number, train, known, q_matrix)
  audit = {'fold': number, 'train': len(train), 'test': len(y), 'in both': 0}
  everything = np.ones(y.shape, bool)
  return Fold(
    *(number, bank, train, np.ones(train.shape, bool)),
    None if config.calibrated else jax.jit(fresh),
    *(y, everything, target_of(bank, y, everything), np.asarray(theta)),
    {**audit, **_measures(bank, train, np.ones(train.shape, bool))},
  )


def recorded(config, number: int) -> Fold:
  """A fold of a data set; the bank is calibrated on its training examinees."""
  options = {'folder': config.folder} if config.folder else {}
  options['fold'] = number
  train = data.load(config.data, 'train', **options)
  test = data.load(config.data, 'test', **options)
  both = np.intersect1d(train.examinees, test.examinees)
  items = _useful(train, config.min_answers)
  train, test = (_enough(part, items, config) for part in (train, test))
  y, mask = test.responses[:, items], test.mask[:, items]
  seen = train.responses[:, items], train.mask[:, items]
  q_matrix = None if train.q_matrix is None else train.q_matrix[items]
  bank = _calibrated(config, number, *seen, q_matrix)
  audit = {
    'fold': number,
    'train': len(train.examinees),
    'test': len(test.examinees),
    'in both': len(both),
  }
  target = target_of(bank, y, mask)
  return Fold(
    *(number, bank, *seen, None, y, mask, target),
    np.full_like(target, np.nan),
    {**audit, **_measures(bank, *seen)},
  )


def _useful(train: ResponseMatrix, least: int) -> np.ndarray:
  """Items with enough training answers, right ones and wrong ones."""
  count = train.mask.sum(0)
  right = (train.responses * train.mask).sum(0)
  kept = np.flatnonzero((count >= least) & (right > 0) & (right < count))
  if not kept.size:
    raise errors.UserError(
      f'config.min_answers = {least} leaves no item: lower it.'
    )
  return kept


def _enough(part: ResponseMatrix, items: np.ndarray, config) -> ResponseMatrix:
  """Examinees with enough answers for a whole test, and some to spare."""
  count = part.mask[:, items].sum(1)
  rows = np.flatnonzero(count >= config.longest)
  if len(rows) > config.most_examinees:
    # Files may be sorted.
    rng = np.random.default_rng(config.seed)
    rows = np.sort(rng.choice(rows, config.most_examinees, replace=False))
  if len(rows) < 2:
    raise errors.UserError(
      f'config.longest = {config.longest} leaves {len(rows)} examinees with '
      'as many answers: lower it or config.min_answers.'
    )
  return part._replace(
    responses=part.responses[rows],
    mask=part.mask[rows],
    examinees=part.examinees[rows],
  )


def _calibrated(config, number, train, mask, q_matrix) -> Bank:
  key = key_of(config.seed, 'calibrate', number)
  if config.model in _CALIBRATED:
    bank, _ = calibrate.fit_mml(train, mask, model=config.model)
    return bank
  if config.model == 'MIRT':
    return joint.fit_mirt(train, mask, dims=config.dims, key=key)[0]
  options = joint.NCD_OPTIONS._replace(num_steps=config.calibration_steps)
  neural, _, _ = joint.fit_ncd(
    train,
    mask,
    q_matrix,
    key=key,
    hidden=tuple(config.hidden),
    options=options,
  )
  return neural


def target_of(bank: Bank, y: np.ndarray, mask: np.ndarray) -> np.ndarray:
  """`[E, *latent]` abilities from all responses."""
  return np.asarray(jax.jit(estimate.map_newton)(bank, y, mask))


def _measures(bank: Bank, y: np.ndarray, mask: np.ndarray) -> dict[str, Any]:
  """What a bank is like, and how far its model misses training answers."""
  mean, largest = _misfit(bank, y, mask)
  found = {'mean |C|': mean, 'largest |C|': largest}
  if isinstance(bank, ItemBank) and not bank.latent_shape:
    found['median slope'] = float(np.median(bank.a))
  return found


def _misfit(bank: Bank, y, mask) -> tuple[float, float]:
  """Mean and largest size of the correlations that abilities leave."""
  theta = target_of(bank, y, mask)
  found = features.residual_correlation(bank, y, theta, mask).correlation
  size = np.abs(np.asarray(found))[~np.eye(bank.num_items, dtype=bool)]
  return float(size.mean()), float(size.max())
