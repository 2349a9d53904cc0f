"""The same numbers on one device and on eight."""

import os
import pathlib
import subprocess
import sys

import numpy as np

from jaxlab import bandits

PROGRAM = """
import sys

import jax
import numpy as np

from jaxlab import bandits

assert jax.device_count() == 8
env = bandits.bernoulli(np.linspace(0.1, 0.9, 20))
algorithms = {
  'b3': bandits.box_thirding(1),
  'sh_subset': bandits.sh_subset(40),
}
found = {}
for name, algorithm in algorithms.items():
  for devices in (1, 8):
    result = bandits.simulate(
      jax.random.key(4),
      algorithm,
      env,
      budget=40,
      replications=13,
      checkpoints=(20, 40) if name == 'b3' else None,
      devices=jax.devices()[:devices],
      chunk=13 if devices == 1 else 2,
    )
    for field, value in result._asdict().items():
      found[f'{name} {field} {devices}'] = value
np.savez(sys.argv[1], **found)
"""


def test_eight_devices_give_the_numbers_of_one(tmp_path):
  """13 replications: no multiple of eight, nor of the chunk."""
  path = tmp_path / 'found.npz'
  flags = '--xla_force_host_platform_device_count=8'
  root = pathlib.Path(__file__).resolve().parents[2]
  subprocess.run(
    [sys.executable, '-c', PROGRAM, str(path)],
    check=True,
    cwd=root,
    env=os.environ | {'XLA_FLAGS': flags, 'JAX_PLATFORMS': 'cpu'},
  )
  found = np.load(path)
  assert len(found) == 2 * 2 * len(bandits.SimResult._fields)
  for name in found:
    if name.endswith(' 8'):
      one, eight = found[f'{name[:-2]} 1'], found[name]
      np.testing.assert_array_equal(one, eight, err_msg=name)
  assert found['b3 arms 8'].shape == (13, 2)
  assert len(np.unique(found['b3 arms 8'])) > 3
