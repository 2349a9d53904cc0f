"""The arrays of adaptive testing: banks of items, examinees, selectors."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError


class ItemBank(NamedTuple):
  """Items of the logistic models, 1PL to 4PL and compensatory MIRT.

  The right answer has the probability `c + (d - c) sigmoid(z)`; with slopes
  `[n]` it is `z = a (theta - b)`, with slopes `[n, D]` `z = a . theta + b`.
  Abilities have the latent shape, `()` or `(D,)`, as their last axes.

  Attributes:
    a: `[n]` or `[n, D]` slopes; 0 makes an item that tells nothing.
    b: `[n]` difficulties, or intercepts where slopes are `[n, D]`.
    c: `[n]` probabilities of guessing, in [0, 1).
    d: `[n]` upper asymptotes, in (c, 1].
    q_matrix: `[n, D]` which concepts an item needs, or None.
  """

  a: jax.Array
  b: jax.Array
  c: jax.Array
  d: jax.Array
  q_matrix: jax.Array | None = None

  @property
  def num_items(self) -> int:
    """Number n of items."""
    return self.b.shape[0]

  @property
  def latent_shape(self) -> tuple[int, ...]:
    """Shape of one ability: `()` or `(D,)`."""
    return self.a.shape[1:]


class NeuralBank(NamedTuple):
  """Items of neural cognitive diagnosis (Wang et al., AAAI 2020).

  Attributes:
    difficulty: `[n, D]` logit of what each concept demands.
    discrimination: `[n]` logit.
    layers: pairs (kernel `[in, out]`, bias `[out]`) of the network; kernels
      are the softplus of what is stored here, so that a right answer never
      becomes less likely with ability.
    q_matrix: `[n, D]` which concepts an item needs.
  """

  difficulty: jax.Array
  discrimination: jax.Array
  layers: tuple[tuple[jax.Array, jax.Array], ...]
  q_matrix: jax.Array

  @property
  def num_items(self) -> int:
    """Number n of items."""
    return self.difficulty.shape[0]

  @property
  def latent_shape(self) -> tuple[int, ...]:
    """Shape of one ability: `(D,)`."""
    return self.difficulty.shape[1:]


Bank = ItemBank | NeuralBank


class CatState(NamedTuple):
  """Examinees in the middle of their tests; all that a selector may see.

  Attributes:
    asked: `[E, n]` bool, which items were asked.
    available: `[E, n]` bool, which items may still be asked.
    responses: `[E, n]` int8 answers 0 or 1 to what was asked, 0 elsewhere.
    theta: `[E, *latent]` current estimates.
    info: `[E]` or `[E, D, D]` posterior precision: Fisher information of what
      was asked at `theta`, plus the precision of the prior.
    log_post: `[E, G]` logarithm of the posterior on `GRID`, whose masses sum to
      1; None if D > 1.
    step: `[]` int32, number of items asked in this run.
    items: `[E, T]` int32, what was asked, in that order; -1 where nothing was.
  """

  asked: jax.Array
  available: jax.Array
  responses: jax.Array
  theta: jax.Array
  info: jax.Array
  log_post: jax.Array | None
  step: jax.Array
  items: jax.Array


class Selector(NamedTuple):
  """A rule that chooses items.

  Attributes:
    init: `(key, bank) -> params`; `()` for a rule without parameters.
    score: `(params, key, bank, state) -> [E, n]`, the higher the better. Scores
      of items that are not available are ignored.
    name: in tables.
  """

  init: Callable[[jax.Array, Any], Any]
  score: Callable[[Any, jax.Array, Any, CatState], jax.Array]
  name: str = ''


class Ability(NamedTuple):
  """Estimates of ability.

  Attributes:
    theta: `[..., *latent]`.
    se: `[..., *latent]` standard errors.
  """

  theta: jax.Array
  se: jax.Array


class CatTrace(NamedTuple):
  """What happened in tests of T items, item by item.

  Attributes:
    items: `[T, E]` int32, -1 after the test has stopped.
    theta: `[T, E, *latent]` estimates after each item.
    se: `[T, E, *latent]` their standard errors.
    asked: `[E, n]` bool, at the end.
    lengths: `[E]` int32, items that were asked.
  """

  items: jax.Array
  theta: jax.Array
  se: jax.Array
  asked: jax.Array
  lengths: jax.Array


GRID = np.linspace(-5, 5, 81)  # abilities at which posteriors are known


def item_bank(
  a: ArrayLike,
  b: ArrayLike,
  c: ArrayLike = 0.0,
  d: ArrayLike = 1.0,
  q_matrix: ArrayLike | None = None,
) -> ItemBank:
  """A bank whose parameters have been checked; not to be traced.

  Args:
    a: slopes, a number, `[n]` or `[n, D]`.
    b: `[n]` difficulties, or intercepts where slopes are `[n, D]`.
    c: probabilities of guessing, a number or `[n]`.
    d: upper asymptotes, a number or `[n]`.
    q_matrix: `[n, D]` of 0 and 1, or None.

  Raises:
    UserError: an empty bank, shapes that do not fit, parameters that are not
      finite, a < 0, c outside [0, 1), d not in (c, 1], an item without concept.
  """
  b = np.asarray(b, float)
  if b.ndim != 1 or not b.size:
    raise UserError(f'b has the shape {b.shape}; give a bank of n > 0 items.')
  found = {'a': np.asarray(a, float), 'c': np.asarray(c, float)}
  found['d'] = np.asarray(d, float)
  for name, value in found.items():
    if value.ndim == 0:
      found[name] = np.full(b.shape, value)
    wide = name == 'a' and value.ndim == 2 and value.shape[1] > 0
    if found[name].shape[:1] != b.shape or (found[name].ndim > 1 and not wide):
      raise UserError(f'{name} has the shape {value.shape}, b {b.shape}.')
  found['b'] = b
  for name, value in found.items():
    _refuse(name, value, ~np.isfinite(value), 'give finite numbers')
  one_dimension = found['a'].ndim == 1
  if one_dimension:
    _refuse('a', found['a'], found['a'] < 0, 'slopes must be >= 0')
  low, high = found['c'], found['d']
  _refuse('c', low, (low < 0) | (low >= 1), 'guessing must be in [0, 1)')
  _refuse('d', high, (high <= low) | (high > 1), 'must be above c, at most 1')
  matrix = None if q_matrix is None else _concepts(q_matrix, len(b))
  slopes, difficulties, guess, top = (jnp.asarray(found[n]) for n in 'abcd')
  concepts = None if matrix is None else jnp.asarray(matrix)
  return ItemBank(slopes, difficulties, guess, top, concepts)


def _concepts(q_matrix: ArrayLike, num_items: int) -> np.ndarray:
  matrix = np.asarray(q_matrix)
  if matrix.ndim != 2 or len(matrix) != num_items:
    raise UserError(
      f'q_matrix has the shape {matrix.shape}; give [{num_items}, D].'
    )
  _refuse('q_matrix', matrix, (matrix != 0) & (matrix != 1), 'give 0 and 1')
  empty = ~matrix.any(axis=1)
  if empty.any():
    raise UserError(
      f'q_matrix: item {np.flatnonzero(empty)[0]} needs no concept; give each '
      'item at least one 1.'
    )
  return matrix.astype(float)


def _refuse(name: str, value: np.ndarray, wrong: np.ndarray, rule: str) -> None:
  if wrong.any():
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    place = at[0] if len(at) == 1 else at
    raise UserError(f'{name}[{place}] = {value[at]:g}: {rule}.')
