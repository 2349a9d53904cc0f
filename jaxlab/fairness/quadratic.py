"""Real roots of quadratics, without cancellation and with safe gradients."""

import jax
import jax.numpy as jnp


def tolerance(dtype: jnp.dtype) -> float:
  """What counts as equal: 2e-12 in float64, 6e-6 in float32."""
  return float(jnp.finfo(dtype).eps) ** 0.75


def safe_divide(
  numerator: jax.Array,
  denominator: jax.Array,
  otherwise: jax.Array | float = 0.0,
) -> jax.Array:
  """`numerator / denominator`, or `otherwise` where the denominator is 0."""
  is_zero = denominator == 0
  quotient = numerator / jnp.where(is_zero, 1, denominator)
  return jnp.where(is_zero, otherwise, quotient)


def safe_sqrt(x: jax.Array) -> jax.Array:
  """Square root; 0, with gradient 0, where x is not positive."""
  return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1)), 0.0)


def roots(
  a: jax.Array, b: jax.Array, c: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """The roots of `a x^2 + b x + c`, where there are any.

  A root that does not exist (complex, or at infinity) is some other finite
  number: a nan would spoil the gradient of the roots that do exist.

  Args:
    a: `[...]` leading coefficient; may be 0.
    b: `[...]` linear coefficient.
    c: `[...]` constant.

  Returns:
    Two `[...]` arrays, in no particular order.
  """
  half = -(b + jnp.where(b < 0, -1, 1) * safe_sqrt(b * b - 4 * a * c)) / 2
  return safe_divide(half, a), safe_divide(c, half)
