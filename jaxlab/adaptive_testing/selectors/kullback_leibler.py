"""Global information: divergence of answers around the estimate.

Source: Chang & Ying, Applied Psychological Measurement, 1996 (KLI); Veldkamp
& van der Linden, Psychometrika, 2002 (several dimensions).
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import qmc

from jaxlab.adaptive_testing import models
from jaxlab.adaptive_testing.selectors.classical import no_params
from jaxlab.adaptive_testing.types import Bank, Selector

_NODES = 15  # of Gauss-Legendre quadrature in one dimension
_POINTS = 512  # of a Halton sequence in several dimensions
_WIDTH = 3.0


@functools.cache
def kli() -> Selector:
  """Kullback-Leibler information, integrated around the estimate.

  The integral of `KL(p(theta_t) || p(theta))` over the interval, or the cube,
  `theta_t +- delta`; `delta = 3 / sqrt(t)` with t answered items, at least 1.
  """

  def score(params, key, bank, state):
    del params, key
    answered = jnp.sum(state.asked, axis=-1)
    delta = _WIDTH / jnp.sqrt(jnp.maximum(answered, 1).astype(float))
    return kl_integral(bank, state.theta, delta)

  return Selector(no_params, score, 'kli')


def kl_integral(bank: Bank, theta: jax.Array, delta: jax.Array) -> jax.Array:
  """Integrals of the divergence of each item, `[E, n]`.

  Args:
    bank: of n items.
    theta: `[E, *latent]` middle of the interval or cube.
    delta: `[E]` half its width.
  """
  shift, weight = _nodes(bank.latent_shape)
  wrong, right = models.log_prob(bank, theta)
  p, q = jnp.exp(right), jnp.exp(wrong)
  latent = bank.latent_shape
  span = delta.reshape(*delta.shape, *(1 for _ in latent))

  def add(total, node):
    move, share = node
    lower, upper = models.log_prob(bank, theta + span * move)
    gap = p * (right - upper) + q * (wrong - lower)
    return total + share * gap, None

  nodes = (shift.astype(theta.dtype), weight.astype(theta.dtype))
  total, _ = jax.lax.scan(add, jnp.zeros_like(p), nodes)
  return total * delta[:, None] ** max(len(latent) and latent[0], 1)


def _nodes(latent: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
  """Places in `[-1, 1]^D` and weights that sum to the volume."""
  if not latent:
    return np.polynomial.legendre.leggauss(_NODES)
  points = 2 * qmc.Halton(latent[0], scramble=False).random(_POINTS) - 1
  return points, np.full(_POINTS, 2.0 ** latent[0] / _POINTS)
