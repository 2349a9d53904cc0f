"""Equivalence transforms `x W = (x T^-1) (T W)` with `T = R diag(D)`."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax.typing import ArrayLike

from jaxlab.errors import UserError

RULES = ('rms', 'max')
_SMALLEST, _LARGEST = 0.1, 10.0


def largest_block(k: int) -> int:
  """The largest power of two that divides k."""
  return k & -k


def block_hadamard(block: int, signs: ArrayLike) -> jax.Array:
  """A rotation that mixes the channels of each block.

  Args:
    block: size of the blocks, a power of two that divides K.
    signs: `[K]` signs, 1 or -1, of the channels before they are mixed.

  Returns:
    `[K, K]` orthogonal R: Sylvester's Hadamard matrices over `sqrt(block)` on
    the diagonal, times `diag(signs)`.

  Raises:
    UserError: if `block` is no power of two or does not divide K.
  """
  signs = 1.0 * jnp.asarray(signs)
  k = len(signs)
  if block < 1 or largest_block(block) != block or k % block:
    raise UserError(
      f'block = {block} must be a power of two that divides the {k} channels; '
      f'the largest is {largest_block(k)}.'
    )
  mixing = scipy.linalg.hadamard(block) / block**0.5
  blocks = np.kron(np.eye(k // block), mixing)
  return jnp.asarray(blocks, signs.dtype) * signs


def apply_transform(
  x: ArrayLike, W: ArrayLike, D: ArrayLike, R: ArrayLike | None = None
) -> tuple[jax.Array, jax.Array]:
  """Both sides of an equivalence transform.

  Args:
    x: `[..., K]` inputs.
    W: `[K, N]` weights.
    D: `[K]` scales > 0.
    R: `[K, K]` orthogonal, or None for the identity.

  Returns:
    `[..., K]` inputs `x D^-1 R^T` and `[K, N]` weights `R D W`.
  """
  D = jnp.asarray(D)
  x, W = jnp.asarray(x) / D, D[:, None] * jnp.asarray(W)
  if R is None:
    return x, W
  R = jnp.asarray(R)
  return x @ R.T, R @ W


def smooth_scales(
  x_size: ArrayLike, w_size: ArrayLike, alpha: ArrayLike, *, rule: str = 'rms'
) -> jax.Array:
  """Scales D that share the spread of inputs and weights between them.

  Args:
    x_size: `[K]` sizes of the input channels: root mean squares for 'rms',
      largest magnitudes for 'max'.
    w_size: `[K]` sizes of the rows of W, likewise.
    alpha: share of the inputs' spread that moves into the weights, 0 to 1.
    rule: 'rms' for `(x / w)^alpha`, 'max' for SmoothQuant's
      `x^alpha / w^(1 - alpha)` (Xiao et al., ICML 2023, eq. 4).

  Returns:
    `[K]` scales, divided by their geometric mean and clipped to 0.1 to 10; 1
    before clipping where a size is 0, which the mean leaves out.

  Raises:
    UserError: unknown `rule`.
  """
  if rule not in RULES:
    raise UserError(f'rule = {rule!r} is unknown; choose from {RULES}.')
  x_size, w_size = 1.0 * jnp.asarray(x_size), 1.0 * jnp.asarray(w_size)
  alive = (x_size > 0) & (w_size > 0)
  log_x, log_w = (jnp.log(jnp.where(alive, s, 1)) for s in (x_size, w_size))
  share = alpha if rule == 'rms' else 1 - jnp.asarray(alpha)
  log_scale = alpha * log_x - share * log_w
  mean = jnp.sum(log_scale) / jnp.maximum(jnp.sum(alive), 1)
  scale = jnp.exp(jnp.where(alive, log_scale - mean, 0))
  return jnp.clip(scale, _SMALLEST, _LARGEST)
