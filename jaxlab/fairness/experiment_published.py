"""FICO and COMPAS: exact figures of published score distributions."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab import data, errors, parallel
from jaxlab.data import compas as compas_data
from jaxlab.data import fico as fico_data
from jaxlab.fairness import comparison, plots
from jaxlab.fairness import experiment_records as records
from jaxlab.fairness.baselines import bayes
from jaxlab.fairness.geometry import feasible_region
from jaxlab.fairness.grouping import make_groups
from jaxlab.fairness.metrics import largest_gap
from jaxlab.fairness.separation import min_separation, pareto_front
from jaxlab.fairness.sufficiency import optimal_sufficient
from jaxlab.fairness.types import GroupScores, Solution
from jaxlab.harness.progress import Progress


class Source(NamedTuple):
  """A score distribution and how to draw such data again.

  Attributes:
    gs: the groups.
    names: the K groups.
    redraw: groups of the same people drawn again, from a key.
  """

  gs: GroupScores
  names: tuple[str, ...]
  redraw: Callable[[jax.Array], GroupScores]


def run(config, workdir) -> None:
  """Tables, figures and claims of one distribution; see the configs."""
  records.check_positive(config, 'replications', 'front_points')
  records.check(config, 'replications', config.replications > 1, 'at least 2')
  sources = {'fico': _fico, 'compas': _compas}
  if config.dataset not in sources:
    known = ', '.join(sources)
    raise errors.UserError(
      f'config.dataset is {config.dataset!r}; choose one of {known}.'
    )
  _check_groups(config)
  load = functools.partial(sources[config.dataset], config)
  source = load(tuple(config.groups))
  found = _compare(source)
  more = _more_groups(config, workdir, load)
  rows = [
    records.solution_row(name, solution, source.gs, source.names)
    for name, solution in found.items()
  ]
  workdir.save_table(
    'methods',
    rows,
    'Each rule on the whole distribution; "drawn by lot" is the share of '
    'people whose decision is randomized. A rule that does not exist is nan.',
  )
  _draw(config, workdir, source, found)
  draws = workdir.cached('bootstrap', lambda: _bootstrap(config, source))
  _headlines(workdir, found, draws)
  _published(config, workdir, source, found, more)
  _claims(workdir, found, draws)


def _check_groups(config) -> None:
  """Two or more groups and others to join them, all known and different."""
  if config.dataset == 'fico':
    known = data.load('fico').names
  else:
    known = np.unique(data.load('compas', filter=config.filter).race).tolist()
  records.check_names(config, 'groups', known)
  records.check(config, 'groups', len(config.groups) > 1, 'two or more names')
  if config.more_groups:
    records.check_names(config, 'more_groups', known)
  for name in config.more_groups:
    if name in config.groups:
      raise errors.UserError(
        f'config.more_groups names {name!r}, which config.groups has already.'
      )


def _fico(config, names: tuple[str, ...]) -> Source:
  fico = data.load('fico', columns=names)
  gs = make_groups(*fico_data.as_rows(fico))
  order = np.argsort(-fico.good, axis=1)
  counts = np.take_along_axis(fico.pmf, order, 1) * fico.totals[:, None]
  scores = jnp.asarray(np.take_along_axis(fico.good, order, 1))

  def redraw(key):
    drawn = comparison.resample_cells(key, jnp.asarray(counts))
    total = jnp.sum(drawn, axis=1)
    return GroupScores(
      scores,
      drawn / total[:, None],
      total / jnp.sum(total),
      jnp.full(len(names), scores.shape[1], jnp.int32),
    )

  return Source(gs, names, redraw)


def _compas(config, names: tuple[str, ...]) -> Source:
  people = data.load('compas', filter=config.filter)
  pooled = config.score == 'pooled'
  if not pooled and config.score != 'group':
    raise errors.UserError(
      f"config.score is {config.score!r}; choose 'pooled' or 'group'."
    )
  scores, groups = compas_data.decile_scores(people, names, pooled=pooled)
  cells = np.zeros((len(names), 10, 2))
  for group, name in enumerate(names):
    rows = people.race == name
    np.add.at(cells[group], (people.decile[rows] - 1, people.labels[rows]), 1)

  def redraw(key):
    drawn = comparison.resample_cells(key, jnp.asarray(cells))
    return comparison.groups_of_cells(
      drawn[..., 1], drawn[..., 0], pooled=pooled
    )

  return Source(make_groups(scores, groups), names, redraw)


def _compare(source: Source) -> dict[str, Solution]:
  all_methods = comparison.methods()
  found = {}
  with Progress('comparing methods', len(all_methods)) as progress:
    for name, method in all_methods.items():
      found[name] = jax.device_get(jax.jit(method)(source.gs))
      progress.advance()
  return found


def _more_groups(config, workdir, load) -> dict[str, float]:
  """The least loss as further groups join one by one."""
  figures, rows = {}, []
  for count in range(len(config.more_groups) + 1):
    names = (*config.groups, *config.more_groups[:count])
    best = jax.jit(optimal_sufficient)(load(names).gs)
    figures[f'{len(names)} groups: loss'] = float(best.loss)
    rows.append(
      {
        'groups': ', '.join(names),
        'loss': float(best.loss),
        'PPV': float(best.ppv),
        'FOR': float(best.for_),
      }
    )
  workdir.save_table(
    'more_groups',
    rows,
    'The least loss under sufficiency as groups join; nan where no rule is.',
  )
  return figures


def _bootstrap(config, source: Source) -> dict[str, np.ndarray]:
  """The leading figures on people drawn again."""

  def one(key):
    gs = source.redraw(key)
    free, best, close = bayes(gs), optimal_sufficient(gs), min_separation(gs)
    return {
      'PPV gap of Bayes': largest_gap(free.ppv),
      'FOR gap of Bayes': largest_gap(free.for_),
      'accuracy': 1 - best.loss,
      'PPV': best.ppv,
      'FOR': best.for_,
      'accuracy lost': best.loss - free.loss,
      'extra loss': close.loss - best.loss,
    }

  keys = parallel.replication_keys(
    jax.random.key(config.seed), config.replications
  )
  return parallel.gather(parallel.sharded_vmap(one, chunk=256)(keys))


def _draw(config, workdir, source: Source, found) -> None:
  best = found[comparison.SUFFICIENT]
  close = found[comparison.SEPARATED]
  region = jax.jit(functools.partial(feasible_region, n_points=256))(source.gs)
  points = {
    'least loss': (best.ppv, best.for_),
    'closest to separation': (close.ppv, close.for_),
  }
  workdir.save_figure(
    'regions',
    plots.feasible_regions(region, source.names, points),
    'The pairs of PPV and FOR that each group can have, and all at once.',
  )
  workdir.save_figure(
    'rules',
    plots.decision_rules(
      source.gs,
      source.names,
      {name: found[name] for name in (comparison.BAYES, comparison.SUFFICIENT)},
    ),
    'Who is accepted: a threshold for all, and the rule of equal PPV and FOR.',
  )
  weights = jnp.linspace(0, 1, config.front_points)
  front = jax.jit(pareto_front)(source.gs, weights)
  separation = np.asarray(front.tpr_gap + front.fpr_gap)
  workdir.save_table(
    'front',
    [
      {
        'lambda': float(weight),
        'loss': float(loss),
        'TPR gap + FPR gap': float(gap),
        'PPV': float(ppv),
        'FOR': float(for_),
      }
      for weight, loss, gap, ppv, for_ in zip(
        weights, front.loss, separation, front.ppv, front.for_, strict=True
      )
    ],
    'Rules that minimise (1 - lambda) loss + lambda separation.',
  )
  workdir.save_figure(
    'front',
    plots.trade_off(
      np.asarray(front.loss),
      separation,
      {
        name: (found[name].loss, found[name].tpr_gap + found[name].fpr_gap)
        for name in (comparison.BAYES, 'Equalized odds')
      },
    ),
    'Loss against deviation from separation.',
  )


def _headlines(workdir, found, draws) -> None:
  best = found[comparison.SUFFICIENT]
  values = {
    'accuracy': 1 - best.loss,
    'PPV': best.ppv,
    'FOR': best.for_,
  }
  for name, value in values.items():
    low, high = np.nanquantile(draws[name], [0.025, 0.975])
    workdir.headline(
      f'{name} of the least loss under sufficiency',
      float(value),
      float(low),
      float(high),
    )


def _published(config, workdir, source: Source, found, more) -> None:
  """Compares with figures that were printed for this setting."""
  figures = _figures(source, found) | more
  for target in config.published.values():
    if all(config[field] == value for field, value in target.when.items()):
      workdir.add_claim(
        records.published_claim(
          target.text, figures, dict(target.figures), target.digits
        )
      )


def _figures(source: Source, found) -> dict[str, Any]:
  figures = {}
  for name, solution in found.items():
    for group, rho in zip(source.names, solution.rho, strict=True):
      drawn = (rho > 0) & (rho < 1)
      figures[f'{name}: scores drawn by lot {group}'] = float(drawn.sum())
      figures[f'{name}: rise of the rule {group}'] = float(np.ptp(rho))
    figures[f'{name}: accuracy'] = float(1 - solution.loss)
    figures[f'{name}: loss'] = float(solution.loss)
    for label, rates in (('PPV', solution.ppv), ('FOR', solution.for_)):
      if np.ndim(rates) == 0:
        figures[f'{name}: {label}'] = float(rates)
        continue
      for group, rate in zip(source.names, rates, strict=True):
        figures[f'{name}: {label} {group}'] = float(rate)
    rates = zip(source.names, solution.selection_rate, strict=True)
    for group, rate in rates:
      figures[f'{name}: selection rate {group}'] = float(rate)
    figures[f'{name}: gap sum'] = float(solution.tpr_gap + solution.fpr_gap)
    figures[f'{name}: larger gap'] = float(
      max(solution.tpr_gap, solution.fpr_gap)
    )
  return figures


def _claims(workdir, found, draws) -> None:
  """What the paper says of such data, with the bootstrap's intervals."""
  free = found[comparison.BAYES]
  best, close = found[comparison.SUFFICIENT], found[comparison.SEPARATED]
  for label, rates in (('PPV', free.ppv), ('FOR', free.for_)):
    workdir.add_claim(
      records.quantile_claim(
        f'One threshold on group-calibrated scores leaves unequal {label}',
        float(largest_gap(rates)),
        draws[f'{label} gap of Bayes'],
        threshold=0.01,
        sense='>',
        unit=f'{label} gap',
      )
    )
  workdir.add_claim(
    records.quantile_claim(
      'The loss of the rule closest to separation is comparable with the least'
      ' (within .01)',
      float(close.loss - best.loss),
      draws['extra loss'],
      threshold=0.01,
      sense='<',
      unit='loss',
    )
  )
