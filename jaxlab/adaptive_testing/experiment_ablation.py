"""Gradient Path Matching with one thing changed at a time."""

from jaxlab.adaptive_testing import experiment_rules as rules
from jaxlab.adaptive_testing.experiment_accuracy import (
  save_errors,
  save_exposure,
  save_savings,
  save_training,
)
from jaxlab.adaptive_testing.experiment_bench import Bench, check_config
from jaxlab.adaptive_testing.experiment_claims import PAPER, references
from jaxlab.adaptive_testing.experiment_compare import Comparison
from jaxlab.harness.claims import Claim
from jaxlab.harness.settings import key_of


def run(config, workdir) -> None:
  """Tests examinees by variants of the rule."""
  check_config(config)
  bench = Bench(config, workdir)
  played = bench.play(config.rules)
  outcome = bench.outcome(played, config.rules)
  key = key_of(config.seed, 'bootstrap')
  compared = Comparison(
    outcome.errors, outcome.fold, key, resamples=config.resamples
  )
  save_errors(config, workdir, compared)
  save_savings(config, workdir, compared)
  save_exposure(config, workdir, bench, played)
  save_training(config, workdir, bench, played)
  _save_variants(config, workdir, compared)
  for claim in _claims(config, compared):
    workdir.add_claim(claim)


def _save_variants(config, workdir, compared: Comparison) -> None:
  rows = []
  known = references(compared.names)
  for name in compared.names:
    about = rules.VARIANTS[name].about if name in rules.VARIANTS else ''
    row = {'rule': name, 'what is different': about}
    if name != rules.GPM and rules.GPM in compared.names:
      change = compared.change(name, rules.GPM)
      for length in config.lengths:
        row |= change[length - 1].row(f'change against gpm, T = {length}')
    if name != 'mfi' and 'mfi' in known:
      saved = compared.saved(name, known['mfi'], config.lengths)[-1]
      row |= saved.row('saved against mfi')
      workdir.headline(
        f'questions saved against mfi, {name}',
        *(100 * x for x in saved.best_interval),
        unit='%',
      )
    rows.append(row)
  workdir.save_table(
    'variants',
    rows,
    'Relative change of the error against the default, and share of questions '
    'saved against MFI; 95 % intervals: bootstrap of examinees, t over folds.',
  )


def _claims(config, compared: Comparison):
  last = config.lengths[-1]
  wanted = {
    'gpm_mean': 'Matching Newton steps is better than matching mean gradients',
    'gpm_student': 'The linear path is better than the path of the student',
    'gpm_teacher': 'The linear path is better than the path of the teacher',
    rules.FULL_SPACE: 'Paths are better than the whole space',
    'gpm_bank_mlp': 'Scores item by item are better than a network of the bank',
    'gpm_straight_through': 'All candidates are better than sampled picks',
    'gpm_no_residuals': 'Residual correlations are worth something',
    'gpm_items': 'One network for all items is better than parts for each',
    'gpm_mepv_start': 'The closed form is a better start than MEPV',
    'gpm_skip': 'The network is worth something over the skip term',
    'pool_reduction': 'Learning is worth something over the closed form',
  }
  for name, text in wanted.items():
    if name not in compared.names or rules.GPM not in compared.names:
      continue
    change = compared.change(rules.GPM, name)
    yield Claim.all_of(
      f'{text}: relative change of the error of gpm against {name}',
      PAPER,
      [
        change[length - 1].claim(
          f'T = {length}', PAPER, 0.0, '<', 'relative change'
        )
        for length in config.lengths
        if 2 * length > last
      ],
    )
