"""Runs spread over devices are the runs of one."""

import os
import pathlib
import subprocess
import sys
import textwrap

_PROGRAM = """
  import jax
  import jax.numpy as jnp
  import numpy as np
  from jaxlab import dendrites, parallel
  from jaxlab.dendrites import channels

  assert jax.device_count() == 8
  tree = dendrites.discretize(
    dendrites.from_cylinders([('soma', 20.0, 20.0, None)]), nseg=3
  )
  net = dendrites.network(dendrites.cell(tree, [('all', channels.HH)]))
  params = dendrites.init_params(net)

  def mean(amplitude):
    state = dendrites.init_state(net, params)
    clamp = dendrites.current_clamp(0, 0.1, 1.0, amplitude)
    recording, _ = dendrites.simulate(net, params, state, clamp, 1.0, 0.025)
    return jnp.mean(recording.v)

  slope = jax.value_and_grad(mean)
  amplitudes = jnp.linspace(0.1, 1.0, 8)
  expected = jax.jit(jax.vmap(slope))(amplitudes)
  for spread in (parallel.sharded_vmap(slope), jax.pmap(slope)):
    jax.tree.map(
      lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5),
      spread(amplitudes),
      expected,
    )
  print('same')
"""


def test_devices_do_not_matter():
  found = subprocess.run(
    [sys.executable, '-c', textwrap.dedent(_PROGRAM)],
    env={
      **os.environ,
      'JAX_PLATFORMS': 'cpu',
      'XLA_FLAGS': '--xla_force_host_platform_device_count=8',
    },
    cwd=pathlib.Path(__file__).parents[2],
    capture_output=True,
    text=True,
    timeout=300,
    check=False,
  )
  assert found.stdout == 'same\n', found.stderr
