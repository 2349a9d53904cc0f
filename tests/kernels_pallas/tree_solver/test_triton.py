"""The Triton kernels against NumPy, in Triton's own interpreter."""

import importlib.util

import numpy as np
import pytest

from kernels_pallas.tree_solver.schedule import make_schedule
from tests.kernels_pallas.triton_buffer import Buffer

triton = pytest.importorskip('triton')


def run_on_host(plan, interpret):
  """Interprets a kernel; memory that it should write holds nan before."""
  assert not interpret
  inputs = [Buffer(np.ascontiguousarray(array)) for array in plan.arrays]
  outs = [np.full(out.shape, np.nan, out.dtype) for out in plan.outs]
  launcher = plan.kernel[(plan.blocks,)]
  launcher(*inputs, *map(Buffer, outs), **plan.constants)
  return outs


@pytest.fixture
def kernels(monkeypatch):
  """The kernels with functions that Triton interprets."""
  name = 'kernels_pallas.tree_solver.triton'
  module = importlib.import_module(name)
  spec = importlib.util.find_spec(f'{name}_kernels')
  functions = importlib.util.module_from_spec(spec)
  with triton.knobs.runtime.scope():
    triton.knobs.runtime.interpret = True
    spec.loader.exec_module(functions)
  monkeypatch.setattr(module, 'triton_kernels', functions)
  monkeypatch.setattr(module, '_run', run_on_host)
  return module


@pytest.mark.parametrize(
  ('kind', 'B', 'shared'), [('dhs', 40, True), ('hines', 3, False)]
)
def test_every_kernel_equals_numpy(
  kernels, kind, B, shared, dtype, make_system, assert_near
):
  system = make_system(20, B, dtype, shared)
  schedule = make_schedule(system.parent, kind, 8)
  _, lower, upper = system.matrix
  x, pivots = kernels.factor_solve(*system.matrix, system.rhs, schedule)
  assert_near(x, system.x)
  assert_near(kernels.solve(*system.matrix, system.rhs, schedule), system.x)
  bands = pivots, lower, upper
  assert_near(kernels.resolve(*bands, system.rhs, schedule), system.x)
  adjoint = kernels.resolve(*bands, system.cotangent, schedule, transpose=True)
  assert_near(adjoint, system.gradients[3])
  gradients = kernels.backward(*bands, x, system.cotangent, schedule)
  for found, expected in zip(gradients, system.gradients, strict=True):
    assert_near(found, expected)
