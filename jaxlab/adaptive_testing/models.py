"""Response models: probabilities, information, likelihoods.

Sources: Birnbaum in Lord & Novick, Statistical Theories of Mental Test Scores,
1968 (2PL, 3PL); Barton & Lord, 1981 (4PL); Reckase, Multidimensional Item
Response Theory, 2009; Wang et al., AAAI 2020 (neural cognitive diagnosis). The
scaling constant is 1.
"""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.adaptive_testing.types import Bank, ItemBank, NeuralBank

_SURE = 1e-6  # of a network's probability, which stays so far from 0 and 1
_BRANCHES = 10.0  # factor of the discrimination of neural cognitive diagnosis


def prob(bank: Bank, theta: ArrayLike) -> jax.Array:
  """Probabilities of right answers.

  Args:
    bank: of n items.
    theta: `[..., *latent]`.

  Returns:
    `[..., n]`.
  """
  if isinstance(bank, NeuralBank):
    return neural_prob(bank, theta)
  z = logit(bank, theta)
  return bank.c + (bank.d - bank.c) * jax.nn.sigmoid(z)


def log_prob(bank: Bank, theta: ArrayLike) -> tuple[jax.Array, jax.Array]:
  """Logarithms of the probabilities of wrong and of right answers.

  They are finite in float32 at any ability.

  Args:
    bank: of n items.
    theta: `[..., *latent]`.

  Returns:
    Two arrays `[..., n]`.
  """
  if isinstance(bank, NeuralBank):
    p = prob(bank, theta)
    return jnp.log1p(-p), jnp.log(p)
  z = logit(bank, theta)
  span = jnp.log(bank.d - bank.c)
  right = _log_sum(bank.c, span + jax.nn.log_sigmoid(z))
  wrong = _log_sum(1 - bank.d, span + jax.nn.log_sigmoid(-z))
  return wrong, right


def logit(bank: ItemBank, theta: ArrayLike) -> jax.Array:
  """`[..., n]` z, what the sigmoid of the model takes."""
  theta = jnp.asarray(theta)
  if bank.latent_shape:
    return theta @ bank.a.T + bank.b
  return bank.a * (theta[..., None] - bank.b)


def neural_prob(
  bank: NeuralBank,
  theta: ArrayLike,
  *,
  dropout: float = 0.0,
  key: jax.Array | None = None,
) -> jax.Array:
  """Probabilities of right answers by neural cognitive diagnosis.

  Args:
    bank: of n items.
    theta: `[..., D]`.
    dropout: share of hidden units that are left out, in training; each
      examinee has other ones.
    key: PRNG key of what is left out; None where that is nothing.

  Returns:
    `[..., n]`.
  """
  theta = jnp.asarray(theta, jnp.result_type(theta, bank.difficulty))
  gap = jax.nn.sigmoid(theta)[..., None, :] - jax.nn.sigmoid(bank.difficulty)
  return _network(bank, _strength(bank) * gap, dropout, key)


def _strength(bank: NeuralBank) -> jax.Array:
  """`[n, D]` weights of the gaps between abilities and demands."""
  size = _BRANCHES * jax.nn.sigmoid(bank.discrimination)
  return bank.q_matrix * size[:, None]


def _network(bank: NeuralBank, x, dropout=0.0, key=None) -> jax.Array:
  """`[..., n]` probabilities from weighted gaps `[..., n, D]`."""
  for depth, (kernel, bias) in enumerate(bank.layers):
    if key is not None and depth:
      kept = jax.random.fold_in(key, depth)
      shape = (*x.shape[:-2], 1, x.shape[-1])
      kept = jax.random.bernoulli(kept, 1 - dropout, shape)
      x = jnp.where(kept, x / (1 - dropout), 0)
    x = jax.nn.sigmoid(x @ jax.nn.softplus(kernel) + bias)
  return jnp.clip(x[..., 0], _SURE, 1 - _SURE)


def prob_slope(bank: Bank, theta: ArrayLike) -> jax.Array:
  """Derivatives of the probabilities, `[..., n, *latent]`."""
  if isinstance(bank, NeuralBank):
    return _neural_slope(bank, jnp.asarray(theta))
  s = jax.nn.sigmoid(logit(bank, theta))
  return _along(bank, (bank.d - bank.c) * s * (1 - s))


def item_information(bank: Bank, theta: ArrayLike) -> jax.Array:
  """Fisher information `p' p'^T / (p (1 - p))` of each item.

  Args:
    bank: of n items.
    theta: `[..., *latent]`.

  Returns:
    `[..., n]`, or `[..., n, D, D]` for abilities of D dimensions.
  """
  if isinstance(bank, NeuralBank):
    p, slope = prob(bank, theta), prob_slope(bank, theta)
    return _square(slope) / (p * (1 - p))[..., None, None]
  size = logit_information(bank, theta)
  if bank.latent_shape:
    return size[..., None, None] * _square(bank.a)
  return size * bank.a**2


def information(
  bank: Bank, theta: ArrayLike, mask: ArrayLike | None = None
) -> jax.Array:
  """Fisher information of all answers together.

  Args:
    bank: of n items.
    theta: `[..., *latent]`.
    mask: `[..., n]`, not 0 where there is an answer; None for all.

  Returns:
    `[..., *latent, *latent]`.
  """
  theta = jnp.asarray(theta)
  seen = 1.0 if mask is None else (jnp.asarray(mask) != 0).astype(theta.dtype)
  if isinstance(bank, NeuralBank):
    p, slope = prob(bank, theta), prob_slope(bank, theta)
    size = seen / (p * (1 - p))
    return jnp.einsum('...n,...nd,...nf->...df', size, slope, slope)
  return weigh(bank, seen * logit_information(bank, theta))


def weigh(bank: ItemBank, size: jax.Array) -> jax.Array:
  """Sums over items of `size` `[..., n]` times the squares of the slopes.

  Returns:
    `[..., *latent, *latent]`.
  """
  if not bank.latent_shape:
    return jnp.matmul(size, bank.a**2, precision='highest')
  (num_dims,) = bank.latent_shape
  squares = _square(bank.a).reshape(-1, num_dims**2)
  total = jnp.matmul(size, squares, precision='highest')
  return total.reshape(*size.shape[:-1], num_dims, num_dims)


def logit_information(bank: ItemBank, theta: ArrayLike) -> jax.Array:
  """Fisher information of each answer about its z, `[..., n]`."""
  z = logit(bank, theta)
  s = jax.nn.sigmoid(z)
  return (bank.d - bank.c) * s * jax.nn.sigmoid(-z) * leverage(bank, z)


def leverage(bank: ItemBank, z: jax.Array) -> jax.Array:
  """`(d - c) s (1 - s) / (p (1 - p))`, by which an answer moves z.

  It is 1 for c = 0 and d = 1. No tiny number is divided by another one, for
  `s / p` is `1 / (d + c e^-z)`, and `(1 - s) / (1 - p)` is alike.
  """
  below, above = _tails(bank, z)
  return (bank.d - bank.c) / (bank.d + below) / (1 - bank.c + above)


def logit_curvature(
  bank: ItemBank, theta: ArrayLike, y: ArrayLike, mask: ArrayLike | None = None
) -> jax.Array:
  """Second derivative of the loss of each item by its z, `[..., n]`.

  It is the Fisher information where c = 0 and d = 1; else it depends on the
  answer, and may be negative. The arguments are those of `nll`.
  """
  y, seen = _answers(y, mask)
  z = logit(bank, theta)
  s = jax.nn.sigmoid(z)
  span = bank.d - bank.c
  below, above = _tails(bank, z)
  bend = below / (bank.d + below) - above / (1 - bank.c + above)
  expected = span * s * jax.nn.sigmoid(-z)
  gap = bank.c + span * s - y
  return seen * leverage(bank, z) * (expected + gap * bend)


def information_root(bank: Bank, theta: ArrayLike) -> jax.Array:
  """Vectors v, `[..., n, *latent]`, with `item_information = v v^T`.

  An item tells about one direction only: `v = p' / sqrt(p (1 - p))`.
  """
  if isinstance(bank, NeuralBank):
    p, slope = prob(bank, theta), prob_slope(bank, theta)
    return slope / jnp.sqrt(p * (1 - p))[..., None]
  return _along(bank, jnp.sqrt(logit_information(bank, theta)))


def max_information_theta(bank: ItemBank) -> jax.Array:
  """The ability at which each item tells most, `[n]`; for d = 1.

  `b + log((1 + sqrt(1 + 8 c)) / 2) / a` (Birnbaum, 1968). Where a = 0 it is b.
  """
  shift = jnp.log((1 + jnp.sqrt(1 + 8 * bank.c)) / 2)
  some = bank.a > 0
  return bank.b + jnp.where(some, shift / jnp.where(some, bank.a, 1), 0)


def nll(
  bank: Bank, theta: ArrayLike, y: ArrayLike, mask: ArrayLike | None = None
) -> jax.Array:
  """Negative log-likelihood of responses, in nats.

  Args:
    bank: of n items.
    theta: `[..., *latent]`.
    y: `[..., n]` answers 0 or 1; any value, NaN too, where they are masked.
    mask: `[..., n]`, not 0 where there is an answer; None for all.

  Returns:
    `[...]`.
  """
  y, seen = _answers(y, mask)
  wrong, right = log_prob(bank, theta)
  return -jnp.sum(seen * (y * right + (1 - y) * wrong), axis=-1)


def item_grads(
  bank: Bank, theta: ArrayLike, y: ArrayLike, mask: ArrayLike | None = None
) -> jax.Array:
  """Gradients by ability of the loss of each item, `[..., n, *latent]`.

  The arguments are those of `nll`; masked items have gradient 0.
  """
  y, seen = _answers(y, mask)
  gap = seen * (prob(bank, theta) - y)
  if isinstance(bank, NeuralBank):
    p, slope = prob(bank, theta), prob_slope(bank, theta)
    return (gap / (p * (1 - p)))[..., None] * slope
  return _along(bank, gap * leverage(bank, logit(bank, theta)))


def nll_grad(
  bank: Bank, theta: ArrayLike, y: ArrayLike, mask: ArrayLike | None = None
) -> jax.Array:
  """Gradient of `nll` by ability, `[..., *latent]`."""
  axis = -1 - len(bank.latent_shape)
  return jnp.sum(item_grads(bank, theta, y, mask), axis=axis)


def _answers(y, mask):
  """Answers without what is masked, and the mask as numbers."""
  y = jnp.asarray(y)
  y = y if jnp.issubdtype(y.dtype, jnp.floating) else y.astype(float)
  if mask is None:
    return y, jnp.ones((), y.dtype)
  seen = jnp.asarray(mask) != 0
  return jnp.where(seen, y, 0), seen.astype(y.dtype)


def _log_sum(share: jax.Array, log_rest: jax.Array) -> jax.Array:
  """`log(share + exp(log_rest))` for share >= 0, without a logarithm of 0."""
  some = share > 0
  log_share = jnp.log(jnp.where(some, share, 1))
  return jnp.where(some, jnp.logaddexp(log_share, log_rest), log_rest)


def _tails(bank: ItemBank, z: jax.Array) -> tuple[jax.Array, jax.Array]:
  """`c e^-z` and `(1 - d) e^z`, finite."""
  top = jnp.log(jnp.finfo(z.dtype).max) - 2
  below = jnp.where(bank.c > 0, bank.c * jnp.exp(jnp.minimum(-z, top)), 0)
  above = jnp.where(bank.d < 1, (1 - bank.d) * jnp.exp(jnp.minimum(z, top)), 0)
  return below, above


def _along(bank: ItemBank, x: jax.Array) -> jax.Array:
  """`[..., n]` times the slopes."""
  return x[..., None] * bank.a if bank.latent_shape else x * bank.a


def _square(x: jax.Array) -> jax.Array:
  return x[..., :, None] * x[..., None, :]


def _neural_slope(bank: NeuralBank, theta: jax.Array) -> jax.Array:
  s = jax.nn.sigmoid(theta)[..., None, :]
  gap = s - jax.nn.sigmoid(bank.difficulty)
  strength = _strength(bank)
  # A probability depends on the gaps of its own item alone: one pass for all.
  slope = jax.grad(lambda x: jnp.sum(_network(bank, x)))(strength * gap)
  return slope * strength * s * (1 - s)
