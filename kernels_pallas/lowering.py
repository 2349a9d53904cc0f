"""Compilers of the kernels, for devices that this machine lacks.

The only file that knows the unstable modules of JAX. It finds the kernels for
GPUs in a lowered program and compiles them to PTX: as far as a test can go
without a GPU.
"""

import importlib
import pathlib
import tempfile
from typing import Any

import jax


def _module(public: str, private: str) -> Any:
  """A module of JAX that moves from version to version."""
  try:
    return importlib.import_module(public)
  except ImportError:
    return importlib.import_module(private)


plt = _module('jax.experimental.pallas.triton', 'jax._src.pallas.triton')
pltpu = _module('jax.experimental.pallas.tpu', 'jax._src.pallas.mosaic')
ir = _module('jaxlib.mlir.ir', 'jax._src.lib.mlir.ir')
triton_dialect = _module('jaxlib.triton.dialect', 'jax._src.lib.triton.dialect')

COMPUTE_CAPABILITY = 90
"""Of the GPU that is compiled for where there is none (H100, H200: 9.0)."""

_TPU = ('TPU v5e', 1, 'tpu')
"""Name, cores and platform of the TPU that is lowered for."""


def trace_on_tpu() -> Any:
  """A context in which kernels that ask for the kind of TPU find one."""
  device = jax.sharding.AbstractDevice(*_TPU)
  mesh = jax.sharding.AbstractMesh((), (), abstract_device=device)
  return jax.sharding.use_abstract_mesh(mesh)


def compile_lowered(lowered: Any) -> dict[str, str]:
  """PTX, by name, of the Pallas kernels for GPUs in a lowered program.

  Args:
    lowered: of `jax.jit(f).trace(...).lower(lowering_platforms=('cuda',))`.

  Returns:
    The PTX of each kernel. Importing Triton is the caller's to have checked.
  """
  with tempfile.TemporaryDirectory() as folder:
    found = {}
    for number, (name, text, warps) in enumerate(_triton_calls(lowered)):
      path = pathlib.Path(folder, f'{number}.ttir')
      path.write_text(text)
      found[name] = compile_ptx(str(path), warps)
    return found


def _triton_calls(lowered: Any) -> list[tuple[str, str, int]]:
  """Name, Triton IR and warps of each kernel that Pallas has lowered."""
  configs = []

  def visit(op):
    is_call = op.name == 'stablehlo.custom_call'
    if is_call and 'triton' in str(op.attributes['call_target_name']):
      configs.append(ir.DictAttr(op.attributes['mhlo.backend_config']))
    return ir.WalkResult.ADVANCE

  lowered.compiler_ir('stablehlo').operation.walk(visit)
  return [
    (
      ir.StringAttr(config['name']).value,
      _printed(ir.StringAttr(config['ir']).value_bytes),
      ir.IntegerAttr(config['num_warps']).value,
    )
    for config in configs
  ]


def _printed(bytecode: bytes) -> str:
  """Triton IR as text, which other versions of Triton read too."""
  with ir.Context() as context:
    triton_dialect.register_dialect(context)
    context.allow_unregistered_dialects = True
    text = str(ir.Module.parse(bytecode).operation.get_asm())
  # The generic form of an operation that this context does not know.
  lines = text.splitlines()
  return '\n'.join(
    'gpu.barrier' if 'gpu.barrier' in line else line for line in lines
  )


def compile_ptx(source: Any, num_warps: int) -> str:
  """PTX of a file of Triton IR or of a Triton function."""
  triton = importlib.import_module('triton')
  compiler = importlib.import_module('triton.backends.compiler')
  target = compiler.GPUTarget('cuda', COMPUTE_CAPABILITY, 32)
  options = {
    'num_warps': num_warps,
    'num_stages': 1,
    'enable_fp_fusion': True,
  }
  with tempfile.TemporaryDirectory() as cache, triton.knobs.cache.scope():
    triton.knobs.cache.dir = cache
    return triton.compile(source, target=target, options=options).asm['ptx']
