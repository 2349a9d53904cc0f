"""Attention of grouped query heads, without repeating keys or values."""

import jax
import jax.numpy as jnp

from jaxlab import errors

IMPLEMENTATIONS = ('xla', 'cudnn')


def attend(
  q: jax.Array,
  k: jax.Array,
  v: jax.Array,
  mask: jax.Array,
  scale: float,
  implementation: str | None = None,
) -> jax.Array:
  """Softmax attention; the softmax is in float32 at least.

  Args:
    q: `[B, T, N, H]` queries.
    k: `[B, S, K, H]` keys; query head n belongs to key head `n // (N/K)`.
    v: `[B, S, K, H]` values.
    mask: `[B, T, S]` bool, who sees whom; where nobody is seen the result is
      a mean over all.
    scale: factor of the scores.
    implementation: None, or one of `jax.nn.dot_product_attention`, such as
      'cudnn' for flash attention on a GPU.

  Returns:
    `[B, T, N, H]`.

  Raises:
    UserError: if the implementation is unknown.
  """
  if implementation is not None:
    if implementation not in IMPLEMENTATIONS:
      raise errors.UserError(
        f'attention={implementation!r} is none of {", ".join(IMPLEMENTATIONS)}.'
      )
    return jax.nn.dot_product_attention(  # type: ignore[call-overload]
      q,
      k,
      v,
      mask=mask[:, None],
      scale=scale,
      implementation=implementation,
    )
  batch, length, heads, width = q.shape
  groups = k.shape[2]
  q = q.reshape(batch, length, groups, heads // groups, width)
  wide = jnp.promote_types(q.dtype, jnp.float32)
  scores = jnp.einsum('btkgh,bskh->bkgts', q, k, preferred_element_type=wide)
  lowest = jnp.finfo(wide).min
  scores = jnp.where(mask[:, None, None], scores * scale, lowest)
  weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
  mixed = jnp.einsum('bkgts,bskh->btkgh', weights, v)
  return mixed.reshape(batch, length, heads, width)
