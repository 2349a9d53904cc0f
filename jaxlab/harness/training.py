"""The training loop: killed, resumed or moved, it gives the same numbers.

A loss, an optimizer and data are enough:

    learner = learners.gradient_learner(init_fn, loss_fn, optax.adam(1e-3))
    state = training.fit(
      workdir,
      learner,
      {'x': x, 'y': y},
      batch_size=64,
      num_steps=10_000,
      key=config.seed,
    )
"""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxlab import errors
from jaxlab.harness import (
  checkpoints,
  learners,
  placement,
  preemption,
  progress,
  scalars,
  updates,
)
from jaxlab.harness import workdir as workdirs


def fit(
  workdir: workdirs.Workdir | None,
  learner: learners.Learner,
  batches: Any,
  *,
  num_steps: int,
  key: jax.Array | int,
  batch_size: int | None = None,
  hyper: Any = None,
  population: int | None = None,
  member_batches: bool = False,
  mesh: Mesh | None = None,
  shard_params: bool | placement.Rule = False,
  collect: updates.Collect | None = None,
  log_every: int = 50,
  checkpoint_every: int = 1000,
  eval_fn: Callable[[learners.TrainState], Mapping[str, Any]] | None = None,
  eval_every: int | None = None,
  keep_last: int = 3,
  keep_best: tuple[str, str] | None = None,
  name: str = 'train',
) -> learners.TrainState:
  """Trains until `num_steps` updates are done, counting those of past starts.

  The run goes on from its last whole checkpoint, on whatever mesh and number
  of processes, and ends with the same numbers (to the bit on the same CPU
  mesh). SIGTERM and Ctrl-C save first. A loss or parameter that is not finite
  stops the run; in a population it stops only that member, whose parameters
  stay as they were and whose metrics become null.

  Args:
    workdir: takes metrics `<name>/<metric>` (means since the last line) and
      `<name>/eval/<metric>`, and `checkpoints/<name>`; None keeps nothing.
    learner: what a step is, from `learners.gradient_learner` or one's own.
    batches: a tree of arrays `[n, ...]`, shuffled anew each epoch; or a grain
      pipeline, of which each process reads its share; or a pure function
      `draw(key) -> batch`, compiled into the step.
    num_steps: updates in all.
    key: key or seed of everything random.
    batch_size: rows a step over all devices, for arrays.
    hyper: tree of scalars for the learner; `[P]` arrays for a population.
    population: number P of members that one vmapped step trains, each with
      its own key `parallel.replication_keys(key, P)`.
    member_batches: whether each member has batches of its own: arrays and
      draws then follow the member's key, and a grain batch is `[P, B, ...]`.
    mesh: devices over whose axis `data` batches or members are spread; by
      default one device, or all of a run over several processes.
    shard_params: also spread parameters and optimizer state (FSDP): each leaf
      along its largest axis, or by a rule `(name, shape) -> sharding`, such as
      `lm.sharding.for_path(mesh, rules)`.
    collect: `(state, batch, key) -> batch` on the host before each update, on
      every process alike: makes the batch of the step from the one that was
      read, such as completions of prompts with their rewards. It must be a
      function of its arguments alone.
    log_every: steps between lines of metrics, and between looks at whether
      the loss is finite.
    checkpoint_every: steps between checkpoints; the last step has one.
    eval_fn: `state -> metrics`, scalars or `[P]`.
    eval_every: steps between evaluations; by default only after the last.
    keep_last: number of latest checkpoints that are kept.
    keep_best: name of a metric of `eval_fn`, and `'max'` or `'min'`: whenever
      it is better than ever, a checkpoint is written and kept. A population
      is judged by its mean.
    name: of this training among those of the workdir.

  Returns:
    The state after `num_steps`, on the devices.

  Raises:
    UserError: if a checkpoint is of another model or cannot be written, sizes
      do not fit, batches end early, or nothing finite is left.
  """
  periods = (num_steps, log_every, checkpoint_every, eval_every or 1)
  if min(periods) < 1:
    raise errors.UserError(
      'num_steps, log_every, checkpoint_every and eval_every must be positive,'
      f' got {periods}.'
    )
  if keep_best is not None and eval_fn is None:
    raise errors.UserError('keep_best needs eval_fn, which gives the metric.')
  where = placement.Placement(
    placement.default_mesh() if mesh is None else mesh,
    population,
    shard_params,
    member_batches,
  )
  key = jax.random.key(key) if isinstance(key, int) else key
  update = updates.Updates(
    learner, batches, batch_size, key, hyper, where, log_every, collect
  )
  store = None
  if workdir is not None:
    best_mode = None if keep_best is None else keep_best[1]
    path = workdir.path / 'checkpoints' / name
    store = checkpoints.Checkpoints(path, keep_last, best_mode)
  record = scalars.Scalars(workdir, name, log_every)

  def evaluate(step, state):
    if step < num_steps and (not eval_every or step % eval_every):
      return None
    if eval_fn is None:
      return None
    found = record.evaluate(step, eval_fn(state))
    return None if keep_best is None else _score(found, keep_best[0])

  with preemption.Preemption() as stop, store or contextlib.nullcontext():
    state, sums = _start(store, update)
    start = int(state.step)
    if 0 < start < num_steps:
      progress.note(f'{name} goes on from step {start} of {num_steps}.')
    with progress.Progress(name, num_steps) as bar:
      bar.advance(start)
      for step in range(start + 1, num_steps + 1):
        state, sums, loss = update(state, sums, step - 1)
        record.add(sums, loss)
        bar.advance()
        last = step == num_steps
        if last or step % log_every == 0:
          record.check(state, store)
          record.log(step)
        score = evaluate(step, state)
        stopped = stop.requested(step)
        due = last or stopped or step % checkpoint_every == 0
        if store is not None and (due or store.is_best(score)):
          record.check(state, store)
          notes = {'positions': update.positions(), 'sums': record.notes()}
          store.save(step, state, notes, score)
        if stopped:
          break
  return state


def best(
  workdir: workdirs.Workdir,
  like: learners.TrainState,
  mode: str,
  name: str = 'train',
) -> learners.TrainState:
  """Returns the state that `keep_best` has kept.

  Args:
    workdir: where it was trained.
    like: a state of the same shapes, such as `fit` returns; the result is
      spread as it is.
    mode: `'max'` or `'min'`, as in `keep_best`.
    name: as for `fit`.

  Raises:
    UserError: if there is none.
  """
  path = workdir.path / 'checkpoints' / name
  with checkpoints.Checkpoints(path, best_mode=mode) as store:
    found = store.restore(like, best=True)
  if found is None:
    raise errors.UserError(f'there is no checkpoint in {path}; train first.')
  return found.tree


def _start(
  store: checkpoints.Checkpoints | None, update: updates.Updates
) -> tuple[learners.TrainState, Mapping[str, Any]]:
  """Returns state and sums of the last whole checkpoint, or new ones."""
  found = None if store is None else store.restore(update.like())
  if found is None:
    return update.init(), {}
  update.seek(found.tree, found.notes['positions'])
  return found.tree, found.notes['sums']


def _score(metrics: Mapping[str, Any], name: str) -> float:
  if name not in metrics:
    raise errors.UserError(
      f'keep_best asks for {name!r}, but eval_fn gives {sorted(metrics)}.'
    )
  return float(np.mean(metrics[name]))
