"""A search on disk: trials are asked in batches, and each is told once.

The study is an SQLite file of Optuna. Several processes, on one machine or on
many that share a file system, may work on one file; what a killed process has
left behind is done again by whoever finds it.
"""

import json
import pathlib
import time
import uuid
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxlab import errors
from jaxlab.certified.search_space import Knob
from jaxlab.harness import ownership

SAMPLERS = ('motpe', 'nsga2', 'random')
_POLL_SECONDS = 0.5


class Trial(NamedTuple):
  """A trial that has ended.

  Attributes:
    number: its place in the study.
    params: value of each knob.
    values: natural and certified accuracy on validation pictures.
    published: name of the published setting that it is, or ''.
  """

  number: int
  params: dict[str, float]
  values: tuple[float, float]
  published: str


class Study:
  """The search of one method.

  Attributes:
    num_trials: trials in all, over all processes.
    lanes: trials that are trained side by side.
  """

  def __init__(
    self,
    path: pathlib.Path,
    name: str,
    space: Sequence[Knob],
    published: Mapping[str, Mapping[str, float]],
    settings: Mapping[str, Any],
    *,
    num_trials: int,
    lanes: int,
    sampler: str,
    seed: int,
  ):
    """Makes the study, or takes up what is there.

    Args:
      path: the SQLite file.
      name: of the study in the file.
      space: the knobs.
      published: settings that are tried first, by name.
      settings: what else decides the values of a trial.
      num_trials: trials in all.
      lanes: trials of a batch.
      sampler: 'motpe', 'nsga2' or 'random'.
      seed: of the sampler.

    Raises:
      UserError: if Optuna is missing, the file is no study, or a study of
        another space or of other settings.
    """
    self.num_trials, self.lanes = num_trials, lanes
    self._optuna = _optuna()
    self._space = tuple(space)
    self._published = list(published.items())[:num_trials]
    self._sampler, self._seed = sampler, zlib.crc32(f'{seed} {name}'.encode())
    self._study = self._open(path, name)
    self._check('space', {k.name: [k.low, k.high, k.log] for k in space})
    self._check('settings', dict(settings) | {'seed': seed})
    self._workers = path.with_suffix('.workers')
    self._me = uuid.uuid4().hex
    self._lock = ownership.lock(self._workers / self._me)

  def close(self) -> None:
    """Gives up what this process still holds."""
    self._lock.close()

  def run(
    self,
    measure: Callable[[Sequence[int], Sequence[Mapping[str, float]]], Any],
    progress: Callable[[int], None] = lambda ended: None,
  ) -> list[Trial]:
    """Does trials until all have ended.

    Args:
      measure: gives `[n, 2]` values for the numbers and parameters of n trials,
        the same whenever it is asked again.
      progress: takes the number of trials that have ended.

    Returns:
      All trials.
    """
    for batch in self._batches():
      numbers = [trial['number'] for trial in batch]
      values = np.asarray(measure(numbers, [t['params'] for t in batch]))
      for trial, value in zip(batch, values, strict=True):
        self._tell(trial['number'], value)
      progress(len(self.ended()))
    return self.ended()

  def ended(self) -> list[Trial]:
    """All trials that have ended, in order."""
    done = self._study.get_trials(
      deepcopy=False, states=[self._optuna.trial.TrialState.COMPLETE]
    )
    return [
      Trial(
        t.number,
        dict(t.params),
        (t.values[0], t.values[1]),
        t.user_attrs.get('published', ''),
      )
      for t in done
    ]

  def _open(self, path, name):
    storages = self._optuna.storages
    try:
      path.parent.mkdir(parents=True, exist_ok=True)
      storage = storages.RDBStorage(
        f'sqlite:///{path}',
        engine_kwargs={'connect_args': {'timeout': 60}},
      )
      study = self._optuna.create_study(
        storage=storage,
        study_name=name,
        directions=['maximize', 'maximize'],
        load_if_exists=True,
      )
    except Exception as error:
      known = type(error).__module__.split('.')[0] in ('sqlalchemy', 'optuna')
      if not known and not isinstance(error, OSError):
        raise
      raise errors.UserError(
        f'{path} cannot be used as a study ({type(error).__name__}); delete it '
        'or choose another file as config.storage.'
      ) from error
    if len(study.directions) != 2:
      raise errors.UserError(
        f'{path} has a study {name!r} of another program; choose another file '
        'as config.storage.'
      )
    return study

  def _check(self, what: str, value: Mapping[str, Any]) -> None:
    """Refuses a study that was begun with other knobs or settings."""
    value = json.loads(json.dumps(value))
    stored = self._study.user_attrs.get(what)
    if stored is None and not self._study.get_trials(deepcopy=False):
      self._study.set_user_attr(what, value)
      return
    if not isinstance(stored, dict):
      raise errors.UserError(
        f'the study {self._study.study_name!r} is of another program; choose '
        'another file as config.storage.'
      )
    for key in {**stored, **value}:
      if stored.get(key) != value.get(key):
        raise errors.UserError(
          f'the study {self._study.study_name!r} has {what} with {key} = '
          f'{stored.get(key)}, this run {value.get(key)}: use the same, or '
          'another file.'
        )

  def _batches(self) -> Iterator[list[dict[str, Any]]]:
    """Batches of trials to do: what was left behind, then new ones."""
    while True:
      self._adopt()
      running = self._mine()
      whole = next((t for t in running if t['batch']), None)
      if whole is not None:
        yield self._members(whole['batch'])
        continue
      batch = running[: self.lanes]
      while len(batch) < self.lanes and (trial := self._ask()) is not None:
        batch.append(trial)
      if batch:
        numbers = [trial['number'] for trial in batch]
        for number in numbers:
          self._note(number, 'batch', numbers)
        yield batch
      elif self._others():
        time.sleep(_POLL_SECONDS)
      else:
        return

  def _ask(self) -> dict[str, Any] | None:
    """A new trial, or None where there are enough."""
    if self._rank() >= self.num_trials:
      return None
    self._study.sampler = self._new_sampler(self._rank())
    trial = self._study.ask()
    trial.set_user_attr('worker', self._me)
    if self._rank(trial.number) >= self.num_trials:  # another was faster
      self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
      return None
    self._fill(trial)
    return {'number': trial.number, 'params': dict(trial.params), 'batch': []}

  def _fill(self, trial) -> None:
    """Chooses the parameters of a trial.

    They depend on the trials that have ended and on the number alone, so that
    a search that was killed proposes the same once more.
    """
    rank = self._rank(trial.number)
    sampler = self._new_sampler(rank)
    if rank < len(self._published):
      name, fixed = self._published[rank]
      trial.set_user_attr('published', name)
      with warnings.catch_warnings():  # says that it is experimental
        warnings.simplefilter('ignore')
        sampler = self._optuna.samplers.PartialFixedSampler(
          dict(fixed), sampler
        )
    self._study.sampler = sampler
    for knob in self._space:
      trial.suggest_float(knob.name, knob.low, knob.high, log=knob.log)
    trial.set_user_attr('ready', True)

  def _new_sampler(self, number: int):
    samplers, seed = self._optuna.samplers, (self._seed + number) % 2**32
    first = max(self.lanes, len(self._published) + 1)
    if self._sampler == 'motpe':
      return samplers.TPESampler(
        n_startup_trials=first, constant_liar=True, seed=seed
      )
    if self._sampler == 'nsga2':
      return samplers.NSGAIISampler(population_size=first, seed=seed)
    return samplers.RandomSampler(seed=seed)

  def _rank(self, number: int | None = None) -> int:
    """How many trials come before this number; None counts all."""
    failed = self._optuna.trial.TrialState.FAIL
    return sum(
      trial.state != failed and (number is None or trial.number < number)
      for trial in self._study.get_trials(deepcopy=False)
    )

  def _running(self):
    return self._study.get_trials(
      deepcopy=False, states=[self._optuna.trial.TrialState.RUNNING]
    )

  def _mine(self) -> list[dict[str, Any]]:
    """Trials of this process that have not ended."""
    return [
      {
        'number': t.number,
        'params': dict(t.params),
        'batch': t.user_attrs.get('batch', []),
      }
      for t in self._running()
      if t.user_attrs.get('worker') == self._me
    ]

  def _members(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """A batch that was begun, whole, for lanes are trained together."""
    trials = self._study.get_trials(deepcopy=False)
    return [{'number': n, 'params': dict(trials[n].params)} for n in numbers]

  def _others(self) -> bool:
    """Whether another process still works on a trial."""
    return any(t.user_attrs.get('worker') != self._me for t in self._running())

  def _adopt(self) -> None:
    """Takes over trials of processes that have died."""
    for trial in self._running():
      owner = trial.user_attrs.get('worker')
      if owner != self._me and (lock := self._dead(owner)) is not None:
        with lock:
          self._take(trial)

  def _dead(self, worker: str | None):
    """The lock of a process that has died, or None while it lives."""
    if worker is None:  # killed, or about to say whose the trial is
      time.sleep(_POLL_SECONDS)
    try:
      return ownership.lock(self._workers / (worker or 'unnamed'))
    except errors.UserError:
      return None

  def _take(self, trial) -> None:
    """Takes a trial over, with its whole batch where that was formed."""
    trials = self._study.get_trials(deepcopy=False)
    if trials[trial.number].user_attrs.get('worker') != trial.user_attrs.get(
      'worker'
    ):
      return
    self._note(trial.number, 'worker', self._me)
    if not trial.user_attrs.get('ready'):
      self._fill(self._optuna.trial.Trial(self._study, trial._trial_id))
    for other in trials:
      batch = other.user_attrs.get('batch', [])
      if trial.number in batch:
        self._note(trial.number, 'batch', batch)

  def _note(self, number: int, name: str, value: Any) -> None:
    trial = self._study.get_trials(deepcopy=False)[number]
    storage = self._study._storage
    storage.set_trial_user_attr(trial._trial_id, name, value)

  def _tell(self, number: int, values: np.ndarray) -> None:
    """Ends a trial, unless another process has ended it."""
    try:
      self._study.tell(
        number, [float(v) for v in values], skip_if_finished=True
      )
    except self._optuna.exceptions.UpdateFinishedTrialError:
      return


def _optuna():
  """The library, quiet; its absence names the extra."""
  try:
    import optuna  # noqa: PLC0415 (not everybody has it)
  except ImportError as error:
    raise errors.UserError(
      "the search needs Optuna: pip install 'jaxlab[pareto]'."
    ) from error
  optuna.logging.set_verbosity(optuna.logging.WARNING)
  return optuna
