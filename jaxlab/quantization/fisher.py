"""The loss geometry: factors of the Fisher matrix of the output distribution.

For the output z of a block, `F = J^T (diag p - p p^T) J` with J the Jacobian
of the logits and p their softmax. `1/2 d^T F d` predicts the KL divergence
that an error d at z causes. F is never formed: G with `G^T G = F` is kept.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab import stats
from jaxlab.errors import UserError


def fisher_factors(
  rest_fn: Callable[[jax.Array], jax.Array],
  z: jax.Array,
  key: jax.Array,
  *,
  probes: int = 6,
  exact_max_classes: int = 16,
) -> jax.Array:
  """Factors G of the Fisher matrix at z, one vector-Jacobian product a row.

  Args:
    rest_fn: the rest of the network, `[n, ...]` to logits `[n, C]`; it treats
      every sample on its own.
    z: `[n, ...]` outputs of a block.
    key: for the probes; the exact factors do not use it.
    probes: rows r with random signs where C is large; `E[G^T G] = F`.
    exact_max_classes: up to this many classes there are r = C rows
      `sqrt(p_c) (j_c - sum_k p_k j_k)`, and `G^T G = F`.

  Returns:
    `[n, r, ...]` factors.

  Raises:
    UserError: if the logits are not `[n, C]`, or C = 1, where F is 0.
  """
  logits, pull_back = jax.vjp(rest_fn, z)
  if logits.ndim != 2:
    raise UserError(
      f'rest_fn must return logits [n, C], got the shape {logits.shape}.'
    )
  classes = logits.shape[1]
  if classes == 1:
    raise UserError(
      "the head has 1 class, so its Fisher matrix is 0; choose loss='mse'."
    )
  p = jax.nn.softmax(logits)
  if classes <= exact_max_classes:
    cotangents = jax.vmap(_exact_cotangents, out_axes=1)(p)
  else:
    shape = (probes, *logits.shape)
    signs = jax.random.rademacher(key, shape, logits.dtype)
    cotangents = jax.vmap(probe_cotangents, (0, 1), 1)(p, signs)
  (rows,) = jax.vmap(pull_back)(cotangents)
  return jnp.moveaxis(rows, 0, 1)


def probe_cotangents(p: ArrayLike, eps: ArrayLike) -> jax.Array:
  """Random cotangents c with `E[sum_r c_r c_r^T] = diag p - p p^T`.

  Args:
    p: `[C]` probabilities.
    eps: `[r, C]` signs, 1 or -1.

  Returns:
    `[r, C]` rows `(sqrt(p) eps - p <sqrt(p), eps>) / sqrt(r)`.
  """
  p, eps = jnp.asarray(p), jnp.asarray(eps)
  root = jnp.sqrt(p)
  inner = eps @ root
  return (root * eps - inner[:, None] * p) / jnp.sqrt(len(eps)).astype(p.dtype)


def path_fisher(G0: jax.Array, G1: jax.Array) -> jax.Array:
  """Factors of the Fisher matrix along the segment from z to z + d.

  With F linear on the segment `KL = 1/2 d^T (2/3 F(z) + 1/3 F(z + d)) d`.

  Args:
    G0: `[n, r0, ...]` factors at z.
    G1: `[n, r1, ...]` factors at z + d.

  Returns:
    `[n, r0 + r1, ...]` factors.
  """
  return jnp.concatenate([(2 / 3) ** 0.5 * G0, (1 / 3) ** 0.5 * G1], axis=1)


def quadratic_form(G: jax.Array, delta: jax.Array) -> jax.Array:
  """The predicted KL divergence `1/2 |G delta|^2` of each sample.

  Args:
    G: `[n, r, ...]` factors.
    delta: `[n, ...]` errors.

  Returns:
    `[n]` predictions in nats.
  """
  n, r = G.shape[:2]
  along = jnp.einsum('nrd,nd->nr', G.reshape(n, r, -1), delta.reshape(n, -1))
  return 0.5 * jnp.sum(along**2, axis=-1)


def kl_divergence(logits0: jax.Array, logits1: jax.Array) -> jax.Array:
  """`KL(p0 || p1)` of the softmax distributions.

  Args:
    logits0: `[..., C]` logits.
    logits1: `[..., C]` logits.

  Returns:
    `[...]` divergences in nats.
  """
  log0, log1 = jax.nn.log_softmax(logits0), jax.nn.log_softmax(logits1)
  return jnp.sum(jnp.exp(log0) * (log0 - log1), axis=-1)


def fidelity(predicted: ArrayLike, true: ArrayLike) -> jax.Array:
  """How well predictions order the samples: Spearman's rank correlation.

  Args:
    predicted: `[..., n]` predicted losses.
    true: `[..., n]` measured losses.

  Returns:
    `[...]` coefficients in [-1, 1].
  """
  return stats.spearman(predicted, true)


def _exact_cotangents(p: jax.Array) -> jax.Array:
  """`[C, C]` rows `sqrt(p_c) (e_c - p)`."""
  return jnp.sqrt(p)[:, None] * (jnp.eye(len(p), dtype=p.dtype) - p)
