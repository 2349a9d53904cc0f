"""Replications over devices, hosts and chunks against plain `jax.vmap`."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import textwrap

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import parameterized

from jaxlab import parallel
from jaxlab.errors import UserError


def replicate(key, environment):
  """Noise through a loop of its own length; environment is a broadcast tree."""
  noise = jax.random.normal(key, (5,)) * environment['scale']
  steps = jax.random.randint(key, (), 1, 6)
  value = jax.lax.while_loop(
    lambda state: state[0] < steps,
    lambda state: (state[0] + 1, jnp.sin(state[1]) * jnp.exp(-state[1])),
    (0, noise),
  )
  return {'steps': value[0], 'value': value[1]}


ENVIRONMENT = {'scale': np.float32(0.3), 'label': None}


def run_python(program, *, processes=1, devices=1, **env):
  """Runs `program` in fresh interpreters and returns what each printed."""
  base = {
    name: value for name, value in os.environ.items() if 'XLA' not in name
  }
  base['JAX_PLATFORMS'] = 'cpu'
  base['XLA_FLAGS'] = f'--xla_force_host_platform_device_count={devices}'
  running = []
  for rank in range(processes):
    per_rank = {name: value.format(rank=rank) for name, value in env.items()}
    running.append(
      subprocess.Popen(
        [sys.executable, '-c', textwrap.dedent(program)],
        env=base | per_rank,
        cwd=pathlib.Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
      )
    )
  printed = []
  for process in running:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    printed.append(out)
  return printed


class ShardedVmapTest(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True)
  @parameterized.parameters((1, None), (7, None), (7, 3))
  def test_equals_vmap(self, length, chunk):
    keys = parallel.replication_keys(jax.random.key(0), length)
    run = self.variant(
      parallel.sharded_vmap(replicate, in_axes=(0, None), chunk=chunk)
    )
    wanted = jax.jit(jax.vmap(replicate, (0, None)))(keys, ENVIRONMENT)
    chex.assert_trees_all_equal(run(keys, ENVIRONMENT), wanted)

  @chex.variants(with_jit=True, without_jit=True)
  def test_axes_may_differ_by_leaf(self):
    points = {'a': np.arange(6.0).reshape(2, 3), 'b': np.float32(2)}
    offset = np.arange(12.0).reshape(3, 2, 2)
    in_axes = ({'a': -1, 'b': None}, 0)

    def fn(points, offset):
      return offset + points['a'] * points['b']

    run = self.variant(parallel.sharded_vmap(fn, in_axes=in_axes, chunk=2))
    chex.assert_trees_all_equal(
      run(points, offset), jax.vmap(fn, in_axes)(points, offset)
    )

  def test_gradient_of_broadcast_and_mapped_arguments(self):
    x = jnp.linspace(0.1, 2.0, 5)

    def total(x, rate):
      run = parallel.sharded_vmap(
        lambda x, rate: jnp.sin(rate * x), in_axes=(0, None), chunk=2
      )
      return run(x, rate).sum()

    by_x, by_rate = jax.grad(total, (0, 1))(x, 1.5)
    np.testing.assert_allclose(by_x, 1.5 * np.cos(1.5 * x), rtol=1e-5)
    np.testing.assert_allclose(by_rate, np.sum(x * np.cos(1.5 * x)), rtol=1e-5)

  def test_second_call_does_not_compile(self):
    traces = []

    def fn(x):
      traces.append(x.shape)
      return 2 * x

    run = parallel.sharded_vmap(fn, chunk=2)
    run(np.arange(5.0))
    traced = len(traces)
    np.testing.assert_array_equal(run(np.arange(1.0, 6.0)), [2, 4, 6, 8, 10])
    assert len(traces) == traced

  def test_inside_vmap(self):
    outer = jax.vmap(
      lambda scale: parallel.sharded_vmap(
        lambda x, scale: x * scale, in_axes=(0, None)
      )(jnp.arange(3.0), scale)
    )
    np.testing.assert_array_equal(
      outer(jnp.arange(2.0)), np.outer([0, 1], [0, 1, 2])
    )

  def test_empty_axis_gives_empty_result(self):
    out = parallel.sharded_vmap(lambda x: x.sum())(np.zeros((0, 4)))
    assert out.shape == (0,)

  def test_bad_arguments(self):
    with pytest.raises(ValueError, match='chunk must be positive'):
      parallel.sharded_vmap(jnp.sin, chunk=0)
    with pytest.raises(ValueError, match=r'common length, got \[2, 3\]'):
      parallel.sharded_vmap(jnp.add)(np.zeros(2), np.zeros(3))
    with pytest.raises(ValueError, match='common length'):
      parallel.sharded_vmap(jnp.sin, in_axes=None)(1.0)


class ChunkedVmapTest(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True)
  @parameterized.parameters(1, 4, 20)
  def test_equals_vmap(self, chunk):
    x = np.arange(22.0).reshape(11, 2)
    run = self.variant(parallel.chunked_vmap(jnp.sum, chunk))
    np.testing.assert_array_equal(run(x), x.sum(1))

  def test_works_on_at_most_chunk_elements(self):
    text = str(
      jax.make_jaxpr(parallel.chunked_vmap(jnp.sin, 3))(np.zeros((8, 2)))
    )
    assert ':f32[3,2] = sin' in text
    assert text.count('= sin') == 1


class ReplicationKeysTest(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True)
  def test_key_depends_on_index_alone(self):
    key = jax.random.key(7)
    keys = self.variant(lambda key: parallel.replication_keys(key, 9))(key)
    alone = [jax.random.fold_in(key, r) for r in range(9)]
    np.testing.assert_array_equal(
      jax.random.key_data(keys), [jax.random.key_data(k) for k in alone]
    )


def test_results_do_not_depend_on_devices_or_chunk():
  program = """
    import jax
    import numpy as np
    from jaxlab import parallel
    from tests.test_parallel import ENVIRONMENT, replicate

    assert jax.device_count() == 8
    for length in (1, 7, 8, 13):
      keys = parallel.replication_keys(jax.random.key(0), length)
      wanted = jax.jit(jax.vmap(replicate, (0, None)))(keys, ENVIRONMENT)
      for chunk in (None, 1, 3):
        run = parallel.sharded_vmap(
          replicate, in_axes=(0, None), chunk=chunk
        )
        got = parallel.gather(run(keys, ENVIRONMENT))
        jax.tree.map(np.testing.assert_array_equal, got, dict(wanted))
    grid = parallel.mesh(('data', 'model'), (-1, 2))
    run = parallel.sharded_vmap(replicate, in_axes=(0, None), mesh=grid)
    jax.tree.map(
      np.testing.assert_array_equal,
      parallel.gather(run(keys, ENVIRONMENT)),
      dict(wanted),
    )
    out = parallel.sharded_vmap(lambda x: 2 * x)(np.arange(16.0))
    assert len(out.sharding.device_set) == 8
    assert out.addressable_shards[0].data.shape == (2,)
    print('same')
  """
  assert run_python(program, devices=8) == ['same\n']


def test_two_processes_give_the_numbers_of_one():
  program = """
    import json
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jaxlab import parallel
    from tests.test_parallel import ENVIRONMENT, replicate

    parallel.initialize()
    parallel.initialize()
    assert jax.process_count() == 2
    assert jax.device_count() == 4
    keys = parallel.replication_keys(jax.random.key(0), 7)
    run = parallel.sharded_vmap(replicate, in_axes=(0, None), chunk=1)
    got = run(keys, ENVIRONMENT)
    even = parallel.sharded_vmap(jnp.sin)(jnp.arange(4.0))
    assert not even.is_fully_addressable
    got = parallel.gather(got | {'even': even, 'local': np.arange(3)})
    assert isinstance(got['value'], np.ndarray)
    print(json.dumps({name: x.tolist() for name, x in got.items()}))
  """
  with socket.socket() as probe:
    probe.bind(('localhost', 0))
    port = probe.getsockname()[1]
  printed = run_python(
    program,
    processes=2,
    devices=2,
    JAX_COORDINATOR_ADDRESS=f'localhost:{port}',
    JAX_NUM_PROCESSES='2',
    JAX_PROCESS_ID='{rank}',
  )
  keys = parallel.replication_keys(jax.random.key(0), 7)
  wanted = jax.jit(jax.vmap(replicate, (0, None)))(keys, ENVIRONMENT)
  wanted |= {'even': jnp.sin(jnp.arange(4.0)), 'local': np.arange(3)}
  for text in printed:
    got = json.loads(text.splitlines()[-1])  # after the banner of Gloo
    chex.assert_trees_all_equal(
      {name: np.asarray(x, wanted[name].dtype) for name, x in got.items()},
      jax.tree.map(np.asarray, dict(wanted)),
    )


class TestMesh:
  def test_default_and_rest(self):
    devices = jax.devices()[:1]
    assert dict(parallel.mesh(devices=devices).shape) == {'data': 1}
    both = parallel.mesh(('data', 'model'), (1, -1), devices)
    assert dict(both.shape) == {'data': 1, 'model': 1}

  @pytest.mark.parametrize(
    ('axis_names', 'shape', 'message'),
    [
      (('data',), (1, 1), 'one size for each'),
      (('data', 'model'), (-1, -1), 'at most one -1'),
      (('data',), (0,), 'positive sizes'),
      (('data',), (3,), r'shape \(3,\) does not fit 1 devices'),
    ],
  )
  def test_bad_shape(self, axis_names, shape, message):
    with pytest.raises(UserError, match=message):
      parallel.mesh(axis_names, shape, jax.devices()[:1])


@pytest.fixture
def started(monkeypatch):
  """No cluster around; records how `jax.distributed` would be started."""
  for name in list(os.environ):
    if name.startswith(('JAX_', 'SLURM_', 'OMPI_', 'TPU_', 'KUBERNETES_')):
      monkeypatch.delenv(name)
  calls = []
  monkeypatch.setattr(jax.distributed, 'is_initialized', lambda: False)
  monkeypatch.setattr(
    jax.distributed, 'initialize', lambda **known: calls.append(known)
  )
  return calls


@pytest.mark.parametrize(
  ('env', 'wanted'),
  [
    ({}, []),
    ({'SLURM_JOB_ID': '7', 'SLURM_NTASKS': '4', 'SLURM_PROCID': '0'}, []),
    ({'SLURM_STEP_NUM_TASKS': '1', 'SLURM_PROCID': '0'}, []),
    ({'KUBERNETES_SERVICE_HOST': '10.0.0.1'}, []),
    ({'TPU_WORKER_HOSTNAMES': 'localhost', 'TPU_SKIP_MDS_QUERY': '1'}, []),
    (
      {'SLURM_STEP_NUM_TASKS': '4', 'SLURM_PROCID': '3'},
      [{'num_processes': 4, 'process_id': 3}],
    ),
    (
      {'OMPI_COMM_WORLD_SIZE': '2', 'OMPI_COMM_WORLD_RANK': '1'},
      [{'num_processes': 2, 'process_id': 1}],
    ),
    (
      {
        'JAX_NUM_PROCESSES': '1',
        'JAX_PROCESS_ID': '0',
        'SLURM_STEP_NUM_TASKS': '4',
      },
      [],
    ),
    ({'TPU_WORKER_HOSTNAMES': 'host-0,host-1'}, [{}]),
    ({'TPU_ML_PLATFORM': 'JAX'}, [{}]),
    (
      {'KUBERNETES_SERVICE_HOST': '10.0.0.1', 'JOB_COMPLETION_INDEX': '0'},
      [{}],
    ),
    ({'JAX_COORDINATOR_ADDRESS': 'host:1234'}, [{}]),
  ],
)
def test_which_environments_start_several_processes(
  started, monkeypatch, env, wanted
):
  for name, value in env.items():
    monkeypatch.setenv(name, value)
  parallel.initialize()
  assert started == wanted


def test_unfindable_processes_are_a_user_error(started, monkeypatch):
  def fail(**known):
    raise ValueError('coordinator_address should be defined.')

  monkeypatch.setenv('OMPI_COMM_WORLD_SIZE', '2')
  with pytest.raises(UserError, match=r"OMPI_COMM_WORLD_RANK.*got '2' and ''"):
    parallel.initialize()
  monkeypatch.setenv('OMPI_COMM_WORLD_RANK', '1')
  monkeypatch.setattr(jax.distributed, 'initialize', fail)
  with pytest.raises(UserError, match='set JAX_COORDINATOR_ADDRESS=host:port'):
    parallel.initialize()
