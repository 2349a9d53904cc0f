"""The metrics of a training run: on the device until a line is due."""

import collections
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxlab import errors, parallel
from jaxlab.harness import checkpoints, learners, progress
from jaxlab.harness import workdir as workdirs

# Steps that may wait on the device; each holds its batch there.
_IN_FLIGHT = 16


class Scalars:
  """Writes the means of what the compiled updates add up.

  A population's metrics `[P]` become `<name>/<metric>/<member>`. Lines are
  the same whether a run was interrupted or not: the sums of a line that has
  begun are saved with a checkpoint.
  """

  def __init__(
    self, workdir: workdirs.Workdir | None, name: str, log_every: int
  ):
    """Writes nothing yet; a workdir of None takes nothing."""
    self._workdir = workdir
    self._name = name
    self._log_every = log_every
    self._sums: Mapping[str, Any] = {}
    self._under_way: collections.deque[jax.Array] = collections.deque()
    self._failed: set[int] = set()

  def add(self, sums: Mapping[str, jax.Array], loss: jax.Array) -> None:
    """Takes the sums after a step and its loss, which may be under way."""
    self._sums = sums
    self._under_way.append(loss)
    if len(self._under_way) > _IN_FLIGHT:
      self._under_way.popleft().block_until_ready()

  def log(self, step: int) -> None:
    """Writes the means over the steps since the last line."""
    count = (step - 1) % self._log_every + 1
    sums = parallel.gather(dict(self._sums))
    self._write(step, self._name, {k: v / count for k, v in sums.items()})

  def evaluate(self, step: int, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Writes the metrics of an evaluation and returns them as NumPy arrays."""
    found = parallel.gather(dict(metrics))
    self._write(step, f'{self._name}/eval', found)
    return found

  def check(
    self, state: learners.TrainState, store: checkpoints.Checkpoints | None
  ) -> None:
    """Reports what has become NaN or infinite.

    Args:
      state: the latest state.
      store: where the last good checkpoint is.

    Raises:
      UserError: if nothing finite is left to train.
    """
    failed_at = parallel.gather(state.failed_at)
    if np.all(failed_at >= 0):
      latest = None if store is None else store.latest
      kept = 'there is no checkpoint'
      if store is not None and latest is not None:
        kept = f'the last good checkpoint is step {latest} in {store.path}'
      raise errors.UserError(
        f'{self._name}: loss or parameters became NaN or infinite at step'
        f' {failed_at.max()}; {kept}. Lower the learning rate or clip the'
        ' gradients.'
      )
    for member in np.flatnonzero(failed_at >= 0).tolist():
      if member not in self._failed:
        self._failed.add(member)
        progress.note(
          f'{self._name}: member {member} became NaN or infinite at step'
          f' {failed_at[member]}; it stays as it was, the others go on.'
        )

  def notes(self) -> dict[str, Any]:
    """Returns the sums of the line that has begun, as JSON."""
    sums = parallel.gather(dict(self._sums))
    return {name: value.tolist() for name, value in sums.items()}

  def _write(self, step: int, prefix: str, values: Mapping[str, Any]) -> None:
    if self._workdir is None:
      return
    line = {}
    for name, value in values.items():
      for member, number in np.ndenumerate(value):
        line['/'.join([prefix, name, *map(str, member)])] = number
    self._workdir.log(step, **line)
