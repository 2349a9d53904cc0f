"""A rule trained on some banks, in tests from others."""

import functools
import time

import jax
import ml_collections
import numpy as np

from jaxlab.adaptive_testing import experiment_folds as folds
from jaxlab.adaptive_testing import experiment_rules as rules
from jaxlab.adaptive_testing import gpm, plots
from jaxlab.adaptive_testing.experiment_accuracy import (
  bands,
  error_rows,
)
from jaxlab.adaptive_testing.experiment_bench import Bench, check_config
from jaxlab.adaptive_testing.experiment_claims import PAPER, WORSE
from jaxlab.adaptive_testing.experiment_compare import Comparison
from jaxlab.adaptive_testing.selectors import features
from jaxlab.adaptive_testing.selectors.itemwise import for_bank, itemwise
from jaxlab.harness.claims import Claim
from jaxlab.harness.settings import check, check_positive, key_of

_DATA = ('simulated', 'swesat_quant', 'swesat_verbal', 'national_maths')


class _Away(Bench):
  """Tests by rules, some of which were trained on other banks.

  A rule of simulated banks knows no correlations. One of recorded tests gets
  those of its own training examinees in training, and those of the new bank's
  in tests.
  """

  def __init__(self, config, workdir, learned, *, prefix: str):
    """Keeps the trainings for all targets.

    Args:
      config: of the target.
      workdir: of the run.
      learned: (source, fold) -> parameters, losses.
      prefix: of stored units.
    """
    super().__init__(config, workdir, prefix=prefix)
    self._learned = learned

  def trained(self, name: str, number: int) -> rules.Trained:
    if name not in _names(self._config):
      return super().trained(name, number)
    start = time.perf_counter()
    source = _names(self._config)[name]
    params, loss = self._learned(source, number)
    fold, residuals = self.fold(number), None
    if source != folds.SIMULATED:
      theta = folds.target_of(fold.bank, fold.train, fold.train_mask)
      residuals = features.residual_correlation(
        fold.bank, fold.train, theta, fold.train_mask
      )
    rule = itemwise(horizon=self._config.horizon)
    params = for_bank(params, fold.bank, residuals)
    return rules.Trained(rule, params, loss, time.perf_counter() - start)


def _names(config) -> dict[str, str]:
  """Rules of other banks -> what they were trained on."""
  return {f'gpm_from_{source}': source for source in config.sources}


def run(config, workdir) -> None:
  """Trains on each source and tests on each other data set."""
  check_config(config)
  check_positive(config, 'pool_size', 'target_items')
  good = config.horizon <= config.pool_size <= config.num_items
  check(config, 'pool_size', good, 'from config.horizon to config.num_items')
  good = config.target_items >= config.longest
  check(config, 'target_items', good, 'at least config.longest')
  for field in ('sources', 'targets'):
    good = bool(config[field]) and set(config[field]) <= set(_DATA)
    check(config, field, good, f'some of {", ".join(_DATA)}')
  learned = functools.cache(functools.partial(_train, config))
  for target in config.targets:
    own = _with_data(config, target)
    # Another bank than that of the training, also where both are drawn.
    own.num_items = config.target_items
    own.seed = config.seed + 1
    own.sources = tuple(
      x for x in config.sources if x != target or x == folds.SIMULATED
    )
    bench = _Away(own, workdir, learned, prefix=f'{target}/')
    names = (*config.rules, *_names(own))
    played = bench.play(names)
    outcome = bench.outcome(played, names)
    compared = Comparison(
      outcome.errors,
      outcome.fold,
      key_of(config.seed, 'bootstrap'),
      resamples=config.resamples,
    )
    _record(own, workdir, compared, target)
    for claim in _claims(own, compared, target):
      workdir.add_claim(claim)


def _with_data(config, name: str):
  """A copy that reads other data."""
  own = ml_collections.ConfigDict(config.to_dict())
  own.data = name
  return own


def _train(config, source: str, number: int):
  own = _with_data(config, source)
  fold = folds.fold_of(own, number)
  cfg = rules.gpm_config(
    own, rules.Variant('', settings={'pool_size': config.pool_size})
  )
  params, history = gpm.train_gpm(
    key_of(config.seed, 'transfer', source, number),
    fold.bank,
    fold.train if fold.fresh is None else fold.fresh,
    cfg,
    selector=itemwise(horizon=config.horizon),
    mask=fold.train_mask if fold.fresh is None else None,
    residuals=source != folds.SIMULATED,
  )
  return params, np.asarray(jax.block_until_ready(history.loss)).ravel()


def _record(config, workdir, compared: Comparison, target: str) -> None:
  workdir.save_table(
    f'errors_{target}',
    error_rows(config, compared),
    f'Mean squared distance to the ability of all responses on {target}, and '
    'its change against MFI; 95 % intervals: bootstrap of examinees, t over '
    'folds.',
  )
  rows = []
  for new in _names(config):
    for reference in config.rules:
      found = compared.saved(new, [reference], config.lengths)[-1]
      rows.append(
        {
          'rule': new,
          'against': reference,
          **found.row('saved'),
          'never as good': compared.is_censored(
            new, [reference], config.lengths
          ),
        }
      )
      workdir.headline(
        f'{target}, {new}: questions saved against {reference}',
        *(100 * x for x in found.best_interval),
        unit='%',
      )
  workdir.save_table(
    f'saved_{target}',
    rows,
    'Share of questions that transferred rules save, mean of all lengths.',
  )
  workdir.save_figure(
    f'errors_{target}',
    plots.error_curves(
      {
        name: bands(compared.error(name)[: config.lengths[-1]])
        for name in compared.names
      },
      title=target,
    ),
    f'Errors against the number of items on {target}.',
  )


def _claims(config, compared: Comparison, target: str):
  for name, source in _names(config).items():
    where = f'{source} -> {target}'
    if 'random' in compared.names:
      yield compared.saved(name, ['random'], config.lengths)[-1].claim(
        f'{where}: a transferred GPM needs 20 % fewer questions than random '
        'choice',
        *(PAPER, 0.2, '>', 'share of questions'),
      )
    if 'mfi' not in compared.names:
      continue
    change = compared.change(name, 'mfi')
    yield Claim.all_of(
      f'{where}: its error is not above that of MFI by more than {WORSE:.0%}',
      PAPER,
      [
        change[length - 1].claim(
          f'T = {length}', PAPER, WORSE, '<', 'relative change'
        )
        for length in config.lengths
      ],
    )
    yield compared.saved(name, ['mfi'], config.lengths)[-1].claim(
      f'{where}: it needs fewer questions than MFI',
      *(PAPER, 0.0, '>', 'share of questions'),
    )
