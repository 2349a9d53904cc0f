"""The members of each front, trained anew and judged on test pictures."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxlab.certified import pareto
from jaxlab.certified.experiment_measures import STAGES, Measure
from jaxlab.certified.experiment_problem import Problem
from jaxlab.certified.experiment_study import Trial
from jaxlab.certified.experiment_training import train
from jaxlab.harness.progress import Progress
from jaxlab.harness.settings import key_of

REFERENCE = (0.0, 0.0)


class Member(NamedTuple):
  """A setting that was trained anew with several seeds.

  Attributes:
    method: whose setting it is.
    trial: of the search.
    on_front: whether the search counts it among the best.
    natural: `[seeds, n]` whether each test picture is classified rightly.
    stages: stage of the verifier -> `[seeds, n]` whether it is certified there
      or before.
    survives: `[seeds, n]` whether it is right under attack.
    open: `[seeds, n]` whether the complete verifier has left it undecided.
  """

  method: str
  trial: Trial
  on_front: bool
  natural: np.ndarray
  stages: dict[str, np.ndarray]
  survives: np.ndarray
  open: np.ndarray

  @property
  def certified(self) -> np.ndarray:
    """`[seeds, n]` whether the last stage certifies it."""
    return self.stages[STAGES[-1]]

  @property
  def points(self) -> np.ndarray:
    """`[seeds, 2]` natural and certified accuracy."""
    pair = (self.natural.mean(axis=1), self.certified.mean(axis=1))
    return np.stack(pair, axis=1)

  @property
  def name(self) -> str:
    """The published setting's name, or the number of the trial."""
    return self.trial.published or f'trial {self.trial.number}'


def on_front(trials: Sequence[Trial], most: int) -> list[Trial]:
  """The best trials: not dominated, and of those the ones that add most.

  Args:
    trials: of a search.
    most: number of trials that are kept; they are taken one by one, each time
      the one that adds most to the hypervolume.
  """
  best = {tuple(p) for p in pareto.front([t.values for t in trials])}
  left = []
  for trial in trials:  # equal points once
    if trial.values in best:
      best.remove(trial.values)
      left.append(trial)
  kept: list[Trial] = []
  while left and len(kept) < most:
    points = [t.values for t in kept]
    gains = [pareto.hypervolume([*points, t.values], REFERENCE) for t in left]
    kept.append(left.pop(int(np.argmax(gains))))
  return sorted(kept)


def members(
  problem: Problem,
  config,
  workdir,
  method: str,
  eps: float,
  trials: Sequence[Trial],
) -> list[Member]:
  """Trains the front of a method, and its published setting, anew.

  Args:
    problem: pictures and network.
    config: of the run.
    workdir: of the run.
    method: a name in `losses.LOSSES`.
    eps: radius that is certified.
    trials: of the search.
  """
  best = on_front(trials, config.front)
  chosen = best + [t for t in trials if t.published and t not in best]
  measure = Measure(config, problem.network, problem.test, eps)
  parts = [
    chosen[i : i + config.lanes] for i in range(0, len(chosen), config.lanes)
  ]
  found: dict[tuple[int, int], dict[str, np.ndarray]] = {}
  total = config.seeds * len(chosen)
  with Progress(f'{method} on test pictures', total) as bar:
    for seed in range(config.seeds):
      for k, part in enumerate(parts):
        name = f'{eps:.4g}/{method}/seed-{seed}/part-{k}'
        networks: list[Any] = []
        for i, trial in enumerate(part):
          unit = f'{name}/trial-{trial.number}'

          def compute(
            i=i, networks=networks, part=part, name=name, seed=seed, k=k
          ):
            if not networks:
              networks += train(
                problem,
                config,
                method,
                eps,
                [t.params for t in part],
                key_of(config.seed, 'anew', method, seed, k),
                workdir=workdir,
                name=name,
              )
            return measure.whole(networks[i])

          found[seed, trial.number] = workdir.cached(unit, compute)
          bar.advance()
  return [_member(method, t, t in best, found, config.seeds) for t in chosen]


def _member(method, trial, is_best, found, seeds) -> Member:
  units = [found[seed, trial.number] for seed in range(seeds)]
  joined = {name: np.stack([u[name] for u in units]) for name in units[0]}
  return Member(
    method,
    trial,
    is_best,
    joined['natural'],
    {stage: joined[stage] for stage in STAGES},
    joined['survives'],
    joined['open'],
  )
