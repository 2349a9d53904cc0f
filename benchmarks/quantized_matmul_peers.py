"""Other packages' products with quantized weights, beside the ones here."""

import functools
import importlib
import importlib.metadata
import math
import pathlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import cpu_time, peers, timing
from benchmarks.quantized_matmul_programs import (
  UNIT,
  Shape,
  activations,
  compare,
  near,
  program,
  weights,
)
from benchmarks.timing import Goal, Row
from jaxlab.dendrites import experiment_timing as timed
from jaxlab.dendrites.experiment_timing import Program
from kernels_pallas.quantized_matmul import (
  ActQuant,
  PackedTensor,
  pack,
  quantize,
  quantized_matmul,
  unpack,
)

_CODES = ActQuant(np.float32(1), 128, 8)
_DIMENSIONS = (((1,), (0,)), ((), ()))
_TORCH_GROUP = 128
_ONNX_BLOCK = 32
_TURN_NS = 2e7


def rows(quick: bool) -> Iterator[Row]:
  """Yields a row for each product of a peer, and each shape."""
  repeats = 5 if quick else 20
  shapes = Shape(1, 1024, 1024), Shape(64, 1024, 1024)
  yield from _beside_torch(shapes, repeats)
  for shape in shapes:
    for row in (_onnx_int4, _onnx_integers, _qwix_int8, _aqt_int8):
      yield row(shape, repeats)


def _float(x: jax.Array, w: PackedTensor) -> Program:
  return program(quantized_matmul, x, w)


def _integer(x: jax.Array, w: PackedTensor) -> Program:
  call = functools.partial(quantized_matmul, act_quant=_CODES)
  return program(call, x, w)


def _codes(shape: Shape) -> tuple[np.ndarray, PackedTensor]:
  """int8 activations, and weights with scales of 1."""
  rng = np.random.default_rng(shape.m)
  x = rng.integers(-128, 128, (shape.m, shape.k)).astype(np.int8)
  codes = rng.integers(0, 256, (shape.k, shape.n))
  return x, pack(codes, bits=8, scale=np.ones((1, shape.n), np.float32))


def _equal(found: Any, expected: Any) -> str:
  if not np.array_equal(np.asarray(found), np.asarray(expected)):
    raise timing.DisagreementError('integers are not equal')
  return 'integers are equal'


class _Job(NamedTuple):
  """A product here and in torch.

  Attributes:
    name: what is multiplied.
    kind: name of the product in `quantized_matmul_torch`.
    ours: ours.
    arrays: arguments of theirs.
    agree: `(our result, theirs) -> note`; raises `DisagreementError`.
    goal: what is aimed at.
  """

  name: str
  kind: str
  ours: Program
  arrays: dict[str, Any]
  agree: Callable[[Any, Any], str]
  goal: Goal | None = None


def _beside_torch(shapes: tuple[Shape, ...], repeats: int) -> Iterator[Row]:
  with peers.Peer('torch', 'quantized_matmul_torch.py') as peer:
    for shape in shapes:
      for job in _torch_jobs(shape):
        work = f'{job.name}, {shape}, beside torch'
        if peer.version is None:
          yield _absent(work, 'torch', peers.CURE, job.goal)
        else:
          yield _in_turns(work, job, peer, repeats)


def _torch_jobs(shape: Shape) -> list[_Job]:
  x = activations(shape)
  narrow = x.astype(jnp.bfloat16)
  w4, w8 = weights(shape, 4, _TORCH_GROUP), weights(shape, 8)
  codes, integers = _codes(shape)
  return [
    _Job(
      f'4-bit W, groups of {_TORCH_GROUP}, bfloat16 x',
      'int4',
      _float(narrow, w4),
      {'x': x, 'codes': _stored(w4, 0), 'scale': w4.scale},
      near(2e-2),
      cpu_time.at_most(3),
    ),
    _Job(
      '8-bit W, bfloat16 x',
      'int8',
      _float(narrow, w8),
      {'x': x, 'codes': _stored(w8, 128), 'scale': w8.scale},
      near(2e-2),
    ),
    _Job(
      '8-bit W, 8-bit x',
      'integers',
      _integer(jnp.asarray(codes), integers),
      {'x': codes, 'codes': _stored(integers, 128)},
      _equal,
    ),
  ]


def _stored(w: PackedTensor, centre: int) -> np.ndarray:
  return np.asarray(unpack(w), np.int32) - centre


def _in_turns(work: str, job: _Job, peer: peers.Peer, repeats: int) -> Row:
  """`compare` with a product in another process."""
  with tempfile.TemporaryDirectory() as folder:
    inputs, output = (pathlib.Path(folder, n) for n in ('x.npz', 'y.npy'))
    arrays: dict[str, Any] = {k: np.asarray(a) for k, a in job.arrays.items()}
    np.savez(inputs, **arrays)
    peer.run(kind=job.kind, inputs=str(inputs), output=str(output))
    expected = np.load(output)
  try:
    note = job.agree(job.ours.call(), expected)
  except timing.DisagreementError as error:
    note = f'{timing.DIFFER}: {error}'
  calls = math.ceil(_TURN_NS / peer.run(calls=3))
  turns = [
    (timed.cpu_ns([job.ours], 1)[0, 0], peer.run(calls=calls))
    for _ in range(repeats)
  ]
  ours, theirs = np.min(turns, axis=0) / 1e3
  return cpu_time.against(
    *(work, ours, theirs, f'{peer.version}, {job.kind}'),
    unit=UNIT,
    goal=job.goal,
    note=note,
  )


def _onnx_int4(shape: Shape, repeats: int) -> Row:
  """4-bit weights in blocks; a byte holds neighbours along K."""
  work = f'4-bit W, groups of {_ONNX_BLOCK}, float x, {shape}, beside '
  w = weights(shape, 4, _ONNX_BLOCK)
  codes = np.asarray(unpack(w)).T.reshape(shape.n, -1, _ONNX_BLOCK)
  constants = {
    'codes': codes[..., ::2] | codes[..., 1::2] << 4,
    'scale': np.asarray(w.scale).T.copy(),
  }
  attributes: dict[str, Any] = {'K': shape.k, 'N': shape.n, 'bits': 4}
  attributes['block_size'] = _ONNX_BLOCK
  x = activations(shape)
  return _beside_onnx(
    work + 'MatMulNBits',
    _float(x, w),
    _onnx('MatMulNBits', np.asarray(x), constants, 'FLOAT', attributes),
    near(1e-5),
    repeats,
  )


def _onnx_integers(shape: Shape, repeats: int) -> Row:
  """8-bit codes on both sides, without their scales."""
  x, w = _codes(shape)
  unsigned = (x.astype(np.int32) + 128).astype(np.uint8)
  constants = {
    'codes': _stored(w, 128).astype(np.int8),
    'zero': np.array(128, np.uint8),
  }
  return _beside_onnx(
    f'8-bit W, 8-bit x, {shape}, beside MatMulInteger',
    _integer(jnp.asarray(x), w),
    _onnx('MatMulInteger', unsigned, constants, 'INT32', {}),
    _equal,
    repeats,
  )


def _beside_onnx(work, ours, peer, agree, repeats) -> Row:
  if peer is None:
    return _absent(work, 'onnxruntime', 'pip install onnx onnxruntime')
  return compare(
    *(work, ours, peer, _version('onnxruntime'), agree),
    repeats=repeats,
  )


def _onnx(
  operator: str,
  x: np.ndarray,
  constants: dict[str, np.ndarray],
  out: str,
  attributes: dict[str, Any],
) -> Program | None:
  """A model of one operator, on one thread; None without its packages."""
  try:
    onnx = importlib.import_module('onnx')
    runtime = importlib.import_module('onnxruntime')
  except ImportError:
    return None
  make, types = onnx.helper, onnx.TensorProto
  if attributes:
    attributes = {'domain': 'com.microsoft', **attributes}
  node = make.make_node(operator, ['x', *constants], ['y'], **attributes)
  kind = make.np_dtype_to_tensor_dtype(x.dtype)
  graph = make.make_graph(
    [node],
    operator,
    [make.make_tensor_value_info('x', kind, x.shape)],
    [make.make_tensor_value_info('y', getattr(types, out), None)],
    [onnx.numpy_helper.from_array(a, name) for name, a in constants.items()],
  )
  sets = [make.make_opsetid('', 21), make.make_opsetid('com.microsoft', 1)]
  model = make.make_model(graph, opset_imports=sets, ir_version=10)
  options = runtime.SessionOptions()
  options.intra_op_num_threads = 1
  session = runtime.InferenceSession(
    model.SerializeToString(), options, providers=['CPUExecutionProvider']
  )
  call = functools.partial(session.run, None, {'x': x})
  call()
  return Program(lambda: call()[0], 1)


def _qwix_int8(shape: Shape, repeats: int) -> Row:
  """Codes of both sides are those of qwix."""
  work = f'8-bit W, 8-bit x, {shape}, beside qwix.dot_general'
  try:
    qwix = importlib.import_module('qwix')
  except ImportError:
    return _absent(work, 'qwix', 'pip install qwix')
  x, values = activations(shape), _values(shape)
  left = qwix.quantize(x, 'int8', channelwise_axes=[0])
  right = qwix.quantize(values, 'int8', channelwise_axes=[1])
  ours = quantize(values, bits=8, scale_rule='half')
  _equal(_stored(ours, 128), right.qvalue)
  act = ActQuant(left.scale[:, 0], 128, 8, 'per_token')
  return compare(
    work,
    program(
      functools.partial(quantized_matmul, act_quant=act), left.qvalue, ours
    ),
    program(
      functools.partial(qwix.dot_general, dimension_numbers=_DIMENSIONS),
      left,
      right,
    ),
    _version('qwix'),
    near(1e-5),
    repeats=repeats,
  )


def _aqt_int8(shape: Shape, repeats: int) -> Row:
  """AQT rounds weights in the call too, half a step below the largest."""
  work = f'8-bit W, 8-bit x, rounded in the call, {shape}, beside AQT'
  try:
    config = importlib.import_module('aqt.jax.v2.config')
  except ImportError:
    return _absent(work, 'aqtp', 'pip install aqtp')
  x, values = activations(shape), _values(shape)
  product = config.dot_general_make(8, 8)
  scale = jnp.max(jnp.abs(values), axis=0, keepdims=True) / 127.5
  codes = jnp.clip(jnp.round(values / scale), -127, 127).astype(jnp.int32)
  w = pack(codes + 128, bits=8, scale=scale)

  def ours(x, w):
    scale = jnp.max(jnp.abs(x), axis=1) / 127.5
    # As there, the largest magnitude is cut off to 127.
    inside = jnp.clip(x, -127 * scale[:, None], 127 * scale[:, None])
    act = ActQuant(scale, 128, 8, 'per_token')
    return quantized_matmul(inside, w, act_quant=act)

  row = compare(
    work,
    program(ours, x, w),
    program(lambda x, w: product(x, w, _DIMENSIONS), x, values),
    _version('aqtp'),
    near(1e-5),
    repeats=repeats,
  )
  return row._replace(note=f'{row.note}; AQT rounds weights in the call too')


def _values(shape: Shape) -> jax.Array:
  rng = np.random.default_rng(shape.n)
  return jnp.asarray(rng.normal(size=(shape.k, shape.n)), jnp.float32)


def _version(package: str) -> str:
  return f'{package} {importlib.metadata.version(package)}'


def _absent(
  work: str, package: str, cure: str, goal: Goal | None = None
) -> Row:
  why = f'{package}: not installed'
  return timing.unmeasured(work, why, UNIT, goal=goal, note=cure)
