"""What is timed, and how: cells under a step of current, in CPU time."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab import stats
from jaxlab.dendrites import channels
from jaxlab.dendrites.cell import cell
from jaxlab.dendrites.compartments import CompartmentTree
from jaxlab.dendrites.morphology import Morphology, from_cylinders
from jaxlab.dendrites.network import Network, network
from jaxlab.dendrites.simulate import Remat, simulate
from jaxlab.dendrites.state import init_params, init_state
from jaxlab.dendrites.stimuli import current_clamp

DT = 0.025  # ms
ONSET = 0.5  # ms
FOREVER = 1e6  # ms
_OPTIONS: dict[str, str | bool] = {'xla_cpu_multi_thread_eigen': False}


class Work(NamedTuple):
  """Runs of a cell with HH everywhere, under a step of current at the soma.

  Attributes:
    run: (channels' parameters, `[B]` nA) -> `[T + 1, B]` mV at the soma.
    args: both, on the device.
    units: compartments times steps times cells.
  """

  run: Callable[..., Any]
  args: tuple[Any, jax.Array]
  units: int

  def gradient(self) -> 'Work':
    """The mean square of the voltage, and its gradient to both arguments."""

    def loss(parameters, amplitudes):
      return jnp.mean(jnp.square(self.run(parameters, amplitudes)))

    return self._replace(run=jax.value_and_grad(loss, (0, 1)))


class Program(NamedTuple):
  """A compiled program.

  Attributes:
    call: runs it, and waits for its result.
    units: how many units of work a call does.
    compile_seconds: what it took to compile.
    temporary: bytes that it needs besides its arguments and results.
  """

  call: Callable[[], Any]
  units: int
  compile_seconds: float = 0.0
  temporary: int = 0


def equipped(tree: CompartmentTree) -> Network:
  """A cell with HH everywhere."""
  return network(cell(tree, [('all', channels.HH)]))


def amplitudes(tree: CompartmentTree, batch: int) -> np.ndarray:
  """`[B]` nA into the soma: 10 uA/cm2 of the cell and up make it fire."""
  weakest = 1e-4 * tree.area.sum()
  return np.linspace(weakest, 1.5 * weakest, batch, dtype=np.float32)


def work(
  net: Network, steps: int, batch: int, *, remat: Remat = 'auto'
) -> Work:
  """Runs side by side: columns of one state.

  Args:
    net: of `equipped`.
    steps: T.
    batch: B.
    remat: what the gradient stores; as in `simulate`.
  """
  params = init_params(net)
  state = init_state(net, params, batch=batch)
  soma = net.cells[0].source

  def run(parameters, currents):
    clamp = current_clamp(soma, ONSET, FOREVER, currents)
    recording, _ = simulate(
      net,
      {**params, 'channels': parameters},
      state,
      [clamp],
      dt=DT,
      steps=steps,
      remat=remat,
    )
    return recording.v[:, 0]

  tree = net.cells[0].tree
  currents = jnp.asarray(amplitudes(tree, batch), state.v.dtype)
  units = tree.n_segments * steps * batch
  return Work(run, (params['channels'], currents), units)


def mapped(net: Network, steps: int, batch: int) -> Work:
  """The cells of `work`, each a run of its own under `vmap`."""
  single = work(net, steps, 1)
  run = jax.vmap(
    lambda parameters, amplitude: single.run(parameters, amplitude[None])[:, 0],
    (None, 0),
    1,
  )
  dtype = single.args[1].dtype
  currents = jnp.asarray(amplitudes(net.cells[0].tree, batch), dtype)
  return Work(run, (single.args[0], currents), single.units * batch)


def program(job: Work) -> Program:
  """Compiles, and runs once."""
  start = time.perf_counter()
  compiled = jax.jit(job.run).lower(*job.args).compile(_OPTIONS)
  seconds = time.perf_counter() - start

  def call():
    return jax.block_until_ready(compiled(*job.args))

  call()
  needs: Any = compiled.memory_analysis()
  return Program(call, job.units, seconds, int(needs.temp_size_in_bytes))


def cpu_ns(
  programs: Sequence[Program], repeats: int, shortest: float = 0.02
) -> np.ndarray:
  """CPU time of programs that take turns.

  Other work on the machine changes it far less than the time on the clock.

  Args:
    programs: what is timed, already warm.
    repeats: K, the number of turns.
    shortest: seconds that a turn takes at least, in as many calls as it needs.

  Returns:
    `[P, K]` ns of CPU time per unit of work.
  """
  taken = np.empty((len(programs), repeats))
  calls = [math.ceil(shortest / _cpu_seconds(each, 1)) for each in programs]
  for turn in range(repeats):
    for index, (each, count) in enumerate(zip(programs, calls, strict=True)):
      seconds = _cpu_seconds(each, max(1, count))
      taken[index, turn] = 1e9 * seconds / each.units
  return taken


def _cpu_seconds(timed: Program, count: int) -> float:
  """Mean CPU time of a call."""
  start = time.process_time()
  for _ in range(count):
    timed.call()
  return max(time.process_time() - start, 1e-9) / count


def slope(sizes: Sequence[float], values: np.ndarray) -> np.ndarray:
  """`[...]` exponents of `[P, ...]` values over P sizes, by least squares."""
  x = np.log(np.asarray(sizes, float))
  x -= x.mean()
  return np.tensordot(x, np.log(values), (0, 0)) / np.sum(x * x)


def interval(values: np.ndarray) -> tuple[float, float, float]:
  """Mean of `[K]` values and its 95 % t interval."""
  found = stats.mean_interval(np.asarray(values, np.float64), level=0.95)
  mean = float(np.mean(values))
  low, high = float(found.low), float(found.high)
  return mean, min(low, mean), max(high, mean)


def cylinders(
  morph: Morphology, tree: CompartmentTree, limit: int | None = None
) -> tuple[Morphology, dict[str, int]]:
  """A neuron's sections as cylinders of the same length and area, end to end.

  Args:
    morph: the neuron.
    tree: its division.
    limit: how many sections are kept; None for all.

  Returns:
    The neuron, and the number of segments of each section.
  """
  parts, counts = [], {}
  for index, section in enumerate(morph.sections[:limit]):
    here = tree.section == index
    diameter = float(tree.area[here].sum()) / (np.pi * section.L)
    above = section.parent
    place = None if above < 0 else (morph.sections[above].name, 1.0)
    parts.append((section.name, section.L, diameter, place))
    counts[section.name] = int(here.sum())
  return from_cylinders(parts), counts
