"""Selective state spaces: the scan is the recurrence, and it is selective."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from jaxlab import nets
from jaxlab.nets.mamba import SelectiveSSM
from tests.nets import drawn


def recurrence(u, delta, a, b, c, d):
  """One sequence, step by step."""
  state = np.zeros_like(a)
  out = []
  for t in range(len(u)):
    step = delta[t][:, None]
    state = np.exp(step * a) * state + step * b[t][None] * u[t][:, None]
    out.append(state @ c[t] + d * u[t])
  return np.array(out)


def random_inputs(batch, length, width, state):
  rng = np.random.default_rng(0)
  return (
    rng.normal(size=(batch, length, width)),
    rng.uniform(0.01, 1.5, size=(batch, length, width)),
    -rng.uniform(0.1, 4, size=(width, state)),
    rng.normal(size=(batch, length, state)),
    rng.normal(size=(batch, length, state)),
    rng.normal(size=width),
  )


@pytest.mark.parametrize('parallel', [True, False])
@pytest.mark.parametrize('length', [1, 7])
def test_scan_is_the_recurrence(length, parallel):
  scan = functools.partial(nets.selective_scan, parallel=parallel)
  u, delta, a, b, c, d = random_inputs(2, length, 3, 4)
  right = [recurrence(u[i], delta[i], a, b[i], c[i], d) for i in range(2)]
  with jax.enable_x64(True):
    inputs = [jnp.asarray(x) for x in (u, delta, a, b, c, d)]
    found = jax.jit(scan)(*inputs)
  np.testing.assert_allclose(found, right, atol=1e-10, rtol=1e-10)
  single = jax.eval_shape(scan, *map(np.float32, inputs))
  assert (single.shape, single.dtype) == (found.shape, np.float32)


@pytest.fixture(scope='module')
def run():
  """Maps tokens to the result of a state space and to what its scan takes."""
  module = SelectiveSSM(state=3, conv=4, rank=2)
  variables = drawn.variables(module, 1, 9, 6)

  @jax.jit
  def apply(x):
    seen = {}

    def note(call, args, kwargs, context):
      if isinstance(context.module, nets.Operand):
        assert context.module.role == 'scan'
        assert context.module.signed == (context.module.name != 'scan_delta')
        seen[context.module.name] = args[0]
      return call(*args, **kwargs)

    with nn.intercept_methods(note):
      return module.apply(variables, x), seen

  return apply


@pytest.fixture
def x():
  return jax.random.normal(jax.random.key(0), (1, 9, 6))


def test_step_and_matrices_depend_on_the_input(run, x):
  first, other = run(x)[1], run(2 * x)[1]
  assert set(first) == {'scan_u', 'scan_delta', 'scan_B', 'scan_C'}
  for name, value in first.items():
    # They differ between tokens, and between inputs.
    assert float(value.std(1).min()) > 0
    assert float(jnp.abs(value - other[name]).max()) > 1e-3
  assert float(first['scan_delta'].min()) > 0


def test_no_token_sees_a_later_one(run, x):
  y, _ = run(x)
  changed, _ = run(x.at[:, 5].add(1))
  np.testing.assert_array_equal(changed[:, :5], y[:, :5])
  assert float(jnp.abs(changed[:, 5:] - y[:, 5:]).max(-1).min()) > 1e-6


def test_block_is_gated_and_runs_backward():
  with jax.enable_x64(True):
    chain = nets.vision_mamba(6, 1, 3, 2, 3, 4, bidirectional=True)
    images = jax.random.normal(jax.random.key(0), (2, 8, 8, 1), jnp.float64)
    params = drawn.variables(chain, *images.shape, dtype=float)['params']
    stem, block, _ = chain.blocks()
    x = stem(params, images)
    found = jax.jit(block)(params, x)
    p = jax.tree.map(np.asarray, params['ssm_0'])
  x = np.asarray(x)
  rms = np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
  y = (x / rms * p['norm']['scale']) @ p['in_proj']['kernel']
  y, gate = np.split(y, 2, -1)
  mixed = by_hand(y, p['ssm'])
  mixed += by_hand(y[:, ::-1], p['ssm_backward'])[:, ::-1]
  right = x + (mixed * silu(gate)) @ p['out_proj']['kernel']
  np.testing.assert_allclose(found, right, atol=1e-6)


def silu(x):
  return x * scipy.special.expit(x)


def by_hand(y, p):
  """The convolution, the maps and the recurrence of a state space."""
  kernel = p['conv']['kernel'][:, 0]
  width, state = p['A_log'].shape
  padded = np.pad(y, ((0, 0), (len(kernel) - 1, 0), (0, 0)))
  u = sum(padded[:, k : k + y.shape[1]] * kernel[k] for k in range(len(kernel)))
  u = silu(u + p['conv']['bias'])
  low, b, c = np.split(u @ p['x_proj']['kernel'], [-2 * state, -state], axis=-1)
  delta = np.logaddexp(0, low @ p['dt_proj']['kernel'] + p['dt_proj']['bias'])
  assert delta.shape[-1] == width
  a, d = -np.exp(p['A_log']), p['D']
  return np.stack(
    [recurrence(u[i], delta[i], a, b[i], c[i], d) for i in range(len(y))]
  )


def test_start():
  module = SelectiveSSM(state=3, conv=4, rank=2)
  x = jnp.zeros((1, 1, 6))
  params = jax.jit(module.init)(jax.random.key(0), x)['params']
  rates = np.exp(params['A_log'])
  np.testing.assert_allclose(rates, np.tile([1, 2, 3], (6, 1)), rtol=1e-6)
  steps = np.logaddexp(0, params['dt_proj']['bias'])
  np.testing.assert_allclose(steps, np.logspace(-3, -1, 6), rtol=1e-4)
