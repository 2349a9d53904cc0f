"""Rules against the best of all subsets, in banks that are small enough."""

import functools

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from jaxlab.adaptive_testing import estimate, metrics, paths, plots
from jaxlab.adaptive_testing import experiment_folds as folds
from jaxlab.adaptive_testing import experiment_rules as rules
from jaxlab.adaptive_testing.experiment_claims import PAPER
from jaxlab.adaptive_testing.simulate import run_cat
from jaxlab.harness.claims import Claim
from jaxlab.harness.evidence import mean_claim, share_claim, with_interval
from jaxlab.harness.progress import Progress
from jaxlab.harness.settings import (
  check,
  check_names,
  check_positive,
  check_seeds,
  key_of,
)

_MOST_ITEMS = 20
_BEST = 'best'
_GREEDY = 'greedy, sees all responses'


def run(config, workdir) -> None:
  """Enumerates the subsets of each examinee, bank by bank."""
  folds.check_config(config)
  check_names(config, 'rules', rules.RULES)
  check_positive(
    config, 'rounds', 'steps', 'batch', 'rival_steps', 'num_points'
  )
  check_positive(config, 'sizes')
  check(config, 'num_points', config.num_points >= 3, 'at least 3')
  check_seeds(config, 'folds')
  good = config.data == folds.SIMULATED and config.num_items <= _MOST_ITEMS
  check(config, 'num_items', good, f'at most {_MOST_ITEMS}, simulated')
  good = max(config.sizes) < config.num_items
  check(config, 'sizes', good, 'below config.num_items')
  cells = [(k, size) for k in range(config.folds) for size in config.sizes]
  found = {}
  with Progress('banks and subset sizes', len(cells)) as progress:
    for number, size in cells:
      found[number, size] = workdir.cached(
        f'bank-{number}/size-{size}',
        functools.partial(_measure, config, number, size),
      )
      progress.advance()
  _record(config, workdir, found)


def _measure(config, number: int, size: int) -> dict[str, np.ndarray]:
  """Match values of subsets: `best`, and one array `[E]` for each rule."""
  fold = folds.fold_of(config, number)
  bank, y = fold.bank, jnp.asarray(fold.y, float)
  points = paths.path_points(
    *(bank, y, jnp.zeros(len(y))),
    num_points=config.num_points,
    kind='linear',
    target=fold.target,
  )
  subsets, best = paths.best_subset(bank, y, size, points)
  greedy, greedy_value = paths.greedy_subset(bank, y, size, points)
  masks = {
    _BEST: _mask(subsets, bank.num_items),
    _GREEDY: _mask(np.asarray(greedy), bank.num_items),
  }
  values = {_BEST: np.asarray(best), _GREEDY: np.asarray(greedy_value)}
  own = ml_collections.ConfigDict({**config.to_dict(), 'horizon': size})
  for name in config.rules:
    key = key_of(config.seed, 'train', name, number, size)
    rule = rules.train(name, fold, own, key)
    trace = run_cat(
      *(rule.selector, rule.params, bank, fold.y),
      test_length=size,
      key=key_of(config.seed, 'test', number),
    )
    masks[name] = np.asarray(trace.asked)
    values[name] = np.asarray(
      paths.match_value(bank, y, trace.asked, points, 'newton')
    )
  estimate_from = jax.jit(estimate.map_newton)
  errors = {
    f'error of {name}': np.asarray(
      metrics.squared_errors(estimate_from(bank, y, mask)[None], fold.target)[0]
    )
    for name, mask in masks.items()
  }
  return {'subsets': subsets, **values, **errors}


def _mask(items: np.ndarray, num_items: int) -> np.ndarray:
  mask = np.zeros((len(items), num_items), bool)
  mask[np.arange(len(items))[:, None], items] = True
  return mask


def _record(config, workdir, found) -> None:
  names = (_BEST, _GREEDY, *config.rules)
  rows, shares = [], []
  for size in config.sizes:
    banks = [found[number, size] for number in range(config.folds)]
    distinct = [len(np.unique(x['subsets'], axis=0)) for x in banks]
    shares.append([1 - _most_common(x['subsets']) for x in banks])
    for name in names:
      ratio = [x[name].mean() / x[_BEST].mean() for x in banks]
      hits = [np.mean(x[name] <= x[_BEST] * (1 + 1e-4)) for x in banks]
      rows.append(
        {
          'T': size,
          'rule': name,
          **with_interval('value over best', np.array(ratio)),
          **with_interval('share with the best subset', np.array(hits)),
          **with_interval(
            'MSE of ability',
            np.array([x[f'error of {name}'].mean() for x in banks]),
          ),
          'different best subsets': float(np.mean(distinct)),
        }
      )
  workdir.save_table(
    'values',
    rows,
    'Mean match value of the subsets of a rule over the mean of the best '
    'subsets, found by enumeration, and mean squared distance to the ability '
    f'of all responses; 95 % t intervals over {config.folds} banks. The best '
    'and the greedy subset know all responses, also those to items that they '
    'leave out.',
  )
  last = found[0, config.sizes[-1]]
  workdir.save_figure(
    'values',
    plots.regrets(
      {
        name: last[name] / np.maximum(last[_BEST], 1e-12)
        for name in names
        if name != _BEST
      },
      title=f'{config.num_items} items, subsets of {config.sizes[-1]}',
    ),
    'How often a rule is within a factor of the best subset of an examinee.',
  )
  last_row = {row['rule']: row for row in rows if row['T'] == config.sizes[-1]}
  for name in names:
    row = last_row[name]
    for field in ('value over best', 'MSE of ability'):
      if name != _BEST or field != 'value over best':
        workdir.headline(
          f'{field}, T = {config.sizes[-1]}, {name}',
          *(row[f'{field}{end}'] for end in ('', ' low', ' high')),
        )
  for claim in _claims(config, found, np.mean(shares, axis=0)):
    workdir.add_claim(claim)


def _most_common(subsets: np.ndarray) -> float:
  """Share of the examinees whose best subset is the most common one."""
  _, counts = np.unique(subsets, axis=0, return_counts=True)
  return counts.max() / counts.sum()


def _claims(config, found, shares):
  yield mean_claim(
    'The best subset is personal: share of examinees whose best subset is not '
    'the most common one',
    shares,
    threshold=0.5,
    sense='>',
    unit='share',
    source=PAPER,
    note='a seed is a bank; mean over sizes',
  )

  def pooled(name):
    size = config.sizes[-1]
    return np.concatenate([found[k, size][name] for k in range(config.folds)])

  yield share_claim(
    f'Greedy growth to {config.sizes[-1]} items with all responses known is '
    'within 10 % of the best match value for most examinees',
    pooled(_GREEDY) <= 1.1 * pooled(_BEST),
    threshold=0.5,
    sense='>',
    source=PAPER,
  )
  for rival in ('random', 'mfi', 'mepv', rules.FULL_SPACE):
    if rival in config.rules and rules.GPM in config.rules:
      parts = []
      for size in config.sizes:
        change = np.array(
          [
            found[k, size][rules.GPM].mean() / found[k, size][rival].mean() - 1
            for k in range(config.folds)
          ]
        )
        parts.append(
          mean_claim(
            f'T = {size}',
            change,
            threshold=0.0,
            sense='<',
            unit='relative change',
            source=PAPER,
          )
        )
      yield Claim.all_of(
        f'GPM has lower match values than {rival}', PAPER, parts
      )
