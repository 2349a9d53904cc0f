"""Small networks, and the exact minima of their margins."""

import itertools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize


def dense_net(params, x):
  """Dense ReLU network over `[B, n]`; params are pairs ([in, out], [out])."""
  for weights, bias in params[:-1]:
    x = jax.nn.relu(x @ weights + bias)
  weights, bias = params[-1]
  return x @ weights + bias


def dense_params(seed, widths, scale=1.0):
  """Random float64 parameters of `dense_net`."""
  rng = np.random.default_rng(seed)
  return [
    (
      scale * rng.normal(size=(fan_in, fan_out)) / fan_in**0.5,
      0.3 * rng.normal(size=fan_out),
    )
    for fan_in, fan_out in itertools.pairwise(widths)
  ]


def case_params(case):
  """Parameters of `dense_net` from the matrices [out][in] of a case."""
  return [
    (jnp.asarray(weights).T, jnp.asarray(bias))
    for weights, bias in zip(case['weights'], case['biases'], strict=True)
  ]


def pooled_conv(params, x):
  """Convolution, ReLU, max pooling and a dense layer over `[B, 4, 4, 1]`."""
  kernel, weights = params
  x = jax.nn.relu(
    jax.lax.conv_general_dilated(
      x - 0.5,
      kernel,
      (1, 1),
      'SAME',
      dimension_numbers=('NHWC', 'HWIO', 'NHWC'),
    )
  )
  return nn.max_pool(x, (2, 2), (2, 2)).reshape(len(x), -1) @ weights


def pooled_conv_params(seed):
  """Random float32 parameters of `pooled_conv`."""
  rng = np.random.default_rng(seed)
  shapes = (3, 3, 1, 2), (8, 3)
  return [rng.normal(size=shape).astype('float32') for shape in shapes]


class ResidualConv(nn.Module):
  """Normalisation, convolutions, batch norm, a residual sum and pooling."""

  pool: str = 'max'

  @nn.compact
  def __call__(self, x):
    x = (x - 0.3) / 0.4
    x = nn.Conv(2, (3, 3), strides=2, name='first')(x)
    x = nn.BatchNorm(use_running_average=True, name='norm')(x)
    x = nn.relu(x)
    inner = nn.relu(nn.Conv(2, (3, 3), name='inner')(x))
    x = x + nn.Conv(2, (3, 3), name='back')(inner)
    if self.pool == 'max':
      x = nn.max_pool(x, (2, 2), (1, 1))
    else:
      x = nn.relu(nn.avg_pool(x, (2, 2), (1, 1)))
    x = x.reshape(len(x), -1)
    return nn.Dense(3, name='last')(x)


def residual_conv(pool='max', seed=0):
  """A net function and its parameters over `[B, 5, 5, 1]`."""
  module = ResidualConv(pool)
  shapes = jax.eval_shape(
    module.init, jax.random.key(0), jnp.zeros((1, 5, 5, 1))
  )
  rng = np.random.default_rng(seed)
  params = jax.tree.map(
    lambda like: 0.6 * rng.normal(size=like.shape).astype('float32'), shapes
  )
  variance = params['batch_stats']['norm']['var']
  params['batch_stats']['norm']['var'] = 0.5 + np.abs(variance)
  return module.apply, params


def vertex_minimum(params, row, lower, upper):
  """Exact minimum of `row @ logits` of one hidden layer over a box `[n]`.

  It lies at a vertex of the pieces: a point inside the box where n of the
  planes `z_i = 0` and of the faces meet.
  """
  (W1, b1), (W2, b2) = params
  size = len(lower)
  planes = np.concatenate([W1.T, np.eye(size), np.eye(size)])
  offsets = np.concatenate([-b1, lower, upper])
  chosen = np.array(list(itertools.combinations(range(len(planes)), size)))
  A, b = planes[chosen], offsets[chosen]
  regular = np.abs(np.linalg.det(A)) > 1e-9
  points = np.linalg.solve(A[regular], b[regular][..., None])[..., 0]
  inside = np.all((points >= lower - 1e-9) & (points <= upper + 1e-9), axis=1)
  hidden = np.maximum(points[inside] @ W1 + b1, 0)
  return np.min((hidden @ W2 + b2) @ row)


def pattern_minimum(params, row, lower, upper):
  """Exact minimum of `row @ logits` over a box `[n]`, of a dense ReLU net.

  One linear program for each pattern of signs of all hidden neurons.
  """
  sizes = [len(bias) for _, bias in params[:-1]]
  best = np.inf
  for pattern in itertools.product((0, 1), repeat=sum(sizes)):
    signs = np.split(np.array(pattern), np.cumsum(sizes)[:-1])
    slope, constant = np.eye(len(lower)), np.zeros(len(lower))
    A, b = [], []
    for (W, bias), sign in zip(params[:-1], signs, strict=True):
      slope, constant = slope @ W, constant @ W + bias
      A.append((1 - 2 * sign) * slope)
      b.append((2 * sign - 1) * constant)
      slope, constant = slope * sign, constant * sign
    W, bias = params[-1]
    found = optimize.linprog(
      slope @ W @ row,
      A_ub=np.concatenate(A, axis=1).T,
      b_ub=np.concatenate(b),
      bounds=np.stack([lower, upper], axis=1),
    )
    if found.success:
      best = min(best, found.fun + (constant @ W + bias) @ row)
  return best


def sampled_minimum(net, params, box, C, count=2000, seed=0):
  """Lowest margins `[S]` at random corners and inner points of one box."""
  rng = np.random.default_rng(seed)
  places = rng.random((count, *box.lower.shape[1:]))
  places[::2] = np.round(places[::2])
  points = box.lower + places * (box.upper - box.lower)
  return np.min(net(params, points.astype(box.lower.dtype)) @ C.T, axis=0)
