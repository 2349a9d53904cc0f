"""Tests of many examinees at once: one scan over items.

    trace = run_cat(
      selector('mfi'), None, bank, responses, test_length=20,
      key=jax.random.key(0),
    )

`initial_state` and `update` are the steps of that scan, for rollouts.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.adaptive_testing import checks, models
from jaxlab.adaptive_testing.content import ContentBalance
from jaxlab.adaptive_testing.exposure import Exposure
from jaxlab.adaptive_testing.state import (
  ESTIMATORS,
  answered,
  check_estimator,
  initial_state,
  like,
  standard_error,
  take_items,
  update,
)
from jaxlab.adaptive_testing.stopping import Stop
from jaxlab.adaptive_testing.ties import first_best
from jaxlab.adaptive_testing.types import Bank, CatState, CatTrace, Selector
from jaxlab.errors import UserError

__all__ = [
  'ESTIMATORS',
  'choose_items',
  'initial_state',
  'run_cat',
  'standard_error',
  'update',
]


class _Examinees(NamedTuple):
  """What is known of examinees, and what their answers come from.

  Attributes:
    number: `[E]`, which draw answers depend on.
    available: `[E, n]` bool.
    responses: `[E, n]` recorded answers, or None.
    theta: `[E, *latent]` true abilities, or None.
  """

  number: jax.Array
  available: jax.Array
  responses: jax.Array | None
  theta: jax.Array | None


def run_cat(
  selector: Selector,
  params: Any,
  bank: Bank,
  responses: ArrayLike | None = None,
  true_theta: ArrayLike | None = None,
  *,
  test_length: int,
  key: jax.Array,
  available: ArrayLike | None = None,
  estimator: str = 'map',
  exposure: Exposure | None = None,
  stop: Stop | None = None,
  content: ContentBalance | None = None,
  chunk: int | None = None,
) -> CatTrace:
  """Tests all examinees, who answer from records or as the model says.

  An examinee's drawn answer to an item depends on the key, the examinee and
  the item alone: rules that are run with one key are compared on one set of
  answers. Composes with `jit` (static: `selector`, `test_length`, `estimator`,
  `chunk`), `vmap` and `grad`. Time of a step is linear in n.

  Args:
    selector: the rule; a function of states alone.
    params: of the rule; None for those of `selector.init`.
    bank: of n items.
    responses: `[E, n]` recorded answers 0 or 1, any value where an item is not
      available; None to draw answers.
    true_theta: `[E, *latent]` abilities that answers are drawn from.
    test_length: T.
    key: a PRNG key.
    available: `[E, n]`, not 0 where an item may be asked; None for all.
    estimator: one of `ESTIMATORS`.
    exposure: who takes an item from the scores; None for the highest score.
    stop: what ends a test before T items; None for nothing.
    content: which items are eligible at a step; None for all.
    chunk: most examinees in memory at a time; None for all. Rules that draw
      random numbers draw others with another `chunk`.

  Returns:
    What was asked and estimated. A test without another item ends as well.

  Raises:
    UserError: neither or both of `responses` and `true_theta`, responses that
      are not 0 or 1, shapes that do not fit, an unknown estimator, an examinee
      with less than T available items.
  """
  if not isinstance(selector, Selector):
    raise UserError(
      f'selector is {selector!r}: give a rule, such as '
      'adaptive_testing.selector("mfi").'
    )
  _check(bank, responses, true_theta, available, test_length, estimator, chunk)
  num_examinees = len(_answering(responses, true_theta))
  everything = jnp.ones((num_examinees, bank.num_items), bool)
  examinees = _Examinees(
    number=jnp.arange(num_examinees, dtype=jnp.uint32),
    available=everything if available is None else jnp.asarray(available) != 0,
    responses=None if responses is None else jnp.asarray(responses),
    theta=None if true_theta is None else jnp.asarray(true_theta, float),
  )
  init_key, key = jax.random.split(key)
  if params is None:
    params = selector.init(init_key, bank)
  controls = (exposure, stop, content)
  return _run(
    *(selector, test_length, estimator, chunk),
    *(params, bank, examinees, controls, key),
  )


def choose_items(
  selector: Selector,
  params: Any,
  bank: Bank,
  state: CatState,
  key: jax.Array,
  *,
  exposure: Exposure | None = None,
  exposure_key: jax.Array | None = None,
  content: ContentBalance | None = None,
) -> tuple[jax.Array, jax.Array]:
  """What a rule asks next; ties go to the lowest index.

  Args:
    selector: the rule.
    params: of the rule.
    bank: of n items.
    state: of E examinees.
    key: for the scores.
    exposure: who takes an item from the scores; None for the highest score.
    exposure_key: the same at all steps of a test; None for `key`.
    content: which items are eligible; None for all that are available.

  Returns:
    `[E]` items, and `[E]` bool whether there is an eligible one.
  """
  scores = _scores(selector, params, key, bank, state)
  eligible = state.available if content is None else content.eligible(state)
  # An eligible item counts even where its score is -inf or NaN.
  least = jnp.finfo(scores.dtype).min
  scores = jnp.where(eligible, jnp.fmax(scores, least), -jnp.inf)
  if exposure is None:
    item = first_best(scores)
  else:
    key = key if exposure_key is None else exposure_key
    item = exposure.choose(key, scores, state)
  return item.astype(jnp.int32), jnp.any(eligible, axis=-1)


def _scores(selector, params, key, bank, state) -> jax.Array:
  """`[E, n]` scores; says which rule it is where that fails."""
  try:
    scores = selector.score(params, key, bank, state)
  except UserError:
    raise
  except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
    raise UserError(
      f'the rule {selector.name!r} fails on this bank with these params '
      f'({type(error).__name__}: {str(error).splitlines()[0]}); params must be '
      'those of its init or training on this bank, or for_bank(params, bank).'
    ) from error
  if jnp.shape(scores) != state.available.shape:
    raise UserError(
      f'the rule {selector.name!r} gives scores of the shape '
      f'{jnp.shape(scores)}; {state.available.shape} are needed: one for each '
      'item, and no params of another bank.'
    )
  return jnp.asarray(scores, jnp.result_type(scores, float))


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _run(
  selector,
  test_length,
  estimator,
  chunk,
  params,
  bank,
  examinees,
  controls,
  key,
) -> CatTrace:
  play = functools.partial(
    _play, selector, test_length, estimator, params, bank
  )
  total = examinees.number.shape[0]
  if chunk is None or total <= chunk:
    return play(examinees, controls, key)
  parts = -(-total // chunk)
  size = -(-total // parts)
  # The last chunk is filled up with examinees whose tests are thrown away.
  padded = jax.tree.map(
    lambda x: x[jnp.minimum(jnp.arange(parts * size), total - 1)].reshape(
      parts, size, *x.shape[1:]
    ),
    examinees,
  )
  trace = jax.lax.map(lambda part: play(part, controls, key), padded)

  def join(x, axis):
    x = jnp.moveaxis(x, 0, axis)
    x = x.reshape(*x.shape[:axis], parts * size, *x.shape[axis + 2 :])
    return jax.lax.slice_in_dim(x, 0, total, axis=axis)

  return CatTrace(
    *(join(x, 1) for x in trace[:3]), *(join(x, 0) for x in trace[3:])
  )


def _play(
  selector, test_length, estimator, params, bank, examinees, controls, key
) -> CatTrace:
  """The scan over items."""
  exposure, stop, content = controls
  answer_key, score_key, exposure_key = jax.random.split(key, 3)
  score_key, exposure_key = (
    jax.random.fold_in(k, examinees.number[0])
    for k in (score_key, exposure_key)
  )
  state = initial_state(
    bank,
    examinees.number.shape[0],
    examinees.available,
    test_length=test_length,
  )

  def step(carry, turn):
    state, se, stopped = carry
    item, some = choose_items(
      *(selector, params, bank, state, jax.random.fold_in(score_key, turn)),
      exposure=exposure,
      exposure_key=exposure_key,
      content=content,
    )
    stopped |= ~some
    item = jnp.where(stopped, -1, item)
    answer = _reply(bank, examinees, item, answer_key)
    state, error = answered(bank, state, item, answer, estimator)
    se = jnp.where(like(stopped, se), se, error)
    if stop is not None:
      lengths = jnp.sum(state.items >= 0, axis=-1, dtype=jnp.int32)
      stopped |= stop(lengths, se)
    return (state, se, stopped), (item, state.theta, se)

  nobody = jnp.zeros(examinees.number.shape, bool)
  start = (state, standard_error(bank, state), nobody)
  (state, _, _), (items, theta, se) = jax.lax.scan(
    step, start, jnp.arange(test_length)
  )
  lengths = jnp.sum(items >= 0, axis=0, dtype=jnp.int32)
  return CatTrace(items, theta, se, state.asked, lengths)


def _reply(bank, examinees, item, key) -> jax.Array:
  """`[E]` answers to the items; 0 where the item is -1."""
  at = jnp.maximum(item, 0)
  if examinees.responses is not None:
    found = jnp.take_along_axis(examinees.responses, at[:, None], axis=1)
    return jnp.where(item >= 0, found[:, 0], 0).astype(jnp.int8)

  def draw(number, item, theta):
    own = jax.random.fold_in(jax.random.fold_in(key, number), item)
    chance = models.prob(take_items(bank, item[None]), theta)[0]
    return jax.random.uniform(own, (), chance.dtype) < chance

  return jax.vmap(draw)(examinees.number, at, examinees.theta).astype(jnp.int8)


def _check(
  bank, responses, true_theta, available, test_length, estimator, chunk
) -> None:
  check_estimator(estimator)
  for name, value in (('test_length', test_length), ('chunk', chunk)):
    if value is None:
      continue
    if not isinstance(value, int | np.integer) or value < 1:
      raise UserError(f'{name} = {value!r}: give a whole number from 1 on.')
  shape = _answering_shape(bank, responses, true_theta)
  if available is not None and np.shape(available) != shape:
    raise UserError(
      f'available has the shape {np.shape(available)}; give {shape}.'
    )
  if responses is not None:
    checks.check_responses('responses', responses, available, bank)
  if checks.is_traced(available):
    return
  counts = (
    np.full(shape[0], shape[1])
    if available is None
    else np.count_nonzero(np.asarray(available), axis=1)
  )
  short = np.flatnonzero(counts < test_length)
  if short.size:
    raise UserError(
      f'test_length = {test_length}: examinee {short[0]} has '
      f'{counts[short[0]]} available items; ask fewer or leave it out.'
    )


def _answering_shape(bank, responses, true_theta) -> tuple[int, int]:
  """Numbers of examinees and of items, checked."""
  if (responses is None) == (true_theta is None):
    raise UserError('give either responses or true_theta.')
  name = 'true_theta' if responses is None else 'responses'
  if responses is not None:
    _check_shape(name, responses, (bank.num_items,))
  else:
    _check_shape(name, true_theta, bank.latent_shape)
    known = not checks.is_traced(true_theta)
    if known and not np.isfinite(np.asarray(true_theta, float)).all():
      raise UserError(f'{name} has a NaN or infinity; give finite numbers.')
  shape = (len(_answering(responses, true_theta)), bank.num_items)
  if not shape[0]:
    raise UserError(f'{name} has no examinee; give at least one.')
  return shape


def _answering(responses: Any, true_theta: Any) -> Any:
  """The one of both that there is, one row for each examinee."""
  return true_theta if responses is None else responses


def _check_shape(name: str, value: ArrayLike, item_shape: tuple[int, ...]):
  shape = np.shape(value)
  if len(shape) != 1 + len(item_shape) or shape[1:] != item_shape:
    raise UserError(f'{name} has the shape {shape}; give {("E", *item_shape)}.')
