"""Tests by every rule on every fold, each done once."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxlab.adaptive_testing import experiment_folds as folds
from jaxlab.adaptive_testing import experiment_rules as rules
from jaxlab.adaptive_testing import metrics
from jaxlab.adaptive_testing.simulate import run_cat
from jaxlab.harness.progress import Progress
from jaxlab.harness.settings import (
  check,
  check_names,
  check_positive,
  check_rising,
  key_of,
)


class Played(NamedTuple):
  """Tests of the examinees of a fold by a rule.

  Attributes:
    items: `[T, E]` what was asked.
    theta: `[T, E, *latent]` estimates after each item.
    held_theta: `[T', E, *latent]` estimates of tests without the held-out
      items; empty without them.
    loss: `[S]` of the training of the rule.
    seconds: of the training.
  """

  items: np.ndarray
  theta: np.ndarray
  held_theta: np.ndarray
  loss: np.ndarray
  seconds: float


class Outcome(NamedTuple):
  """What all rules did, with the examinees of all folds in one row.

  Attributes:
    errors: rule -> `[T, E]` squared distances to the abilities of all
      responses.
    true_errors: rule -> `[T, E]` those to the true abilities; empty where
      nobody knows them.
    fold: `[E]` which fold an examinee is of.
  """

  errors: dict[str, np.ndarray]
  true_errors: dict[str, np.ndarray]
  fold: np.ndarray


def check_config(config) -> None:
  """Raises `UserError` where what the studies share is no good."""
  folds.check_config(config)
  check_names(config, 'rules', rules.RULES)
  check_positive(config, 'horizon', 'longest', 'rounds', 'steps', 'batch')
  check_positive(config, 'rival_steps', 'resamples')
  check_rising(config, 'lengths')
  good = all(isinstance(x, int) for x in config.lengths)
  good = good and config.lengths[0] >= 1
  good = good and config.lengths[-1] <= config.longest
  check(config, 'lengths', good, 'whole numbers from 1 to config.longest')
  good = config.longest >= config.horizon
  check(config, 'longest', good, 'at least config.horizon')
  check(config, 'held_out', 0 <= config.held_out < 1, 'in [0, 1)')
  left = (1 - config.held_out) * config.longest
  good = not config.held_out or left >= config.lengths[-1]
  wanted = 'small enough to leave config.lengths of config.longest answers'
  check(config, 'held_out', good, wanted)
  if config.model in ('MIRT', 'NCD'):
    wrong = [name for name in config.rules if name in rules.ONE_DIMENSION]
    good = not wrong
    wanted = f'without {", ".join(wrong)}, which have one dimension only'
    check(config, 'rules', good, wanted)


class Bench:
  """The tests of a run."""

  def __init__(self, config, workdir, *, prefix: str = ''):
    """Does nothing yet.

    Args:
      config: of the run.
      workdir: of the run.
      prefix: of the names of stored units, for several in one run.
    """
    self._config = config
    self._workdir = workdir
    self._prefix = prefix
    self.fold = functools.cache(self._fold)
    self.held_out = functools.cache(self._held_out)
    self.numbers = range(config.folds)

  def _fold(self, number: int) -> folds.Fold:
    return folds.fold_of(self._config, number)

  def play(self, names: Sequence[str]) -> dict[tuple[str, int], Played]:
    """Trains and runs rules on all folds, or reads what was done before."""
    found = {}
    cells = [(name, number) for number in self.numbers for name in names]
    with Progress('tests by rules and folds', len(cells)) as progress:
      for name, number in cells:
        stored = self._workdir.cached(
          f'{self._prefix}{name}/fold-{number}',
          functools.partial(self._play, name, number),
        )
        found[name, number] = Played(
          stored['items'],
          stored['theta'],
          stored['held_theta'],
          stored['loss'],
          float(stored['seconds']),
        )
        progress.advance()
    return found

  def _held_out(self, number: int) -> np.ndarray:
    """`[E, n]` which answers of test examinees are held out."""
    fold = self.fold(number)
    key = key_of(self._config.seed, 'held out', number)
    draw = np.array(jax.random.uniform(key, fold.mask.shape))
    draw[~fold.mask] = 2
    count = np.round(self._config.held_out * fold.mask.sum(1)).astype(int)
    return draw.argsort(1).argsort(1) < count[:, None]

  def trained(self, name: str, number: int) -> rules.Trained:
    """A rule, trained on the training examinees of a fold."""
    key = key_of(self._config.seed, 'train', name, number)
    return rules.train(name, self.fold(number), self._config, key)

  def _play(self, name: str, number: int) -> dict[str, Any]:
    config, fold = self._config, self.fold(number)
    trained = self.trained(name, number)
    run_key = key_of(config.seed, 'test', number)
    run = functools.partial(
      run_cat, trained.selector, trained.params, fold.bank, fold.y
    )
    trace = run(test_length=config.longest, key=run_key, available=fold.mask)
    held = np.zeros((0,), np.float32)
    if config.held_out and name != rules.ORACLE:
      left = fold.mask & ~self.held_out(number)
      short = run(test_length=config.lengths[-1], key=run_key, available=left)
      held = np.asarray(short.theta)
    return {
      'items': np.asarray(trace.items),
      'theta': np.asarray(trace.theta),
      'held_theta': held,
      'loss': trained.loss,
      'seconds': np.float64(trained.seconds),
      **rules.weights(trained.params),
    }

  def outcome(
    self, played: dict[tuple[str, int], Played], names: Sequence[str]
  ) -> Outcome:
    """Errors of all rules."""

    def errors(of):
      return {
        name: np.concatenate(
          [
            np.asarray(
              metrics.squared_errors(played[name, k].theta, of(self.fold(k)))
            )
            for k in self.numbers
          ],
          axis=1,
        )
        for name in names
      }

    known = not np.isnan(self.fold(0).theta).any()
    sizes = [len(self.fold(k).y) for k in self.numbers]
    return Outcome(
      errors(lambda fold: fold.target),
      errors(lambda fold: fold.theta) if known else {},
      np.repeat(np.arange(len(sizes)), sizes),
    )
