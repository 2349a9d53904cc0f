"""Checkpoints of a training run: the last few and the best, whole or refused.

orbax writes them in the background, from all hosts, for any other mesh. Each
holds a digest of every array, so that a damaged file is noticed whatever its
format lets through.
"""

import json
import operator
import os
import pathlib
import re
import shutil
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.experimental import multihost_utils
from orbax.checkpoint import checkpoint_managers

from jaxlab import errors
from jaxlab.harness import digests, processes, progress

# What says nothing about the files; a checkpoint must not be given up for it.
_NOT_DAMAGE = (
  errors.UserError,
  MemoryError,
  PermissionError,
  jax.errors.JaxRuntimeError,
)


class Found(NamedTuple):
  """What a checkpoint holds.

  Attributes:
    step: its step.
    tree: the arrays, in the structure that was asked for.
    notes: the JSON that was saved along.
  """

  step: int
  tree: Any
  notes: dict[str, Any]


class Checkpoints:
  """The checkpoints in one folder; all processes call the same methods.

  Attributes:
    path: the folder.
  """

  def __init__(
    self,
    path: pathlib.Path,
    keep_last: int = 3,
    best_mode: str | None = None,
  ):
    """Makes the folder, and clears what a killed process left half-written.

    Args:
      path: the folder.
      keep_last: number of latest checkpoints to keep.
      best_mode: `'max'` or `'min'` also keeps the one of best score.
    """
    if keep_last < 1:
      raise errors.UserError(f'keep_last={keep_last} must be at least 1.')
    if best_mode not in (None, 'max', 'min'):
      raise errors.UserError(f"keep_best has mode {best_mode!r}: 'max', 'min'.")
    self.path = pathlib.Path(path).absolute()
    self._best_mode = best_mode
    keep: list[Any] = [checkpoint_managers.LatestN(keep_last)]
    if best_mode is not None:
      best = checkpoint_managers.BestN(
        get_metric_fn=self._score,
        reverse=best_mode == 'min',
        n=1,
        keep_checkpoints_without_metrics=False,
      )
      keep.append(best)
    self._options = ocp.CheckpointManagerOptions(
      best_fn=None if best_mode is None else self._score,
      best_mode=best_mode or 'max',
      preservation_policy=checkpoint_managers.AnyPreservationPolicy(keep),
      cleanup_tmp_directories=True,
    )
    self._orbax = self._open()
    step = self._orbax.best_step() if best_mode else None
    metrics = None if step is None else self._orbax.metrics(step)
    self._best = self._score(metrics or {})

  def __enter__(self) -> Self:
    return self

  def __exit__(self, kind=None, *_) -> None:
    try:
      self.wait()
    except errors.UserError:
      # An error that is under way says more than that of the last write.
      if kind is None:
        raise
    finally:
      self._orbax.close()

  @property
  def latest(self) -> int | None:
    """Step of the latest checkpoint, finished or being written."""
    return self._orbax.latest_step()

  def is_best(self, score: float | None) -> bool:
    """Whether a score is better than those of all checkpoints."""
    if self._best_mode is None or score is None or not np.isfinite(score):
      return False
    better = operator.gt if self._best_mode == 'max' else operator.lt
    return better(score, self._best)

  def save(
    self,
    step: int,
    tree: Any,
    notes: Mapping[str, Any],
    score: float | None = None,
  ) -> None:
    """Starts to write a checkpoint; the arrays may be donated afterwards.

    Args:
      step: its step; one that exists already is left as it is.
      tree: arrays and keys, spread over any devices.
      notes: JSON.
      score: by which it may be the best.

    Raises:
      UserError: if this or the write before fails; checkpoints before it stay.
    """
    if step == self.latest:
      return
    named = {name: _words(x) for name, x in _named(tree).items()}
    numbers = digests.of_all(named)
    metrics: dict[str, float] | None = None if self._best_mode is None else {}
    if metrics is not None and score is not None and np.isfinite(score):
      metrics['score'] = score
      self._best = score if self.is_best(score) else self._best
    try:
      self.wait()
      self._orbax.save(
        step,
        args=ocp.args.Composite(
          arrays=ocp.args.StandardSave(named),
          notes=ocp.args.JsonSave({**notes, 'digests': numbers}),
        ),
        metrics=metrics,
        force=True,
      )
    except (OSError, ValueError) as error:
      raise self._cannot_write(error) from error

  def wait(self) -> None:
    """Waits until the last save is on disk.

    Raises:
      UserError: if it failed.
    """
    try:
      self._orbax.wait_until_finished()
    except errors.UserError:
      raise
    except (OSError, ValueError) as error:
      raise self._cannot_write(error) from error

  def restore(self, like: Any, *, best: bool = False) -> Found | None:
    """Reads the latest checkpoint that is whole, or the best.

    Damaged ones are renamed to `damaged-<step>` and reported.

    Args:
      like: tree of arrays or of `jax.ShapeDtypeStruct`, of the shapes, dtypes
        and shardings to restore to.
      best: read the one of best score.

    Returns:
      The checkpoint, or None if there is none.

    Raises:
      UserError: if an array has another shape or dtype than in `like`.
    """
    self.wait()
    self._orbax.reload()
    step = None
    for step in self._candidates(best):
      found = self._read(step, like)
      if found is not None:
        return found
      self._set_aside(step)
    if step is not None:
      progress.note(f'no checkpoint in {self.path} is whole.')
    return None

  def _candidates(self, best: bool) -> Iterator[int]:
    """Yields steps from the one to try first."""
    while self._orbax.all_steps():
      steps = (self._orbax.best_step() if best else None, self.latest)
      yield next(step for step in steps if step is not None)

  def _read(self, step: int, like: Any) -> Found | None:
    """Reads one checkpoint; None if it is not whole."""
    models = _named(like)
    wanted = {name: _stored_form(x) for name, x in models.items()}
    problem: Exception | None = None
    found = None
    try:
      self._check_fits(step, wanted)
      found = self._orbax.restore(
        step,
        args=ocp.args.Composite(
          arrays=ocp.args.StandardRestore(wanted),
          notes=ocp.args.JsonRestore(),
        ),
      )
      if digests.of_all(found.arrays) != found.notes.pop('digests'):
        raise ValueError('its arrays are not those that were written')
    except _NOT_DAMAGE:
      raise
    except Exception as error:
      # Readers of damaged files raise what they happen to stumble over.
      problem = error
    if not _all_agree(problem is None) or found is None:
      reason = ' '.join(f'{problem or "unread by another process"}'.split())
      progress.note(
        f'the checkpoint of step {step} in {self.path} is damaged'
        f' ({reason[:200]}) and set aside; trying the one before.'
      )
      return None
    structure = jax.tree.structure(like)
    leaves = [_as(found.arrays[name], x) for name, x in models.items()]
    return Found(step, jax.tree.unflatten(structure, leaves), found.notes)

  def _check_fits(self, step: int, wanted: Mapping[str, Any]) -> None:
    """Compares shapes and dtypes with those of a checkpoint."""
    stored = self._orbax.item_metadata(step).arrays
    there = {name: (x.shape, x.dtype) for name, x in stored.items()}
    here = {name: (x.shape, x.dtype) for name, x in wanted.items()}
    for name in {**here, **there}:
      if there.get(name) != here.get(name):
        raise errors.UserError(
          f'the checkpoint of step {step} in {self.path} is of another model:'
          f' {name} is {_text(there.get(name))} there and'
          f' {_text(here.get(name))} here; delete it or choose another folder.'
        )

  def _set_aside(self, step: int) -> None:
    if processes.is_first():
      _rename(self.path / str(step))
    _all_agree(True)
    self._orbax.reload()

  def _score(self, metrics: Mapping[str, float]) -> float:
    """Returns the score, or the worst there is where a save had none."""
    worst = float('inf' if self._best_mode == 'min' else '-inf')
    return metrics.get('score', worst)

  def _open(self) -> ocp.CheckpointManager:
    """Opens the folder; scores that cannot be read are set aside."""
    try:
      if processes.is_first():
        self.path.mkdir(parents=True, exist_ok=True)
        for score in self.path.glob('[0-9]*/metrics/metrics'):
          if not _is_whole(score):
            progress.note(f'{score} is damaged; its checkpoint is set aside.')
            _rename(score.parents[1])
      _all_agree(True)
      return ocp.CheckpointManager(
        self.path,
        options=self._options,
        item_handlers={
          'arrays': ocp.StandardCheckpointHandler(),
          'notes': ocp.JsonCheckpointHandler(),
        },
      )
    except OSError as error:
      raise self._cannot_write(error) from error

  def _cannot_write(self, error: Exception) -> errors.UserError:
    found = re.search(r"os_error_code='(\d+)'", str(error))
    reason = os.strerror(int(found[1])) if found else str(error)
    return errors.UserError(
      f'cannot write a checkpoint in {self.path}: {reason}; those before it'
      ' are whole. Make room and start again.'
    )


def _is_whole(score: pathlib.Path) -> bool:
  """Whether the file of a score can be read."""
  try:
    return json.loads(score.read_text()).keys() <= {'score'}
  except (AttributeError, ValueError):
    return False


def _rename(step: pathlib.Path) -> None:
  """Sets a damaged checkpoint aside."""
  aside = step.with_name(f'damaged-{step.name}')
  shutil.rmtree(aside, ignore_errors=True)
  if step.exists():
    os.replace(step, aside)


def _named(tree: Any) -> dict[str, Any]:
  """Returns the leaves under names such as `params.Dense_0.kernel`."""
  leaves = jax.tree.leaves_with_path(tree)
  named = {
    jax.tree_util.keystr(path, simple=True, separator='.'): leaf
    for path, leaf in leaves
  }
  if len(named) != len(leaves):
    raise ValueError('two leaves of the state have the same name.')
  return named


def _is_key(leaf: Any) -> bool:
  return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _words(leaf: Any) -> Any:
  """Returns a key's words, which are what is stored; others as they are."""
  return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _stored_form(leaf: Any) -> jax.ShapeDtypeStruct:
  """Returns shape, dtype and sharding of what is stored of a leaf."""
  form = jax.eval_shape(_words, leaf)
  return jax.ShapeDtypeStruct(form.shape, form.dtype, sharding=leaf.sharding)


def _as(words: jax.Array, like: Any) -> jax.Array:
  """Returns what was stored, as a key where `like` is one."""
  if not _is_key(like):
    return words
  kinds: list[Any] = []
  jax.eval_shape(lambda key: kinds.append(jax.random.key_impl(key)), like)
  return jax.random.wrap_key_data(words, impl=kinds[0])


def _text(form: tuple[tuple[int, ...], np.dtype] | None) -> str:
  return 'absent' if form is None else f'{form[1]}{list(form[0])}'


def _all_agree(answer: bool) -> bool:
  """Whether it is true on every process; also waits for all of them."""
  if processes.count() == 1:
    return answer
  return bool(multihost_utils.process_allgather(np.bool_(answer)).all())
