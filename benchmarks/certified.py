"""Certified training, bounds and search: python -m benchmarks.certified.

Training and bounds take part on one core, in CPU time of an image, beside the
same computations in PyTorch (`certified_torch`). Trials of a search are whole
processes (`certified_trials`), in CPU time of all their threads.
"""

import functools
import json
import math
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks import certified_trials, cpu_time, peers, timing
from benchmarks.quantized_matmul_programs import UNIT, compare, program
from benchmarks.timing import Goal, Row
from jaxlab import data
from jaxlab.certified import (
  bounds,
  branch_and_bound,
  loss_terms,
  losses,
  networks,
)
from jaxlab.certified.networks import Network
from jaxlab.dendrites import experiment_timing as timed
from jaxlab.dendrites.experiment_timing import Program

_EPS = 0.05
_BATCH = 128
_FIRST_STEPS = 3
_TURN_NS = 2e7
_ALONE = 'jaxlab, one subdomain at a time'
_WHOLE = 'jaxlab, all rows at once'
_LANES = 4
_TWICE = timing.faster(2)


class _Trials(NamedTuple):
  """A process that has trained.

  Attributes:
    norms: of the parameters of each trial.
    cpu: CPU time in s.
    clock: time in s.
  """

  norms: list[float]
  cpu: float
  clock: float


def rows(quick: bool) -> Iterator[Row]:
  """Yields the rows, with fewer and smaller instances if `quick`."""
  repeats = 3 if quick else 9
  with cpu_time.one_core():
    with peers.Peer('torch', 'certified_torch.py') as torch:
      yield from training_steps(torch, repeats)
      yield from bounds_of_digits(torch, 200 if quick else 1000, repeats)
    yield subdomains(1000 if quick else 4000, 1 if quick else 3)
  yield memory()
  yield trials(quick)


def training_steps(torch: peers.Peer, repeats: int) -> Iterator[Row]:
  """A step of IBP training: forward, gradient and Adam."""
  shape = (14, 14, 1)
  cnn = functools.partial(networks.small_cnn, shape, width=8)
  rng = np.random.default_rng(0)
  images = rng.random((_BATCH, *shape), np.float32)
  labels = rng.integers(0, 10, _BATCH)
  x, y = _digits(_BATCH)
  jobs = [('MLP 64-100-100-10', networks.mlp(), x, y)]
  for convolution in ('patches', 'lax'):
    name = f'small_cnn of width 8, 14 x 14, convolution={convolution!r}'
    jobs.append((name, cnn(convolution=convolution), images, labels))
  for name, network, pictures, classes in jobs:
    params = network.init(jax.random.key(0))
    ours, first = _training(network, params, pictures, classes)
    yield _beside_torch(
      f'An image in a step of IBP training, {name}, batch of {_BATCH}',
      ours,
      torch,
      'training',
      _arrays(network, params) | {'x': pictures, 'y': classes},
      first,
      repeats,
      'first losses',
      goal=_TWICE,
    )


def _training(
  network: Network, params: Any, x: np.ndarray, y: np.ndarray
) -> tuple[Program, np.ndarray]:
  """A step, and the losses of the first ones."""
  adam = optax.adam(1e-3)

  def loss(params, x, y):
    box = bounds.input_box(x, _EPS)
    passed = loss_terms.interval_pass(network.apply, params, box)
    margins = loss_terms.ibp_margins(passed, y)
    return losses.worst_case(margins.lower).mean()

  def step(params, state, x, y):
    value, slope = jax.value_and_grad(loss)(params, x, y)
    update, state = adam.update(slope, state, params)
    return value, optax.apply_updates(params, update), state

  pictures, classes = jnp.asarray(x), jnp.asarray(y)
  state = adam.init(params)
  compiled = program(step, params, state, pictures, classes)
  run = jax.jit(step)
  found = []
  for _ in range(_FIRST_STEPS):
    value, params, state = run(params, state, pictures, classes)
    found.append(float(value))
  return compiled._replace(units=len(x)), np.array(found)


def bounds_of_digits(
  torch: peers.Peer, count: int, repeats: int
) -> Iterator[Row]:
  """Lower bounds of the margins of pictures that an MLP has learned."""
  network, params = networks.mlp(), _learned()
  x, y = _digits(count)
  box = bounds.input_box(jnp.asarray(x), _EPS)
  C = bounds.margin_matrix(jnp.asarray(y), 10)
  arrays = _arrays(network, params) | {'x': x, 'C': np.asarray(C)}
  for name in ('ibp', 'crown_ibp', 'crown', 'alpha_crown'):
    method: Callable[..., bounds.Interval] = getattr(bounds, name)

    def lower(params, box, C, method=method):
      return method(network.apply, params, box, C).lower

    work = f'{name} of a digit, MLP 64-100-100-10, {count:_} at once'
    ours = program(lower, params, box, C)._replace(units=count)
    if name == 'alpha_crown':
      taken = timed.cpu_ns([ours], 1 if count > 200 else 3).min() / 1e3
      note = f'20 steps, no peer; {_rate(taken)}'
      yield timing.measured(work, float(taken), UNIT, note=note)
      continue
    yield _beside_torch(
      *(work, ours, torch, name, arrays, ours.call(), repeats, 'bounds')
    )


def subdomains(nodes: int, repeats: int) -> Row:
  """Branch and bound, with many subdomains at a time and with one."""
  network, params = networks.mlp(), _learned()
  x, y = _digits(1)
  find = functools.partial(
    branch_and_bound.minimum_margin, network.apply, params, x[0], y[0]
  )
  programs: list[Program] = []
  found = []
  for batch, most in ((64, nodes), (1, nodes // 20)):
    limits = branch_and_bound.Limits(nodes=most, batch=batch)
    search = functools.partial(find, 3 * _EPS, tol=1e-6, limits=limits)
    programs.append(Program(search, search().nodes))
    easy = branch_and_bound.Limits(nodes=10_000, batch=batch)
    found.append(find(_EPS, tol=1e-3, limits=easy).lower)
  work = 'A subdomain of branch and bound, MLP 64-100-100-10, 64 at a time'
  goal = timing.faster(5)
  row = compare(
    work,
    programs[0],
    programs[1],
    _ALONE,
    lambda *_: cpu_time.within(1e-3, 'minimum margins')(*found),
    goal=goal,
    repeats=repeats,
  )
  if row.ours is None or row.peer is None:
    return row
  rates = ' and '.join(f'{1e6 / t:.0f}' for t in (row.ours, row.peer))
  return row._replace(note=f'{row.note}; {rates} nodes per second of CPU')


def memory() -> Row:
  """Temporary buffers of CROWN, some rows at a time and all at once."""
  count = 50
  network = networks.small_cnn()
  params = jax.eval_shape(network.init, jax.random.key(0))
  image = jax.ShapeDtypeStruct((count, *network.input_shape), jnp.float32)
  C = jax.ShapeDtypeStruct((count, 9, 10), jnp.float32)

  def mib(chunk):
    def lower(params, box, C):
      return bounds.crown(network.apply, params, box, C, chunk=chunk).lower

    box = bounds.Interval(image, image)  # type: ignore[arg-type]
    needs: Any = jax.jit(lower).lower(params, box, C).compile()
    return needs.memory_analysis().temp_size_in_bytes / 2**20

  return cpu_time.against(
    f'Memory of CROWN, small_cnn, 28 x 28, {count} images: chunks of rows',
    *(mib(None), mib(sys.maxsize), _WHOLE),
    unit='MiB',
    note='temporary buffers of the compiled program',
  )


def trials(quick: bool) -> Row:
  """Short trainings in lanes of one program, and in processes of their own."""
  count, epochs = (8, 10) if quick else (12, 40)
  ours, alone = _trials(_LANES, count, epochs), _trials(1, 1, epochs)
  work = (
    f'A trial of {epochs} epochs of {certified_trials.METHOD}, MLP of the '
    f'digits: {count} in lanes of {_LANES} in one process'
  )
  version, goal = 'jaxlab, a process for each trial', timing.faster(4)
  agree = cpu_time.within(0.05, 'norms of the parameters of the first trial')
  try:
    note = agree(ours.norms[0], alone.norms[0])
  except timing.DisagreementError as error:
    return _differ(work, version, 's CPU', goal, error)
  hourly = f'{3600 * count / ours.clock:.0f} and {3600 / alone.clock:.0f}'
  return cpu_time.against(
    *(work, ours.cpu / count, alone.cpu, version),
    unit='s CPU',
    goal=goal,
    note=f'{note}; start and compilation included on both sides; {hourly} '
    'trials an hour on the clock, one process at a time',
  )


def _trials(lanes: int, count: int, epochs: int) -> _Trials:
  command = [sys.executable, '-m', certified_trials.__name__]
  command += map(str, (lanes, count, epochs))
  before, start = _children_seconds(), time.perf_counter()
  done = subprocess.run(
    command,
    cwd=pathlib.Path(__file__).parents[1],
    env=certified_trials.environment(),
    capture_output=True,
    text=True,
    check=True,
  )
  seconds = time.perf_counter() - start
  norms = json.loads(done.stdout.splitlines()[-1])
  return _Trials(norms, _children_seconds() - before, seconds)


def _children_seconds() -> float:
  used = resource.getrusage(resource.RUSAGE_CHILDREN)
  return used.ru_utime + used.ru_stime


def _beside_torch(
  work: str,
  ours: Program,
  torch: peers.Peer,
  kind: str,
  arrays: Mapping[str, Any],
  found: Any,
  repeats: int,
  what: str,
  *,
  goal: Goal | None = None,
) -> Row:
  """Turns with a program in another process, once results agree."""
  if torch.version is None:
    taken = float(timed.cpu_ns([ours], repeats).min()) / 1e3
    row = timing.measured(work, taken, UNIT)
    note = f'{_rate(taken)}; {peers.CURE}'
    goal_text = goal.text if goal else ''
    return row._replace(
      goal=goal_text, peer_version='torch: not installed', note=note
    )
  with tempfile.TemporaryDirectory() as folder:
    inputs, output = (pathlib.Path(folder, n) for n in ('x.npz', 'y.npy'))
    given: dict[str, Any] = {k: np.asarray(a) for k, a in arrays.items()}
    np.savez(inputs, **given)
    torch.run(kind=kind, eps=_EPS, inputs=str(inputs), output=str(output))
    expected = np.load(output)
  size = max(1.0, float(np.abs(expected).max()))
  try:
    note = cpu_time.within(1e-4 * size, what)(found, expected)
  except timing.DisagreementError as error:
    return _differ(work, torch.version, UNIT, goal, error)
  calls = math.ceil(_TURN_NS / torch.run(calls=3))
  turns = [
    (timed.cpu_ns([ours], 1)[0, 0], torch.run(calls=calls) / ours.units)
    for _ in range(repeats)
  ]
  taken, theirs = np.min(turns, axis=0) / 1e3
  return cpu_time.against(
    *(work, taken, theirs, f'{torch.version}, eager'),
    unit=UNIT,
    goal=goal,
    note=f'{note}; {_rate(taken, theirs)}',
  )


def _differ(
  work: str, version: str, unit: str, goal: Goal | None, error: Exception
) -> Row:
  note = f'{timing.DIFFER}: {error}'
  row = timing.unmeasured(work, version, unit, goal=goal, note=note)
  return row._replace(met=False)


def _rate(*taken: float) -> str:
  rates = ' and '.join(f'{1e6 / t:,.0f}' for t in taken)
  return f'{rates} images per second of CPU'


def _digits(count: int) -> tuple[np.ndarray, np.ndarray]:
  found = data.load('digits', 'train', train=1000)
  x = found.images.reshape(len(found.labels), -1)
  return x[:count], found.labels[:count].astype(np.int64)


def _arrays(network: Network, params: Any) -> dict[str, np.ndarray]:
  """Parameters under the names that `certified_torch` reads."""
  return {
    f'{name}_{index}': np.asarray(params[layer][name])
    for index, layer in enumerate(network.names)
    for name in ('kernel', 'bias')
  }


@functools.cache
def _learned() -> Any:
  """Parameters of the MLP after a short training."""
  network, adam = networks.mlp(), optax.adam(3e-3)
  x, y = _digits(1000)
  key = jax.random.key(0)

  @jax.jit
  def train(params, x, y):
    def loss(params):
      hyper = {'kappa': 0.5}
      return losses.ibp(network.apply, params, x, y, _EPS / 5, hyper, key)[0]

    def step(carry, _):
      params, state = carry
      update, state = adam.update(jax.grad(loss)(params), state)
      return (optax.apply_updates(params, update), state), None

    start = (params, adam.init(params))
    return jax.lax.scan(step, start, length=200)[0][0]

  return jax.device_get(train(network.init(key), x, y))


if __name__ == '__main__':
  from benchmarks.__main__ import main

  sys.exit(main(['certified', *sys.argv[1:]]))
