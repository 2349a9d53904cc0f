"""Calibration: item parameters by marginal maximum likelihood (MML-EM).

Abilities are N(0, 1) and integrated out by quadrature. Sources: Bock & Aitkin,
Psychometrika, 1981 (EM); Varadhan & Roland, Scandinavian Journal of Statistics,
2008 (acceleration, SQUAREM); Louis, Journal of the Royal Statistical Society B,
1982 (standard errors).
"""

import functools
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.adaptive_testing import checks, louis, mml
from jaxlab.adaptive_testing.types import ItemBank
from jaxlab.errors import UserError

MODELS = ('1PL', '2PL', '3PL')
_FEWEST_POINTS = 11
HARDEST = 5.0  # |b| of an item that everybody, or nobody, solves


class ItemErrors(NamedTuple):
  """Standard errors of item parameters, NaN where a parameter is not fitted.

  Attributes:
    a: `[n]` of slopes.
    b: `[n]` of difficulties.
    c: `[n]` of probabilities of guessing.
  """

  a: jax.Array
  b: jax.Array
  c: jax.Array


class FitInfo(NamedTuple):
  """How a calibration went.

  Attributes:
    loglik: `[]` marginal log-likelihood of the responses, in nats, without
      priors of item parameters and without degenerate items.
    se: standard errors, from the inverse of the observed information of the
      marginal likelihood (Louis, 1982), with the curvature of priors.
    converged: `[]` bool: the last EM step moved no parameter by `tolerance`.
    n_iter: `[]` int32, EM steps.
  """

  loglik: jax.Array
  se: ItemErrors
  converged: jax.Array
  n_iter: jax.Array


def fit_mml(
  responses: ArrayLike,
  mask: ArrayLike | None = None,
  *,
  model: str = '2PL',
  num_quad: int = 41,
  max_iter: int = 200,
  tolerance: float | None = None,
  prior_a: tuple[ArrayLike, ArrayLike] | None = None,
  prior_c: tuple[ArrayLike, ArrayLike] = (5.0, 17.0),
) -> tuple[ItemBank, FitInfo]:
  """Fits a logistic model to responses.

  Degenerate items, to which all responses are equal, are left out of the fit:
  their difficulty is -5 or 5, their slope that of the others in the 1PL model,
  else the median of its prior (1 without one).

  Args:
    responses: `[E, n]`, 0 or 1; any value, NaN too, where they are masked.
    mask: `[E, n]`, not 0 where there is a response; None for all.
    model: '1PL' with one slope for all items, which is fitted too; '2PL';
      '3PL'.
    num_quad: points of the quadrature, equally spaced on [-5, 5].
    max_iter: EM steps at most.
    tolerance: change of log a, of the intercept and of logit c by which an EM
      step counts as the last; None for 2e-5, 1e-7 for float64.
    prior_a: mean and standard deviation of log a in a log-normal prior of
      slopes; None for (0, 0.5) in the 3PL model, else for no prior.
    prior_c: parameters of the beta prior of c in the 3PL model.

  Returns:
    The bank, with slopes in [0.01, 20], and how the fit went.

  Raises:
    UserError: an unknown model, responses other than 0 and 1, shapes that do
      not fit, an item without any response.
  """
  if model not in MODELS:
    raise UserError(f'model = {model!r} is not one of {", ".join(MODELS)}.')
  _check(responses, mask)
  if num_quad < _FEWEST_POINTS:
    raise UserError(
      f'num_quad = {num_quad}: take at least {_FEWEST_POINTS} points.'
    )
  spread: Any = 1.0 if prior_a is None else prior_a[1]
  if not checks.is_traced(spread) and not float(spread) > 0:
    raise UserError(f'prior_a = {prior_a}: the deviation must be above 0.')
  if prior_a is None and model == '3PL':
    prior_a = (0.0, 0.5)
  responses = jnp.asarray(responses)
  dtype = jnp.promote_types(responses.dtype, jnp.float32)
  if tolerance is None:
    tolerance = 1e-7 if dtype == jnp.float64 else 2e-5
  seen = True if mask is None else jnp.asarray(mask) != 0
  right = seen & (responses == 1)
  seen = jnp.broadcast_to(seen, responses.shape)
  priors = mml.Priors(prior_a, prior_c if model == '3PL' else None)
  return _fit(
    right.astype(dtype),
    seen.astype(dtype),
    priors,
    tolerance,
    max_iter,
    common=model == '1PL',
    num_quad=num_quad,
  )


@functools.partial(jax.jit, static_argnames=('common', 'num_quad'))
def _fit(right, seen, priors, tolerance, max_iter, *, common, num_quad):
  count, solved = jnp.sum(seen, axis=0), jnp.sum(right, axis=0)
  fitted = (solved > 0) & (solved < count)
  data = mml.Data(right * fitted, seen * fitted, *_quadrature(num_quad, right))
  start = mml.start(data, priors)
  run = mml.ascend(data, priors, start, tolerance, max_iter, common=common)
  items = mml.bank(run.params)
  slope = 1.0 if priors.a is None else jnp.exp(priors.a[0])
  a = items.a[:, 0]
  a = a if common else jnp.where(fitted, a, slope)
  edge = jnp.where(solved > 0, -HARDEST, HARDEST).astype(a.dtype)
  b = jnp.where(fitted, -items.b / a, edge)
  errors = louis.standard_errors(data, priors, run.params, common=common)
  errors = jnp.where(fitted[:, None], errors, jnp.nan)
  se = ItemErrors(*errors.T)
  _, loglik = mml.expect(data, run.params)
  converged = (run.change < tolerance) & jnp.isfinite(loglik)
  info = FitInfo(loglik, se, converged, run.steps)
  return ItemBank(a, b, items.c, items.d), info


def _quadrature(num_quad: int, like: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Nodes and logarithms of weights, proportional to the N(0, 1) density."""
  nodes = jnp.linspace(-5, 5, num_quad, dtype=like.dtype)
  return nodes, jax.nn.log_softmax(-(nodes**2) / 2)


def _check(responses: ArrayLike, mask: ArrayLike | None) -> None:
  """Refuses what cannot be fitted, warns of what is left out."""
  if np.ndim(responses) != 2 or 0 in np.shape(responses):
    raise UserError(
      f'responses has the shape {np.shape(responses)}; give [examinees, items].'
    )
  checks.check_responses('responses', responses, mask)
  if checks.is_traced(responses, mask):
    return
  values = np.asarray(responses)
  seen = np.ones(values.shape, bool) if mask is None else np.asarray(mask) != 0
  empty = np.flatnonzero(~seen.any(axis=0))
  if empty.size:
    raise UserError(
      f'responses: nobody answered item {_listed(empty)}; leave it out.'
    )
  solved = (seen & (values == 1)).sum(axis=0)
  equal = np.flatnonzero((solved == 0) | (solved == seen.sum(axis=0)))
  if equal.size:
    warnings.warn(
      f'all responses to item {_listed(equal)} are equal: it is left out of the'
      f' fit, its difficulty is the bound {-HARDEST:g} or {HARDEST:g} and its'
      ' slope that of the prior.',
      stacklevel=3,
    )


def _listed(items: np.ndarray) -> str:
  shown = ', '.join(map(str, items[:10]))
  return f'{shown} and {len(items) - 10} more' if len(items) > 10 else shown
