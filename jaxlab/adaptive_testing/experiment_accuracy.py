"""Errors of abilities against the length of tests, by rule."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxlab import stats
from jaxlab.adaptive_testing import experiment_claims as claims
from jaxlab.adaptive_testing import experiment_rules as rules
from jaxlab.adaptive_testing import metrics, plots
from jaxlab.adaptive_testing.experiment_bench import (
  Bench,
  Played,
  check_config,
)
from jaxlab.adaptive_testing.experiment_compare import Comparison, Measured
from jaxlab.harness.settings import key_of

Tests = dict[tuple[str, int], Played]


def run(config, workdir) -> None:
  """Tests examinees by all rules."""
  check_config(config)
  bench = Bench(config, workdir)
  played = bench.play(config.rules)
  outcome = bench.outcome(played, config.rules)
  key = key_of(config.seed, 'bootstrap')
  compare = functools.partial(
    Comparison, fold=outcome.fold, key=key, resamples=config.resamples
  )
  compared = compare(outcome.errors)
  save_errors(config, workdir, compared)
  save_savings(config, workdir, compared)
  save_exposure(config, workdir, bench, played)
  save_predictions(config, workdir, bench, played)
  save_training(config, workdir, bench, played)
  _save_recovery(config, workdir, bench, played)
  _add_headlines(config, workdir, bench, compared)
  for claim in claims.of_rules(config, compared):
    workdir.add_claim(claim)
  if outcome.true_errors:
    _add_truth(config, workdir, compare(outcome.true_errors))


def save_errors(config, workdir, compared: Comparison) -> None:
  """Tables and figures of the errors."""
  rows = error_rows(config, compared)
  workdir.save_table(
    'errors',
    rows,
    'Mean squared distance to the ability of all responses after T items, and '
    'its relative change against MFI; 95 % intervals: bootstrap of examinees, '
    't over folds.',
  )
  workdir.save_figure(
    'errors',
    plots.error_curves(
      {
        name: bands(compared.error(name)[: config.lengths[-1]])
        for name in _gpm_first(compared.names)
      },
      title=title_of(config),
    ),
    'Mean squared distance to the ability of all responses against the number '
    'of items, with 95 % intervals over examinees.',
  )


def _add_truth(config, workdir, compared: Comparison) -> None:
  """The table and the claim of errors against the true abilities."""
  workdir.save_table(
    'true_errors',
    error_rows(config, compared),
    'The same against the true ability, which adds the error that all '
    'responses leave.',
  )
  for claim in claims.of_truth(config, compared):
    workdir.add_claim(claim)


def _gpm_first(names: Sequence[str]) -> list[str]:
  """The names in an order that gives GPM a look of its own."""
  return sorted(names, key=lambda name: name != rules.GPM)


def error_rows(config, compared: Comparison) -> list[dict[str, Any]]:
  """Errors by rule and length, as rows of a table."""
  rows = []
  for name in compared.names:
    error = compared.error(name)
    change = compared.change(name, 'mfi') if 'mfi' in compared.names else None
    for length in config.lengths:
      row = {'rule': name, 'T': length, **error[length - 1].row('MSE')}
      if change is not None:
        row |= change[length - 1].row('change against mfi')
      rows.append(row)
  return rows


def bands(
  found: Sequence[Measured],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Values and ends of intervals, for figures."""
  return (
    np.array([x.value for x in found]),
    np.array([x.low for x in found]),
    np.array([x.high for x in found]),
  )


def save_savings(config, workdir, compared: Comparison) -> None:
  """The table of questions saved, and its figure for GPM."""
  rows, bars = [], {}
  known = claims.references(compared.names)
  for new in compared.names:
    if not (rules.is_learned(new) or new == 'pool_reduction'):
      continue
    for label, names in known.items():
      if new in names:
        continue
      found = compared.saved(new, names, config.lengths)
      each = {
        f'T = {length}': x.value
        for length, x in zip(config.lengths, found, strict=False)
      }
      rows.append(
        {
          'rule': new,
          'against': label,
          **found[-1].row('saved'),
          **each,
          'never as good': compared.is_censored(new, names, config.lengths),
          'folds': ' '.join(f'{x:.3f}' for x in found[-1].by_fold),
        }
      )
      if new == rules.GPM:
        bars[label] = found[-1]
  if not rows:
    return
  lengths = ', '.join(map(str, config.lengths))
  workdir.save_table(
    'saved',
    rows,
    f'Share of questions saved for the same error, mean of T = {lengths}; '
    '95 % intervals: bootstrap of examinees, t over folds. Where a rule never '
    'becomes as good its loss is larger than stated.',
  )
  if bars:
    workdir.save_figure(
      'saved',
      plots.savings(
        {k: (x.value, x.low, x.high) for k, x in bars.items()},
        published=claims.SAVED,
        title=title_of(config),
      ),
      'Questions that GPM saves against each rule, with 95 % intervals over '
      'examinees; dashed: what the paper claims.',
    )


def save_exposure(config, workdir, bench: Bench, played: Tests) -> None:
  """How evenly items are used."""
  rows, curves = [], {}
  for name in _gpm_first(config.rules):
    found = []
    for number in bench.numbers:
      n = bench.fold(number).bank.num_items
      items = played[name, number].items[: config.horizon]
      asked = np.zeros((items.shape[1], n), bool)
      asked[np.arange(items.shape[1]), items] = True
      rates = np.asarray(metrics.exposure_rates(asked))
      found.append((rates, float(metrics.overlap_rate(asked))))
    # Folds of one data set may keep different items.
    rates = np.concatenate([rates for rates, _ in found])
    rows.append(
      {
        'rule': name,
        'highest exposure': float(rates.max()),
        'items above 0.3': float(np.mean(rates > 0.3)),
        'items never asked': float(np.mean(rates == 0)),
        'overlap of two tests': float(np.mean([x for _, x in found])),
      }
    )
    curves[name] = np.sort(found[0][0])[::-1]
  workdir.save_table(
    'exposure',
    rows,
    f'Shares of examinees that see an item in a test of {config.horizon}, and '
    'of items that two tests have in common.',
  )
  workdir.save_figure(
    'exposure',
    plots.exposure(curves, title=title_of(config)),
    'Share of examinees that see each item, most used items first.',
  )


def save_predictions(config, workdir, bench: Bench, played: Tests) -> None:
  """How well unfinished tests predict answers that were held out."""
  if not config.held_out:
    return
  predict = jax.jit(metrics.predict_held_out)
  rows = []
  for name in config.rules:
    if name == rules.ORACLE:
      continue
    for length in config.lengths:
      found = np.array(
        [
          predict(
            bench.fold(k).bank,
            played[name, k].held_theta[length - 1],
            bench.fold(k).y,
            bench.held_out(k),
          )
          for k in bench.numbers
        ]
      )
      rows.append(
        {
          'rule': name,
          'T': length,
          **_over_folds('accuracy', found[:, 0]),
          **_over_folds('AUC', found[:, 1]),
        }
      )
  workdir.save_table(
    'predictions',
    rows,
    f'Prediction of {config.held_out:.0%} of the answers, held out from each '
    'examinee, after T of the others; 95 % t intervals over folds.',
  )


def _over_folds(name: str, values: np.ndarray) -> dict[str, float]:
  ends = (np.nan, np.nan)
  if len(values) > 2:
    interval = stats.mean_interval(values, level=0.95)
    ends = float(interval.low), float(interval.high)
  return {name: values.mean(), f'{name} low': ends[0], f'{name} high': ends[1]}


def save_training(config, workdir, bench: Bench, played: Tests) -> None:
  """The split, and what trainings saw."""
  workdir.save_table(
    'split',
    [bench.fold(number).audit for number in bench.numbers],
    'Examinees of each fold, those in both parts, and sizes of the '
    'correlations C that the model leaves in the answers of training '
    'examinees.',
  )
  rows, curves = [], {}
  for (name, number), found in played.items():
    if not len(found.loss):
      continue
    tenth = max(len(found.loss) // 10, 1)
    rows.append(
      {
        'rule': name,
        'fold': number,
        'first loss': float(found.loss[:tenth].mean()),
        'last loss': float(found.loss[-tenth:].mean()),
        'seconds': found.seconds,
      }
    )
    if number == 0 and name in rules.VARIANTS:
      curves[name] = found.loss
  if rows:
    workdir.save_table(
      'training',
      rows,
      'Loss in the first and the last tenth of a training. That of GPM is 0 '
      'for a rule without preference; seconds include compilation.',
    )
  if curves:
    workdir.save_figure(
      'training',
      plots.training(curves, title=title_of(config)),
      'Loss of GPM by step, smoothed.',
    )


def _save_recovery(config, workdir, bench: Bench, played: Tests) -> None:
  fold = bench.fold(0)
  shown = [n for n in ('random', 'mfi', rules.GPM) if n in config.rules]
  if not shown:
    return
  target = fold.target.reshape(len(fold.target), -1)[:, 0]
  length = config.lengths[len(config.lengths) // 2]
  estimates = {
    name: np.asarray(played[name, 0].theta)[length - 1] for name in shown
  }
  workdir.save_figure(
    'recovery',
    plots.recovery(
      target,
      {k: x.reshape(len(target), -1)[:, 0] for k, x in estimates.items()},
      title=f'{title_of(config)}, after {length} items',
    ),
    'Estimated ability of each examinee against that of all responses.',
  )


def _add_headlines(config, workdir, bench: Bench, compared: Comparison) -> None:
  last = config.lengths[-1]
  for name in ('random', 'mfi', rules.GPM, rules.ORACLE):
    if name in compared.names:
      found = compared.error(name)[last - 1]
      workdir.headline(f'MSE after {last} items, {name}', *found.best_interval)
  known = claims.references(compared.names)
  if rules.GPM in compared.names:
    for label in (claims.BEST, 'mfi', 'random'):
      if label in known:
        found = compared.saved(rules.GPM, known[label], config.lengths)[-1]
        workdir.headline(
          f'questions saved against {label}',
          *(100 * x for x in found.best_interval),
          unit='%',
        )
  audits = [bench.fold(number).audit for number in bench.numbers]
  workdir.headline(
    'examinees in training and test', sum(x['in both'] for x in audits)
  )
  workdir.headline('mean |C|', np.mean([x['mean |C|'] for x in audits]))


def title_of(config) -> str:
  """What is seen, in a few words."""
  if config.data != 'simulated':
    return f'{config.data}, {config.model}'
  return f'simulated {config.model}, {config.num_items} items'
