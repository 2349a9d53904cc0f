"""Kernels are lowered for devices that this machine lacks, and compiled."""

import functools
import re

import jax.numpy as jnp
import pytest

from kernels_pallas import dispatch
from kernels_pallas.dispatch import BackendUnavailable, why_missing
from kernels_pallas.tree_solver import lowering
from kernels_pallas.tree_solver.schedule import make_schedule

KERNELS = {
  'solve',
  'factor_solve',
  'resolve',
  'resolve_transposed',
  'backward',
}
FUSED = {'assemble_and_solve', 'assemble_backward'}


def needs(*packages):
  """Skips a test where a package does not import."""
  why = why_missing(*packages)
  return pytest.mark.skipif(bool(why), reason=why)


@pytest.mark.parametrize(
  ('platform', 'call', 'count'),
  [
    pytest.param('cuda:triton', '__gpu$xla.gpu.triton', 7, marks=needs('absl')),
    pytest.param(
      'cuda:jax_triton',
      'triton_kernel_call',
      5,
      marks=needs('triton', 'jax_triton'),
    ),
    ('tpu', 'tpu_custom_call', 7),
  ],
)
def test_every_kernel_is_lowered(platform, call, count):
  text = lowering.lower_for(platform, n=63, B=64)
  assert text.count(f'custom_call @{call}(') == count


@pytest.mark.parametrize('B', [64, 1])
@pytest.mark.parametrize(
  'platform',
  [
    pytest.param('cuda:triton', marks=needs('absl', 'triton')),
    pytest.param('cuda:jax_triton', marks=needs('triton')),
  ],
)
def test_gpu_kernels_compile_with_barriers_and_no_atomics(platform, B):
  compiled = lowering.compile_ptx(platform, n=63, B=B)
  fused = FUSED if platform == 'cuda:triton' else set()
  assert set(compiled) == KERNELS | fused
  for name, text in compiled.items():
    assert f'.entry {name}' in text or platform == 'cuda:jax_triton'
    assert '.target sm_90' in text
    assert text.count('bar.sync') >= 2
    assert not re.search(r'\b(atom|red)\.', text)
    assert '.local' not in text  # no registers spilled


def test_unknown_platform():
  with pytest.raises(ValueError, match=r"platform = 'rocm'.*tpu"):
    lowering.lower_for('rocm', 3, 4)


def test_a_missing_package_is_named(monkeypatch):
  why = functools.partial(why_missing, 'no_such_package')
  monkeypatch.setattr(lowering, 'why_missing', lambda *_: why())
  with pytest.raises(BackendUnavailable, match='no_such_package') as error:
    lowering.compile_ptx('cuda:triton', 3, 4)
  assert error.value.backend == 'cuda:triton'
  assert 'no_such_package' in error.value.why


def test_backends_say_why_not(monkeypatch):
  found = lowering.backends()
  assert not any(found[name] for name in ('xla', 'interpret', 'reference'))
  monkeypatch.setattr(dispatch.jax, 'default_backend', lambda: 'cpu')
  assert 'cpu' in lowering.backends()['pallas']
  monkeypatch.setattr(dispatch.jax, 'default_backend', lambda: 'cuda')
  assert lowering.backends()['pallas'] == ''
  assert dispatch.default_platform() == 'gpu'
  monkeypatch.setattr(dispatch.jax, 'default_backend', lambda: 'tpu')
  assert lowering.backends()['pallas'] == ''
  assert 'tpu' in lowering.backends()['triton']


@needs('triton')
def test_triton_kernels_need_a_gpu_to_run():
  kernels = pytest.importorskip('kernels_pallas.tree_solver.triton')
  schedule = make_schedule([-1, 0])
  ones = jnp.ones((2, 1))
  with pytest.raises(BackendUnavailable, match="'interpret'"):
    kernels.solve(ones, ones, ones, ones, schedule, interpret=True)
