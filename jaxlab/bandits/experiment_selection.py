"""Model selection with few evaluations: which of 4,096 classifiers is best?"""

import functools

import jax
import numpy as np

from jaxlab import data
from jaxlab.bandits import candidates, comparison, plots, replay
from jaxlab.bandits import experiment_records as records
from jaxlab.harness.claims import Claim
from jaxlab.harness.progress import Progress

_POINTS = 'accuracy points'


def run(config, workdir) -> None:
  """Trains the candidates, replays their scores, compares the methods."""
  records.check_positive(config, 'num_arms', 'replications', 'budgets')
  pool_key, play_key = jax.random.split(jax.random.key(config.seed))
  train, held = data.load('digits', 'train'), data.load('digits', 'test')

  def train_pool():
    settings = candidates.draw_settings(pool_key, config.num_arms)
    score = jax.jit(
      functools.partial(candidates.correct_answers, batch_size=128)
    )
    return {'correct': score(settings, *train, *held)}

  correct = workdir.cached('candidates', train_pool)['correct']
  accuracy = correct.mean(1)
  env = replay.table(correct, recycle=True)
  contenders = [
    comparison.b3(),
    *comparison.halving_rivals(),
    *comparison.bracket_rivals(0.5, config.max_bracket_budget),
    *comparison.index_rivals(
      0.5,
      comparison.complexity_h1(accuracy),
      config.num_arms,
      config.max_index_budget,
    ),
  ]
  units = comparison.num_units(contenders)
  with Progress('comparing methods', units) as progress:
    found = comparison.compare(
      play_key,
      contenders,
      env,
      budgets=config.budgets,
      replications=config.replications,
      cached=lambda name, compute: workdir.cached(
        records.unit_name('regrets', name), compute
      ),
      progress=lambda _: progress.advance(),
    )
  _record(config, workdir, accuracy, correct.shape[1], found)


def _record(config, workdir, accuracy, num_examples: int, found) -> None:
  rows = records.regret_rows(found, 'B3', scale=100.0)
  workdir.save_table(
    'regret',
    rows,
    'Simple regret in accuracy points with 95 % intervals; "minus B3" is the '
    'paired difference over replications.',
  )
  curves = comparison.curves(records.scaled(found.regrets, 100.0))
  fig = plots.regret_curves(
    found.budgets,
    curves,
    title='Simple regret (accuracy points)',
    log_regret=True,
  )
  workdir.save_figure(
    'regret',
    fig,
    'Regret of the chosen classifier against the number of evaluations; '
    f'scoring all {len(accuracy)} on all {num_examples} examples takes '
    f'{len(accuracy) * num_examples:,}.',
  )
  workdir.headline('best candidate', 100 * accuracy.max(), unit='% correct')
  workdir.headline(
    'median candidate', 100 * np.median(accuracy), unit='% correct'
  )
  last = len(found.budgets) - 1
  mean, low, high = (end[last] for end in curves['B3'])
  workdir.headline(
    f'B3 regret after {found.budgets[last]} evaluations',
    mean,
    low,
    high,
    _POINTS,
  )
  for claim in claims(config, found):
    workdir.add_claim(claim)


def claims(config, found) -> list[Claim]:
  """What the paper says of B3 against other methods, on this problem."""
  budgets = [b for b in config.budgets if b >= config.claims_from]
  excess = functools.partial(
    records.excess_claims, found, scale=100.0, unit=_POINTS, better='B3'
  )
  joint = functools.partial(Claim.all_of, paper=records.PAPER)
  close = [
    records.mean_claim(
      f'B3 minus SH (knows T) at T = {budget}',
      100 * (found.regrets['B3'] - found.regrets['SH (knows T)'])[:, column],
      threshold=1.0,
      sense='<',
      unit=_POINTS,
    )
    for column, budget in enumerate(found.budgets)
    if budget in budgets
  ]
  return [
    joint(
      'Lower simple regret than uniform allocation',
      parts=excess(['Uniform'], budgets=budgets),
    ),
    joint(
      'Lower simple regret than bracketing methods (BSH, BUCB)',
      parts=excess(['BSH', 'BUCB'], budgets=budgets),
    ),
    joint(
      'Lower simple regret than anytime halving (doubling SH, Hyperband)',
      parts=excess(['Doubling SH', 'Hyperband'], budgets=budgets),
    ),
    joint(
      'Within one accuracy point of Sequential Halving that knows the budget',
      parts=close,
    ),
  ]
