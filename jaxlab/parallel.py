"""Many devices and many hosts: start, mesh, replications spread over devices.

The same program runs on one CPU, eight GPUs or a TPU pod:

    parallel.initialize()
    keys = parallel.replication_keys(key, 10_000)
    run = parallel.sharded_vmap(replicate, in_axes=(0, None), chunk=64)
    results = parallel.gather(run(keys, environment))
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, PartitionSpec

from jaxlab.errors import UserError

# Per launcher: the variable with the number of processes, and with the rank.
_RANK_VARIABLES = (
  ('JAX_NUM_PROCESSES', 'JAX_PROCESS_ID'),
  ('SLURM_STEP_NUM_TASKS', 'SLURM_PROCID'),
  ('OMPI_COMM_WORLD_SIZE', 'OMPI_COMM_WORLD_RANK'),
)


def initialize() -> None:
  """Joins the processes of a cluster job; does nothing on a single host.

  Call it before any other use of JAX. Several processes are recognised when
  they were started by

  - `srun` with more than one task, or `mpirun` (Open MPI);
  - an indexed Kubernetes Job or JobSet (needs `pip install jax[k8s]`);
  - a TPU pod, whose hosts find each other;
  - anything that sets `JAX_NUM_PROCESSES`, `JAX_PROCESS_ID` and
    `JAX_COORDINATOR_ADDRESS=host:port`; these override the others, and
    `JAX_NUM_PROCESSES=1 JAX_PROCESS_ID=0` keeps a process by itself.

  Under Slurm and Open MPI each process takes the one GPU of its local rank;
  `JAX_LOCAL_DEVICE_IDS=0,1,2,3` gives it others.

  Raises:
    UserError: if several processes were started but cannot find each other.
    RuntimeError: if JAX has already been used in this process.
  """
  if jax.distributed.is_initialized():
    return
  position = _launcher_position()
  known: dict[str, Any] = {}
  if position is not None:
    num_processes, process_id = position
    if num_processes == 1:
      return
    known = {'num_processes': num_processes, 'process_id': process_id}
  elif not (_in_pod() or 'JAX_COORDINATOR_ADDRESS' in os.environ):
    return
  try:
    jax.distributed.initialize(**known)
  except ValueError as error:
    raise UserError(
      'this process belongs to a cluster job but cannot find the others; set '
      'JAX_COORDINATOR_ADDRESS=host:port, JAX_NUM_PROCESSES and '
      f'JAX_PROCESS_ID ({error})'
    ) from error


def _launcher_position() -> tuple[int, int] | None:
  """Number of processes and rank as the launcher states them, if it does."""
  for size, rank in _RANK_VARIABLES:
    if size not in os.environ:
      continue
    values = os.environ[size], os.environ.get(rank, '')
    if not all(value.isdecimal() for value in values):
      raise UserError(
        f'{size} and {rank} must both be whole numbers, got '
        f'{values[0]!r} and {values[1]!r}'
      )
    return int(values[0]), int(values[1])
  return None


def _in_pod() -> bool:
  """Whether this host belongs to a TPU pod or an indexed Kubernetes job."""
  env = os.environ
  hosts = env.get('TPU_PROCESS_ADDRESSES', env.get('TPU_WORKER_HOSTNAMES', ''))
  # JAX marks a TPU machine, and one that has no metadata server, on import.
  has_metadata = 'TPU_ML_PLATFORM' in env and 'TPU_SKIP_MDS_QUERY' not in env
  indexed_job = 'KUBERNETES_SERVICE_HOST' in env and (
    'JOB_COMPLETION_INDEX' in env
  )
  return ',' in hosts or has_metadata or indexed_job


def mesh(
  axis_names: Sequence[str] = ('data',),
  shape: Sequence[int] | None = None,
  devices: Sequence[jax.Device] | None = None,
) -> Mesh:
  """A device mesh over all hosts.

  Args:
    axis_names: one name an axis.
    shape: devices along each axis, at most one of them -1 ("the rest"). By
      default all devices lie along the first axis.
    devices: the devices to use; by default all devices of all hosts.

  Returns:
    A `jax.sharding.Mesh` with automatic sharding along each axis.

  Raises:
    UserError: if `shape` does not fit `axis_names` or the devices.
  """
  devices = jax.devices() if devices is None else list(devices)
  axis_names = tuple(axis_names)
  if shape is None:
    shape = (-1, *(1 for _ in axis_names[1:]))
  shape = tuple(shape)
  if len(shape) != len(axis_names) or not axis_names:
    raise UserError(
      f'mesh shape {shape} needs one size for each of the axes {axis_names}'
    )
  if shape.count(-1) > 1 or any(size < 1 and size != -1 for size in shape):
    raise UserError(
      f'mesh shape {shape} must hold positive sizes and at most one -1'
    )
  given = -int(np.prod(shape)) if -1 in shape else int(np.prod(shape))
  if len(devices) % given or (-1 not in shape and given != len(devices)):
    raise UserError(
      f'mesh shape {shape} does not fit {len(devices)} devices; change shape '
      'or pass devices='
    )
  shape = tuple(len(devices) // given if n == -1 else n for n in shape)
  return jax.make_mesh(
    shape, axis_names, (AxisType.Auto,) * len(shape), devices=devices
  )


def replication_keys(key: jax.Array, num: int) -> jax.Array:
  """Keys whose r-th entry depends on `key` and r alone, not on `num`.

  Args:
    key: a PRNG key.
    num: number of replications.

  Returns:
    `[num]` keys.
  """
  return jax.vmap(jax.random.fold_in, (None, 0))(
    key, jnp.arange(num, dtype=jnp.uint32)
  )


def _pad(tree: Any, length: int) -> Any:
  """Repeats the last element along axis 0 up to `length`."""

  def pad(x):
    missing = (length - x.shape[0], *x.shape[1:])
    return jnp.concatenate([x, jnp.broadcast_to(x[-1:], missing)])

  return jax.tree.map(pad, tree)


def chunked_vmap(
  fn: Callable[..., Any], chunk: int | None = None
) -> Callable[..., Any]:
  """`jax.vmap(fn)` that holds about `chunk` elements in memory at a time.

  Args:
    fn: function of any number of array trees.
    chunk: most elements to map at once; None maps all of them at once.

  Returns:
    A function of trees with a common leading axis, equal to `jax.vmap(fn)`.

  Raises:
    ValueError: if `chunk` is not positive.
  """
  if chunk is not None and chunk < 1:
    raise ValueError(f'chunk must be positive, got {chunk}.')

  def mapped(*args):
    length = jax.tree.leaves(args)[0].shape[0]
    if chunk is None or length <= chunk:
      return jax.vmap(fn)(*args)
    # Chunks of nearly equal size: one compiled body and little padding.
    num_chunks = -(-length // chunk)
    size = -(-length // num_chunks)
    chunks = jax.tree.map(
      lambda x: x.reshape(num_chunks, size, *x.shape[1:]),
      _pad(args, num_chunks * size),
    )
    out = jax.lax.map(lambda xs: jax.vmap(fn)(*xs), chunks)
    return jax.tree.map(
      lambda x: x.reshape(num_chunks * size, *x.shape[2:])[:length], out
    )

  return mapped


def _split(in_axes: Any, args: tuple[Any, ...]):
  """Separates the leaves with a mapped axis from those that are broadcast.

  Returns:
    The mapped leaves with their axis moved to the front, the other leaves,
    and a function of two such lists that builds the arguments again.
  """
  axes: list[int | None] = []
  jax.tree.map(
    lambda axis, part: axes.extend([axis] * len(jax.tree.leaves(part))),
    tuple(in_axes) if isinstance(in_axes, list) else in_axes,
    args,
    is_leaf=lambda axis: axis is None,
  )
  leaves, structure = jax.tree.flatten(args)
  pairs = list(zip(leaves, axes, strict=True))
  mapped = [jnp.moveaxis(x, axis, 0) for x, axis in pairs if axis is not None]
  shared = [x for x, axis in pairs if axis is None]

  def merge(mapped, shared):
    mapped, shared = iter(mapped), iter(shared)
    return jax.tree.unflatten(
      structure,
      [next(shared if axis is None else mapped) for axis in axes],
    )

  return mapped, shared, merge


def sharded_vmap(
  fn: Callable[..., Any],
  *,
  in_axes: Any = 0,
  mesh: Mesh | None = None,
  chunk: int | None = None,
  axis_name: str = 'rep',
) -> Callable[..., Any]:
  """`jax.vmap(fn, in_axes)` spread over all devices of a mesh.

  Each device maps over its share, `chunk` elements at a time. Results do not
  depend on the number of devices or on `chunk`, up to the order in which
  XLA sums inside `fn`; elementwise programs agree to the bit. The returned
  function is jitted and composes with `jit`, `vmap` and `grad`. In a job of
  several processes all call it with the same arguments, and `gather` collects
  the results. Over several CPU devices a program whose `fn` solves or
  decomposes matrices of 64 rows and more can hang (jaxlib 0.10.2: the programs
  wait for each other's threads); `jax.jit(jax.vmap(fn))` does not.

  Args:
    fn: function of array trees.
    in_axes: as for `jax.vmap`: an axis, or a tuple of axes, None or trees of
      them; None broadcasts, and such arguments are copied to every device.
    mesh: the devices, whatever its axes; by default all of all hosts.
    chunk: most elements that a device maps at once, which bounds its memory;
      None maps the device's share at once.
    axis_name: name of the mesh axis when `mesh` is not given.

  Returns:
    A function with `fn`'s positional arguments that returns `fn`'s results
    with a leading mapped axis; its length need not be a multiple of the
    number of devices.

  Raises:
    ValueError: if `chunk` is not positive; on call, if no argument is mapped
      or the mapped axes differ in length.
  """
  if chunk is not None and chunk < 1:
    raise ValueError(f'chunk must be positive, got {chunk}.')

  @jax.jit
  def over_devices(*args):
    mapped, shared, merge = _split(in_axes, args)
    lengths = {x.shape[0] for x in mapped}
    if len(lengths) != 1:
      raise ValueError(
        'sharded_vmap needs mapped axes of one common length, got '
        f'{sorted(lengths)}.'
      )
    (length,) = lengths

    def share(mapped, shared):
      return chunked_vmap(lambda *xs: fn(*merge(xs, shared)), chunk)(*mapped)

    if length == 0:
      return share(mapped, shared)
    where = _mesh_or_default(mesh, axis_name)
    spread = jax.shard_map(
      share,
      mesh=where,
      in_specs=(PartitionSpec(where.axis_names), PartitionSpec()),
      out_specs=PartitionSpec(where.axis_names),
      check_vma=False,  # `fn` may hold loops whose carry starts as a constant
    )
    out = spread(_pad(mapped, -(-length // where.size) * where.size), shared)
    return jax.tree.map(lambda x: x[:length], out)

  return over_devices


def _mesh_or_default(given: Mesh | None, axis_name: str) -> Mesh:
  return mesh((axis_name,)) if given is None else given


def gather(tree: Any) -> Any:
  """Copies every array of `tree` to every process as a NumPy array.

  Args:
    tree: arrays, spread over any devices of any hosts; every process calls
      with its view of the same tree.

  Returns:
    The tree with whole NumPy arrays, the same on every process.
  """

  def collect(x):
    if isinstance(x, jax.Array) and not (
      x.is_fully_addressable or x.is_fully_replicated
    ):
      return multihost_utils.process_allgather(x, tiled=True)
    return np.asarray(jax.device_get(x))

  return jax.tree.map(collect, tree)
