"""A low-rank product that makes up for what quantization lost."""

import functools

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.errors import UserError


@functools.partial(jax.jit, static_argnames='rank')
def compensate_low_rank(
  X: ArrayLike,
  E: ArrayLike,
  omega: ArrayLike,
  gamma: ArrayLike,
  rank: int,
  *,
  damp: float = 0.01,
) -> tuple[jax.Array, jax.Array]:
  """Reduced-rank regression of an error on the inputs, in closed form.

  Minimises `sum_mn omega_m gamma_n (E - X A B)_mn^2`: the regression in
  coordinates where inputs and outputs are white, cut to its leading singular
  vectors.

  Source: Izenman, J. Multivariate Analysis 5/2, 1975.

  Args:
    X: `[M, K]` inputs.
    E: `[M, N]` what is missing, `y - y_hat`.
    omega: `[M]` weights >= 0 of the rows.
    gamma: `[N]` weights >= 0 of the columns; a column of weight 0 gets no
      compensation.
    rank: q, 1 to min(K, N).
    damp: ridge, as a share of the mean diagonal of the second moments; 0 needs
      inputs of full rank.

  Returns:
    A `[K, q]` and B `[q, N]`.

  Raises:
    UserError: if `rank` is outside 1 to min(K, N).
  """
  X, E, gamma = 1.0 * jnp.asarray(X), jnp.asarray(E), jnp.asarray(gamma)
  most = min(X.shape[1], E.shape[1])
  if not 1 <= rank <= most:
    raise UserError(
      f'comp_rank = {rank} must be 1 to {most}, the smaller of K and N.'
    )
  weighted = jnp.asarray(omega)[:, None] * X / len(X)
  moments = weighted.T @ X
  size = jnp.trace(moments) / len(moments)
  ridge = jnp.where(size > 0, damp * size, 1)
  lower = jnp.linalg.cholesky(
    moments + ridge * jnp.eye(len(moments), dtype=X.dtype)
  )
  root = jnp.sqrt(gamma)
  white = jax.scipy.linalg.solve_triangular(
    lower, weighted.T @ E * root, lower=True
  )
  left, values, right = jnp.linalg.svd(white, full_matrices=False)
  share = jnp.sqrt(values[:rank])
  A = jax.scipy.linalg.solve_triangular(
    lower, left[:, :rank] * share, lower=True, trans=1
  )
  inverse_root = jnp.where(gamma > 0, 1 / jnp.where(gamma > 0, root, 1), 0)
  return A, share[:, None] * right[:rank] * inverse_root
