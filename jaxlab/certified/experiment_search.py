"""The search for each method's settings, on validation pictures."""

import contextlib
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxlab import errors
from jaxlab.certified import experiment_problem as problems
from jaxlab.certified import search_space
from jaxlab.certified.experiment_measures import Measure
from jaxlab.certified.experiment_problem import Problem
from jaxlab.certified.experiment_study import Study, Trial
from jaxlab.certified.experiment_training import train
from jaxlab.harness.progress import Progress
from jaxlab.harness.settings import key_of


def search(
  problem: Problem, config, workdir, method: str, eps: float
) -> list[Trial]:
  """Does the trials of one method, or what is left of them.

  Args:
    problem: pictures and network.
    config: of the run; `config.storage` names the file of the study, which
      several runs may share, and is empty for one of the run's own.
    workdir: of the run.
    method: a name in `losses.LOSSES`.
    eps: radius that is certified.

  Returns:
    All trials, of all processes.

  Raises:
    UserError: if the study belongs to another search.
  """
  if jax.process_count() > 1:
    raise errors.UserError(
      'a search does not run as one job of several processes: start several '
      'runs with one config.storage instead.'
    )
  benchmark = problems.benchmark(config.pictures, eps)
  space = search_space.space(method, benchmark)
  known = search_space.published(method, benchmark)
  published = {name: setting.values for name, setting in known.items()}
  path = pathlib.Path(config.storage or workdir.path / 'study.db')
  study = Study(
    path,
    f'{config.pictures} {eps:.4g} {method}',
    space,
    published,
    _settings(config, eps),
    num_trials=config.trials,
    lanes=config.lanes,
    sampler=config.sampler,
    seed=config.seed,
  )
  measure = Measure(config, problem.network, problem.validation, eps)

  def values(numbers: Sequence[int], params: Sequence[Mapping[str, float]]):
    label = '-'.join(map(str, numbers))
    name = f'{eps:.4g}/{method}/trials-{label}'

    def compute() -> dict[str, Any]:
      key = key_of(config.seed, 'search', method, *numbers)
      members = train(
        problem, config, method, eps, params, key, workdir=workdir, name=name
      )
      return {'values': np.array([_objectives(measure, m) for m in members])}

    return workdir.cached(f'{name}/values', compute)['values']

  with (
    contextlib.closing(study),
    Progress(f'{method} trials', config.trials) as bar,
  ):
    done = 0

    def advance(ended: int) -> None:
      nonlocal done
      bar.advance(ended - done)
      done = ended

    advance(len(study.ended()))
    return study.run(values, advance)


def _objectives(measure: Measure, params: Any) -> tuple[float, float]:
  """Natural and certified accuracy; 0 for a training that diverged."""
  if params is None:
    return 0.0, 0.0
  found = measure.quick(params)
  return found.natural_accuracy, found.certified_accuracy


def _settings(config, eps: float) -> dict[str, Any]:
  """What decides the values of a trial besides its parameters."""
  fields = (
    *('pictures', 'network', 'width', 'train', 'validation', 'batch_size'),
    *('epochs', 'lanes', 'attack_steps', 'sampler'),
  )
  return {'eps': eps} | {name: config[name] for name in fields}
