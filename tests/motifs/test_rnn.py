"""Recurrent networks on a fixed graph, and the graphs beside them."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxlab.errors import UserError
from jaxlab.motifs import rnn, tasks, wiring

N, EDGES = 12, 40
MODEL = rnn.MotifRNN(num_units=N, num_outputs=3, alpha=0.3)
KEY = jax.random.key(0)


def graph(seed=0):
  return wiring.random_adjacency(jax.random.key(seed), N, EDGES)


def network(seed=0, inputs=2):
  x = jax.random.normal(jax.random.key(1), (6, 5, inputs))
  init = jax.jit(lambda key, x, A: MODEL.init(key, x, adjacency=A))
  return x, init(jax.random.key(seed), x, graph(seed))


def test_forward_pass_against_numpy():
  x, variables = network()
  found = jax.jit(MODEL.apply)(variables, x)
  p = jax.tree.map(np.asarray, variables['params'])
  h = np.zeros((5, N))
  for u, state, output in zip(x, *reversed(found), strict=True):
    fed = u @ p['input']['kernel'] + p['input']['bias']
    h = 0.7 * h + 0.3 * np.tanh(h @ p['recurrent'].T + fed)
    np.testing.assert_allclose(state, h, atol=1e-5)
    readout = h @ p['readout']['kernel'] + p['readout']['bias']
    np.testing.assert_allclose(output, readout, atol=1e-5)


def test_the_mask_is_the_graph_transposed():
  _, variables = network()
  np.testing.assert_array_equal(variables['graph']['mask'], graph().T)
  only = jnp.zeros((N, N)).at[3, 7].set(1)  # an edge 3 -> 7
  x = jnp.zeros((2, 1, 2))
  weights = 2 * jnp.ones((N, N))
  variables = jax.jit(MODEL.init)(KEY, x, adjacency=only, weights=weights)
  assert variables['params']['recurrent'][7, 3] == 2
  assert jnp.sum(jnp.abs(variables['params']['recurrent'])) == 2


def test_nothing_grows_outside_the_graph_in_training():
  task = tasks.make('go_no_go', dt_ms=100)
  trials = jax.jit(task.sample, static_argnums=1)(KEY, 16)
  optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-2))

  def train(key, adjacency):
    variables = MODEL.init(key, trials.inputs, adjacency=adjacency)
    graph, params = variables['graph'], variables['params']

    def loss(params):
      outputs, _ = MODEL.apply(
        {'params': params, 'graph': graph}, trials.inputs
      )
      return tasks.task_loss(outputs, trials)

    def update(carry, _):
      params, state = carry
      value, slope = jax.value_and_grad(loss)(params)
      change, state = optimizer.update(slope, state)
      return (optax.apply_updates(params, change), state), (value, slope)

    start = (params, optimizer.init(params))
    (params, _), (losses, slopes) = jax.lax.scan(update, start, length=20)
    return params, losses, slopes

  # Three graphs train at once, and none hears of the others.
  graphs = jnp.stack([graph(seed) for seed in range(3)])
  keys = jax.random.split(KEY, 3)
  train_all = jax.jit(jax.vmap(train))
  params, losses, slopes = train_all(keys, graphs)
  outside = 1 - np.swapaxes(graphs, 1, 2)
  assert np.all(params['recurrent'] * outside == 0)
  assert np.all(slopes['recurrent'] * outside[:, None] == 0)
  inside = np.asarray(slopes['recurrent']).any(axis=1)
  assert np.mean(inside[outside == 0]) > 0.9
  assert np.all(losses[:, -1] < 0.7 * losses[:, 0])
  others, _, _ = train_all(keys[jnp.array([2, 1, 2])], graphs[::-1])
  np.testing.assert_allclose(
    params['recurrent'][1], others['recurrent'][1], atol=1e-6
  )


def test_recurrent_noise_has_the_stated_size():
  model = rnn.MotifRNN(num_units=400, num_outputs=1, alpha=1.0, gain=0.0)
  x = jnp.zeros((3, 20, 1))
  variables = jax.jit(model.init)(KEY, x)
  _, states = jax.jit(model.apply)(
    variables, x, recurrent_noise=0.2, rngs={'noise': KEY}
  )
  np.testing.assert_allclose(np.std(states), 0.2, rtol=0.02)
  assert abs(np.corrcoef(states[0].ravel(), states[1].ravel())[0, 1]) < 0.05


def test_initial_weights_have_the_stated_gain():
  model = rnn.MotifRNN(num_units=200, num_outputs=1, gain=1.5)

  @jax.jit
  def init(key):
    A = wiring.random_adjacency(key, 200, 2000)
    return model.init(key, jnp.zeros((1, 1, 1)), adjacency=A)

  W = np.asarray(init(KEY)['params']['recurrent'])
  np.testing.assert_allclose(W[W != 0].std(), 1.5 / 10**0.5, rtol=0.05)
  # The eigenvalues of such a matrix lie in a disc of that gain.
  assert abs(np.abs(np.linalg.eigvals(W)).max() - 1.5) < 0.25


@pytest.mark.parametrize('cell', ['lstm', 'gru'])
def test_gated_networks_match_a_budget_of_parameters(cell):
  x, variables = network()
  budget = int(rnn.num_trainable(variables))
  assert budget == EDGES + 3 * N + 3 * (N + 1)
  units = rnn.matched_units(cell, budget, 2, 3)
  model = rnn.GatedRNN(num_units=units, num_outputs=3, cell=cell)
  gated = jax.jit(model.init)(KEY, x)
  count = rnn.parameter_count(cell, units, 2, 3)
  assert rnn.num_trainable(gated) == count
  more = rnn.parameter_count(cell, units + 1, 2, 3)
  fewer = rnn.parameter_count(cell, units - 1, 2, 3)
  assert abs(count - budget) <= min(abs(more - budget), abs(fewer - budget))
  outputs, states = jax.jit(model.apply)(gated, x)
  peer = nn.RNN(rnn.GATED_CELLS[cell](units), time_major=True)
  cell_params = {'params': {'cell': gated['params']['cell']}}
  expected = jax.jit(peer.apply)(cell_params, x)
  np.testing.assert_allclose(states, expected, atol=1e-6)
  assert outputs.shape == (6, 5, 3)


def test_random_graphs_are_uniform():
  keys = jax.random.split(KEY, 2000)
  draws = jax.vmap(lambda key: wiring.random_adjacency(key, 5, 6))(keys)
  np.testing.assert_array_equal(draws.sum(axis=(1, 2)), 6)
  share = np.asarray(draws.mean(axis=0))
  np.testing.assert_array_equal(np.diag(share), 0)
  off = share[~np.eye(5, dtype=bool)]
  np.testing.assert_allclose(off, 6 / 20, atol=0.05)


def test_small_worlds():
  def world(num_nodes, num_edges, rewired):
    draw = jax.jit(
      lambda key: wiring.small_world_adjacency(
        key, num_nodes, num_edges, rewired=rewired
      )
    )
    return np.asarray(draw(KEY))

  ring = world(10, 40, 0.0)
  ahead = {
    tuple(sorted((np.flatnonzero(row) - i) % 10)) for i, row in enumerate(ring)
  }
  assert ahead == {(1, 2, 8, 9)}
  some = world(60, 253, 0.2)
  assert some.sum() == 253
  assert not np.diag(some).any()
  assert set(some.sum(axis=1)) == {4, 5}
  moved = np.sum(world(60, 253, 0.0) * (1 - some)) / 253
  assert 0.1 < moved < 0.3


def test_bad_requests():
  with pytest.raises(UserError, match='has 12 units'):
    MODEL.init(KEY, jnp.zeros((1, 1, 2)), adjacency=jnp.zeros((5, 5)))
  with pytest.raises(UserError, match='unknown cell'):
    rnn.parameter_count('rnn', 3, 2, 1)
  with pytest.raises(UserError, match='holds 0 to 20'):
    wiring.random_adjacency(KEY, 5, 21)
