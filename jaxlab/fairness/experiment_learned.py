"""From features to decisions: a model, calibration by group, a fair rule.

Each seed splits the people into three: the model learns on the first part, its
scores are calibrated group by group on the second, which also gives the
distribution of the scores, and rules are measured on the third.
"""

import functools
from typing import NamedTuple

import jax
import numpy as np

from jaxlab import data, errors, stats
from jaxlab.data import records as people
from jaxlab.data import tables
from jaxlab.fairness import comparison, plots
from jaxlab.fairness import experiment_records as records
from jaxlab.fairness.calibration import apply_calibrator, fit_calibrator
from jaxlab.fairness.calibrators import METHODS
from jaxlab.fairness.decisions import decision_probabilities
from jaxlab.fairness.grouping import make_groups
from jaxlab.fairness.metrics import group_metrics
from jaxlab.fairness.rival import fairlearn_decisions
from jaxlab.fairness.scorer import apply_scorer, fit_scorer
from jaxlab.fairness.types import INFEASIBLE, GroupScores
from jaxlab.harness.progress import Progress

_MEASURES = ('accuracy', 'PPV gap', 'FOR gap', 'TPR gap', 'FPR gap')
_CHANCE = 'Chance'


class Part(NamedTuple):
  """Features, labels and groups of some people."""

  x: np.ndarray
  y: np.ndarray
  group: np.ndarray


def run(config, workdir) -> None:
  """Runs all seeds and compares the methods on the people held out."""
  _check(config)
  everyone, group = _people(config)
  methods = comparison.methods(rate_floor=config.rate_floor)
  programs = {name: jax.jit(method) for name, method in methods.items()}
  found = []
  with Progress('seeds', config.seeds) as progress:
    for seed in range(config.seeds):
      measure = functools.partial(
        _one_seed, config, everyone, group, programs, config.seed + seed
      )
      found.append(workdir.cached(f'seed-{config.seed + seed}', measure))
      progress.advance()
  _record(workdir, found)


def _check(config) -> None:
  records.check_positive(
    config,
    *('seeds', 'steps', 'batch_size', 'max_atoms', 'learning_rate'),
    'rate_floor',
  )
  is_width = all(isinstance(w, int) and w > 0 for w in config.hidden)
  records.check(config, 'hidden', is_width, 'widths above 0, or none')
  records.check(
    config, 'weight_decay', 0 <= config.weight_decay < np.inf, 'at least 0'
  )
  records.check(config, 'rate_floor', config.rate_floor < 0.5, 'below 0.5')
  if config.calibrator not in METHODS:
    known = ', '.join(METHODS)
    raise errors.UserError(
      f'config.calibrator is {config.calibrator!r}; choose one of {known}.'
    )
  shares = config.shares
  records.check(
    config,
    'shares',
    len(shares) == 3 and min(shares) > 0 and sum(shares) <= 1 + 1e-9,
    'three shares above 0 that sum to 1 at most',
  )
  records.check(config, 'max_people', config.max_people >= 0, 'at least 0')
  records.check(
    config,
    'groups',
    len(set(config.groups)) == len(config.groups) > 1,
    'two or more different groups',
  )


def _people(config) -> tuple[people.Records, np.ndarray]:
  """The people of the groups, and the group of each."""
  everyone = data.load(config.dataset)
  if not isinstance(everyone, people.Records):
    raise errors.UserError(
      f'config.dataset is {config.dataset!r}, which has no features of people; '
      "choose 'adult', 'german', 'acs' or 'breast_cancer'."
    )
  if config.attribute not in everyone.attributes:
    known = ', '.join(everyone.attributes)
    raise errors.UserError(
      f'config.attribute is {config.attribute!r}; {config.dataset} has {known}.'
    )
  values = everyone.attributes[config.attribute]
  unknown = [name for name in config.groups if name not in values]
  if unknown:
    raise errors.UserError(
      f'config.groups names {unknown[0]!r}; {config.attribute} is one of '
      f'{", ".join(np.unique(values))}.'
    )
  group = tables.group_index(values, tuple(config.groups))
  return people.take(everyone, group >= 0), group[group >= 0]


def _one_seed(config, everyone, group, programs, seed: int):
  """Measures of every method on the people held out."""
  split_key, model_key = jax.random.split(jax.random.key(seed))
  train, middle, held = _split(config, everyone, group, split_key)
  _check_parts(config, middle, held)
  hidden = tuple(config.hidden)
  params = fit_scorer(
    model_key,
    train.x,
    train.y,
    hidden=hidden,
    steps=config.steps,
    batch_size=config.batch_size,
    learning_rate=config.learning_rate,
    weight_decay=config.weight_decay,
  )
  score = functools.partial(apply_scorer, params, hidden=hidden)
  calibrator = fit_calibrator(
    config.calibrator, score(middle.x), middle.y, middle.group
  )
  seen = apply_calibrator(calibrator, score(middle.x), middle.group)
  gs = _distribution(config, np.asarray(seen), middle.group)
  new = apply_calibrator(calibrator, score(held.x), held.group)
  measured = {}
  for name, program in programs.items():
    rule = program(gs)
    if int(rule.status) == INFEASIBLE:
      measured[name] = np.full(len(_MEASURES), np.nan)
      if name == comparison.NON_VACUOUS:
        measured[_CHANCE] = measured[name]
      continue
    probability = decision_probabilities(rule, gs, new, held.group, snap=True)
    measured[name] = _measures(held, np.asarray(probability))
    if name == comparison.NON_VACUOUS:
      rates = float(rule.ppv), float(rule.for_)
      measured[_CHANCE] = _by_chance(held, np.asarray(probability), rates)
  rivals = fairlearn_decisions(
    *(np.asarray(seen), middle.y, middle.group, np.asarray(new), held.group)
  )
  for name, decided in rivals.items():
    measured[name] = _measures(held, np.asarray(decided, float))
  return measured


def _check_parts(config, middle: Part, held: Part) -> None:
  """Both labels of every group to calibrate, and somebody to measure."""
  for number, name in enumerate(config.groups):
    labels = np.unique(middle.y[middle.group == number])
    if len(labels) < 2 or number not in held.group:
      raise errors.UserError(
        f'config.max_people is {config.max_people} and config.shares '
        f'{config.shares}: too few people of group {name!r} to calibrate and '
        'to measure; raise them.'
      )


def _distribution(config, scores: np.ndarray, group: np.ndarray) -> GroupScores:
  """The calibrated scores of each group, in the room that the config gives."""
  for number, name in enumerate(config.groups):
    count = len(np.unique(scores[group == number]))
    if count > config.max_atoms:
      raise errors.UserError(
        f'config.max_atoms is {config.max_atoms}, but group {name!r} has '
        f'{count} different calibrated scores; raise it.'
      )
  return make_groups(scores, group, max_atoms=config.max_atoms)


def _split(config, everyone, group, key) -> list[Part]:
  """Three parts of people in random order; features scaled on the first."""
  order = np.asarray(jax.random.permutation(key, len(group)))
  if config.max_people:
    order = order[: config.max_people]
  cuts = np.cumsum([int(len(order) * share) for share in config.shares])
  rows = np.split(order[: cuts[-1]], cuts[:-1])
  encoding = people.fit_encoding(people.take(everyone, rows[0]), min_count=20)
  return [
    Part(
      people.encode(encoding, people.take(everyone, part)),
      everyone.labels[part],
      group[part],
    )
    for part in rows
  ]


def _measures(held: Part, probability: np.ndarray) -> np.ndarray:
  """`[5]` accuracy and gaps, in the order of `_MEASURES`.

  A gap is nan where a group has no such rate: nobody was accepted, say.
  """
  num_groups = int(held.group.max()) + 1
  rates = group_metrics(held.y, probability, held.group, num_groups)
  right = np.where(held.y == 1, probability, 1 - probability)
  gaps = (rates.ppv, rates.for_, rates.tpr, rates.fpr)
  return np.asarray([right.mean(), *(np.ptp(np.asarray(gap)) for gap in gaps)])


def _by_chance(held: Part, probability, rates) -> np.ndarray:
  """Gaps that a perfectly sufficient rule would show on as many people.

  The labels are drawn anew with the rule's own PPV and FOR, so that all that
  remains is the chance of a finite sample.
  """
  rng = np.random.default_rng(0)
  draws = []
  for _ in range(200):
    decided = rng.random(len(probability)) < probability
    y = rng.random(len(probability)) < np.where(decided, *rates)
    draws.append(_measures(held._replace(y=y), decided.astype(float)))
  mean = np.nanmean(draws, axis=0)
  mean[[0, 3, 4]] = np.nan
  return mean


def _record(workdir, found) -> None:
  methods = list(found[0])
  values = {name: np.stack([seed[name] for seed in found]) for name in methods}
  table = []
  for name, rows in values.items():
    row = {'method': name, 'solved': int(np.isfinite(rows[:, 0]).sum())}
    for measure, column in zip(_MEASURES, rows.T, strict=True):
      mean, low, high = _mean(column)
      row |= {measure: mean, f'{measure} low': low, f'{measure} high': high}
    table.append(row)
  workdir.save_table(
    'held_out',
    table,
    f'Means over {len(found)} seeds with 95 % t intervals, on people held out; '
    'nan where in some seed nobody in a group was accepted or the rule was '
    'infeasible. "Chance" is what a perfectly sufficient rule would show on as '
    'many people.',
  )
  for label, chosen in (
    ('sufficiency', ('PPV gap', 'FOR gap')),
    ('separation', ('TPR gap', 'FPR gap')),
  ):
    bars = {
      measure: _ends(values, _MEASURES.index(measure)) for measure in chosen
    }
    workdir.save_figure(
      label,
      plots.gaps_by_method(methods, bars),
      f'Gaps of {label} on people held out.',
    )
  _claims(workdir, values)


def _claims(workdir, values) -> None:
  """Gaps against one threshold, and what they cost."""
  rule = values[comparison.NON_VACUOUS]
  least = values[comparison.SUFFICIENT]
  workdir.headline('seeds with a feasible rule', np.isfinite(rule[:, 0]).mean())
  workdir.headline(
    'seeds whose least loss leaves no rate of a group undefined',
    np.isfinite(least[:, 1:3]).all(1).mean(),
  )
  solved = np.isfinite(rule[:, 1:3]).all(1)
  if solved.sum() < 2:
    return
  rule = rule[solved]
  free, chance = values[comparison.BAYES][solved], values[_CHANCE][solved]
  for column in (1, 2):
    before, after = free[:, column].mean(), rule[:, column].mean()
    workdir.add_claim(
      records.mean_claim(
        f'Held-out {_MEASURES[column]} at least three times smaller than that'
        ' of one threshold',
        free[:, column] - 3 * rule[:, column],
        threshold=0.0,
        sense='>',
        unit='gap of one threshold less three times that of the rule',
        note=f'gaps {before:.4f} and {after:.4f}; by chance alone a perfect'
        f' rule shows {chance[:, column].mean():.4f} on as many people',
      )
    )
  lost = 100 * (free[:, 0] - rule[:, 0])
  workdir.headline('accuracy lost', *_mean(lost), unit='accuracy points')
  workdir.headline(
    'accuracy of one threshold', *_mean(100 * free[:, 0]), unit='%'
  )
  workdir.add_claim(
    records.mean_claim(
      'Equal PPV and FOR cost less than one accuracy point',
      lost,
      threshold=1.0,
      sense='<',
      unit='accuracy points',
    )
  )


def _ends(values, column: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Means and interval ends of a measure, one for each method."""
  mean, low, high = np.asarray(
    [_mean(rows[:, column]) for rows in values.values()]
  ).T
  return mean, low, high


def _mean(column: np.ndarray) -> tuple[float, float, float]:
  """Mean and 95 % t interval; nan where a seed has no value."""
  if len(column) < 2 or not np.isfinite(column).all():
    return np.nan, np.nan, np.nan
  interval = stats.mean_interval(column, level=records.LEVEL)
  return float(column.mean()), float(interval.low), float(interval.high)
