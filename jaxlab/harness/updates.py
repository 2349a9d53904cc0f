"""The compiled update of one model or of a population, with its batches."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab import errors, parallel
from jaxlab.harness import feeding, learners, placement

Collect = Callable[[learners.TrainState, Any, jax.Array], Any]


class Updates:
  """The compiled functions of one training run."""

  def __init__(
    self,
    learner: learners.Learner,
    batches: Any,
    batch_size: int | None,
    key: jax.Array,
    hyper: Any,
    where: placement.Placement,
    log_every: int,
    collect: Collect | None = None,
  ):
    """Compiles nothing yet.

    Args:
      learner: initial state and step.
      batches: as for `feeding.source`.
      batch_size: rows in a batch, for arrays.
      key: key of everything random.
      hyper: None or a tree of scalars, `[P]` for a population.
      where: how all this is spread.
      log_every: steps after which the sums of the metrics start anew.
      collect: makes the batch of a step from the one that was read.

    Raises:
      UserError: if sizes do not fit.
    """
    if collect is not None and where.population is not None:
      raise errors.UserError(
        'collect is for one model, not for a population of them.'
      )
    self._collect = collect
    self._learner = learner
    self._where = where
    count = where.population
    self._keys = key if count is None else parallel.replication_keys(key, count)
    if count is not None:
      _check_members(hyper, count)
    self._hyper = placement.put(jax.tree.map(jnp.asarray, hyper), where.hyper)
    order = self._keys if where.member_batches else key
    self._source = feeding.source(batches, batch_size, order, where)
    self._key = placement.put(key, where.copied)
    self._where = where
    leaves, structure = jax.tree.flatten(self._hyper)
    kinds = tuple((x.shape, x.dtype) for x in leaves)
    self._program = _program(
      *(learner, where, log_every),
      None if collect else self._source.draw,
      *(structure, kinds),
    )

  def __call__(
    self, state: learners.TrainState, sums: Mapping[str, Any], step: int
  ) -> tuple[learners.TrainState, Mapping[str, jax.Array], jax.Array]:
    """Starts an update, which uses up `state` and `sums`.

    Args:
      state: the state after `step` updates.
      sums: of the metrics, as returned; at the start those of a checkpoint's
        `notes`, or none.
      step: number of updates done.

    Returns:
      The new state, the new sums, and the loss.

    Raises:
      UserError: if there is no further batch.
    """
    batch = self._source.read(step)
    if self._collect is not None:
      batch = self._collected(state, batch, step)
    if not isinstance(next(iter(sums.values()), None), jax.Array):
      sums = self._first(state, sums, batch)
    return self._program.update(state, sums, batch, self._key, self._hyper)

  def init(self) -> learners.TrainState:
    """Returns the state before the first update."""
    return self._program.init(self._keys, self._hyper)

  def like(self) -> learners.TrainState:
    """Returns shapes, dtypes and shardings of the state."""
    return jax.tree.map(
      lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s),
      self._program.shapes,
      self._program.shardings,
    )

  def positions(self) -> list[str]:
    """Returns how far the batches have been read, for `seek`."""
    return self._source.positions()

  def seek(self, state: learners.TrainState, positions: list[str]) -> None:
    """Goes on reading where a checkpoint was.

    Args:
      state: the state of the checkpoint.
      positions: what `positions` returned there.

    Raises:
      UserError: if it was trained with another key, or its positions do not
        fit this run.
    """
    there, here = map(jax.random.key_data, (state.key, self._keys))
    if not np.array_equal(*parallel.gather((there, here))):
      raise errors.UserError(
        'the checkpoint was trained with another key; use the same seed, or'
        ' another folder.'
      )
    self._source.seek(positions)

  def _collected(self, state, batch, step: int) -> Any:
    """Has the batch of this step made, and spreads it."""
    assert self._collect is not None
    key = jax.random.fold_in(_streams(self._key)[1], step)
    if self._source.draw is not None:
      batch = self._source.draw(key)
    made = self._collect(state, batch, jax.random.fold_in(key, 1))
    self._where.check_batch(made)
    return feeding.spread_collected(made, self._where.batch)

  def _first(self, state, sums, batch) -> dict[str, jax.Array]:
    """Returns the sums to start from, on the devices."""
    _, shapes = jax.eval_shape(
      self._program.step, state, batch, self._key, self._hyper
    )
    return {
      name: placement.put(
        np.broadcast_to(sums.get(name, 0), x.shape).astype(x.dtype),
        self._where.hyper,
      )
      for name, x in shapes.items()
    }


class _Program:
  """The compiled functions, which trainings of one kind share."""

  def __init__(
    self,
    learner: learners.Learner,
    where: placement.Placement,
    log_every: int,
    draw: Callable[[jax.Array], Any] | None,
    hyper: Any,
  ):
    """Compiles nothing yet; `hyper` has shapes only."""
    self._learner = learner
    self._where = where
    self._log_every = log_every
    self._draw_batch = draw
    count = where.population
    shape = () if count is None else (count,)
    keys = jax.eval_shape(lambda: jnp.broadcast_to(jax.random.key(0), shape))
    self.shapes = jax.eval_shape(self._init, keys, hyper)
    self.shardings = where.state(self.shapes)
    # Compiled as one with what follows; traced once for both.
    self.step = jax.jit(self._one if count is None else self._all_members)
    self.init = jax.jit(self._init, out_shardings=self.shardings)
    self.update = jax.jit(
      self._add,
      donate_argnums=(0, 1),
      in_shardings=(
        self.shardings,
        where.hyper,
        where.batch,
        where.copied,
        where.hyper,
      ),
      out_shardings=(self.shardings, where.hyper, where.hyper),
    )

  def _add(self, state, sums, batch, key, hyper):
    """One update, whose metrics are added to those since the last line."""
    new, metrics = self.step(state, batch, key, hyper)
    starts = state.step % self._log_every == 0
    sums = {
      name: jnp.where(starts, 0, sums[name]) + value
      for name, value in metrics.items()
    }
    return new, sums, metrics['loss']

  def _init(self, keys: jax.Array, hyper: Any) -> learners.TrainState:
    def one(key, hyper):
      made = self._learner.init(_streams(key)[0], hyper)
      params, opt_state, extra = made
      failed_at = jnp.int32(-1)
      return learners.TrainState(
        jnp.int32(0), params, opt_state, key, extra, failed_at
      )

    if self._where.population is None:
      return one(keys, hyper)
    return jax.vmap(one)(keys, hyper)._replace(step=jnp.int32(0))

  def _one(self, state, batch, key, hyper):
    """One update of one model; the key is that of the order of the data."""
    step = state.step
    if self._draw_batch is not None and batch is None:
      batch = self._draw(key, step)
    loss_key = jax.random.fold_in(_streams(state.key)[2], step)
    new, found = self._learner.step(state, batch, loss_key, hyper)
    metrics = {name: _floating(value) for name, value in found.items()}
    _check_metrics(metrics)
    finite = _is_finite((metrics['loss'], new.params))
    failed_at = jnp.where(
      (state.failed_at < 0) & ~finite, step + 1, state.failed_at
    )
    new = new._replace(step=step + 1, key=state.key, failed_at=failed_at)
    return new, metrics

  def _all_members(self, state, batch, key, hyper):
    """One update of every member; failed ones stay as they are."""
    if self._draw_batch is not None and not self._where.member_batches:
      batch = self._draw(key, state.step)

    def member(state, batch, hyper):
      new, metrics = self._one(state, batch, state.key, hyper)
      alive = new.failed_at < 0
      kept = jax.tree.map(
        lambda x, old: jnp.where(alive, x, old),
        (new.params, new.opt_state, new.extra),
        (state.params, state.opt_state, state.extra),
      )
      new = new._replace(params=kept[0], opt_state=kept[1], extra=kept[2])
      return new, {k: jnp.where(alive, v, jnp.nan) for k, v in metrics.items()}

    axes = [None if field == 'step' else 0 for field in state._fields]
    axes = type(state)(*axes)
    own = 0 if self._where.member_batches else None
    members = jax.vmap(member, (axes, own, 0), (axes, 0))
    return self._by_device(members, state)(state, batch, hyper)

  def _by_device(self, members: Callable[..., Any], state: Any):
    """Each device computes its own members, whatever their programs are."""
    where = self._where
    if where.mesh.size == 1:
      return members
    spread = where.spread.spec
    states = jax.tree.map(lambda _: spread, state)
    states = states._replace(step=where.copied.spec)
    return jax.shard_map(
      members,
      mesh=where.mesh,
      in_specs=(states, where.batch.spec, where.hyper.spec),
      out_specs=(states, spread),
      check_vma=False,
    )

  def _draw(self, key, step):
    assert self._draw_batch is not None
    batch = self._draw_batch(jax.random.fold_in(_streams(key)[1], step))
    if self._where.population is not None:
      return batch
    self._where.check_batch(batch)
    return feeding.spread_drawn(batch, self._where.batch)


@functools.lru_cache(maxsize=8)
def _program(learner, where, log_every, draw, structure, kinds) -> _Program:
  """Returns the program of a kind of training, the same one each time."""
  leaves = [jax.ShapeDtypeStruct(*kind) for kind in kinds]
  hyper = jax.tree.unflatten(structure, leaves)
  return _Program(learner, where, log_every, draw, hyper)


def _streams(key: jax.Array) -> jax.Array:
  """Returns the keys of the initial state, of the batches and of the loss."""
  return jax.random.split(key, 3)


def _floating(value: Any) -> jax.Array:
  """Returns the value as an array of which a mean can be taken."""
  return jnp.asarray(value, jnp.result_type(value, jnp.float32))


def _is_finite(tree: Any) -> jax.Array:
  leaves = [
    x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.inexact)
  ]
  return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in leaves]))


def _check_metrics(metrics: Mapping[str, Any]) -> None:
  shapes = {name: jnp.shape(value) for name, value in metrics.items()}
  if 'loss' not in metrics or any(shapes.values()):
    raise errors.UserError(
      f'the metrics of a step must be scalars, one of them loss; got {shapes}.'
    )


def _check_members(hyper: Any, count: int) -> None:
  for leaf in jax.tree.leaves(hyper):
    if jnp.shape(leaf)[:1] != (count,):
      raise errors.UserError(
        f'hyper holds an array of shape {jnp.shape(leaf)}; give each of the'
        f' {count} members of the population its own value.'
      )
