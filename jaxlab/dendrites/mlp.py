"""Multilayer perceptrons whose units are neurons with dendrites.

A pixel is a constant current into a dendrite, a weight between units a graded
synapse on one, and the answer the mean voltage of the last units' somata:

    model = mlp.make((64, 32, 10), mlp.ball_and_stick())
    landing = mlp.draw_landing(model, key)     # where each synapse sits
    params = mlp.init(model, key)
    logits = mlp.logits(model, params, landing, images)

Every number in `params` has an exact gradient: through the cable equation of
all compartments and all time steps.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.dendrites.cell import Cell, cell
from jaxlab.dendrites.channels import (
  Leak,
  boltzmann,
  channel_from_steady_states,
)
from jaxlab.dendrites.connections import Connections, connect
from jaxlab.dendrites.discretize import discretize
from jaxlab.dendrites.morphology import from_cylinders
from jaxlab.dendrites.network import Network, network
from jaxlab.dendrites.simulate import Recording, simulate
from jaxlab.dendrites.state import init_params, init_state
from jaxlab.dendrites.stimuli import Injection
from jaxlab.dendrites.synapses import GradedLag
from jaxlab.errors import UserError

Params = dict[str, Any]

REST = -65.0  # mV
READOUT_SCALE = 10.0  # mV that are one unit of a logit at the start

# Slow enough to leave the voltage at the end to the inputs, and no spikes.
SLOW_K = channel_from_steady_states(
  'slow_k',
  {
    'n': (
      lambda v: boltzmann(v, -45.0, 7.0),
      lambda v: jnp.full_like(v, 5.0),
      1,
    )
  },
  g=0.0036,
  e=-77.0,
)
_SOMA = [('soma', Leak(g=3e-4, e=REST)), ('soma', SLOW_K)]
EXCITATION = GradedLag(gbar=2e-3, e=30.0, v_th=-55.0, delta=5.0, tau=2.0)
INHIBITION = EXCITATION(e=-85.0)._replace(name='GradedLagInhibition')


class MLP(NamedTuple):
  """A network of layers of equal neurons; static and hashable.

  Attributes:
    sizes: number of inputs, of the units of each hidden layer, of outputs.
    net: the cells, layer by layer, and a synapse of either sign from each unit
      to each node of the next layer's units that synapses may land on.
    nodes: those K nodes of a cell.
    input_current: nA of an input of 1 at a weight of 1.
    duration: of a run, ms.
    window: at its end, over which voltages are averaged, ms.
    dt: step, ms.
  """

  sizes: tuple[int, ...]
  net: Network
  nodes: tuple[int, ...]
  input_current: float
  duration: float
  window: float
  dt: float

  @property
  def num_units(self) -> int:
    """Number of neurons."""
    return sum(self.sizes[1:])


def ball_and_stick(segments: int = 4) -> Cell:
  """A soma of 20 x 20 um with a dendrite of 400 x 2 um; it does not spike.

  Args:
    segments: compartments of the dendrite.
  """
  morphology = from_cylinders(
    [('soma', 20.0, 20.0, None), ('dend', 400.0, 2.0, ('soma', 1.0))]
  )
  tree = discretize(morphology, nseg={'soma': 1, 'dend': segments}, Ra=100.0)
  return cell(tree, [('all', Leak(g=1e-4, e=REST)), *_SOMA])


def point_neuron() -> Cell:
  """The soma of `ball_and_stick` alone: one compartment."""
  morphology = from_cylinders([('soma', 20.0, 20.0, None)])
  return cell(discretize(morphology, nseg={'soma': 1}, Ra=100.0), _SOMA)


def make(
  sizes: Sequence[int],
  unit: Cell,
  *,
  input_current: float = 0.3,
  duration: float = 12.0,
  window: float = 5.0,
  dt: float = 0.1,
) -> MLP:
  """Builds the network.

  Args:
    sizes: number of inputs, of the units of each hidden layer, of outputs.
    unit: what each unit is. Synapses land on the nodes of `dend`, or on the
      soma of a cell without it.
    input_current: nA of an input of 1 at a weight of 1.
    duration: of a run, ms.
    window: at its end, over which voltages are averaged, ms.
    dt: step, ms.

  Returns:
    The model.

  Raises:
    UserError: no unit, an empty layer, or a window longer than the run.
  """
  sizes = tuple(int(size) for size in sizes)
  if len(sizes) < 2 or min(sizes) < 1:
    raise UserError(
      f'sizes = {sizes} must be two or more numbers above 0: inputs, units of '
      'each hidden layer, outputs.'
    )
  if not dt <= window <= duration:
    raise UserError(
      f'window = {window} ms must be from dt = {dt} ms to the duration of '
      f'{duration} ms.'
    )
  dendrite = 'dend' in unit.tree.names
  nodes = tuple(unit.tree.nodes('dend' if dendrite else 'soma').tolist())
  net = network({unit: sum(sizes[1:])}, _connections(sizes, nodes))
  return MLP(sizes, net, nodes, input_current, duration, window, dt)


def _connections(sizes, nodes) -> list[Connections]:
  """A synapse of either sign from each unit to each node of the next layer."""
  starts = np.cumsum((0, *sizes[1:]))
  grids = [
    np.meshgrid(
      starts[layer - 1] + np.arange(sizes[layer]),
      starts[layer] + np.arange(sizes[layer + 1]),
      nodes,
      indexing='ij',
    )
    for layer in range(1, len(sizes) - 1)
  ]
  if not grids:
    return []
  pre, post, node = (
    np.concatenate([axis.ravel() for axis in axes])
    for axes in zip(*grids, strict=True)
  )
  return [
    connect(kind, pre, post, node, 0.0) for kind in (EXCITATION, INHIBITION)
  ]


def init(model: MLP, key: jax.Array, dtype: Any = None) -> Params:
  """Draws the weights; the read-out starts as the identity.

  Args:
    model: of `make`.
    key: PRNG key.
    dtype: of the arrays; JAX's default float if None.

  Returns:
    {'weights': for each layer `[inputs, units]` of either sign, normal with a
    variance of 1 / inputs, in units of `input_current` or of the synapses'
    conductance, 'bias': for each layer `[units]` current into the soma in units
    of `input_current`, 'readout': {'matrix': `[C, C]`, 'shift': `[C]`}}.
  """
  dtype = dtype or jnp.result_type(float)
  shapes = list(zip(model.sizes[:-1], model.sizes[1:], strict=True))
  keys = jax.random.split(key, len(shapes))
  outputs = model.sizes[-1]
  return {
    'weights': [
      jax.random.normal(k, shape, dtype) / np.sqrt(shape[0])
      for k, shape in zip(keys, shapes, strict=True)
    ],
    'bias': [jnp.zeros(n, dtype) for n in model.sizes[1:]],
    'readout': {
      'matrix': jnp.eye(outputs, dtype=dtype),
      'shift': jnp.zeros(outputs, dtype),
    },
  }


def draw_landing(model: MLP, key: jax.Array) -> list[jax.Array]:
  """Draws the node of its target on which each synapse and input lands.

  Args:
    model: of `make`.
    key: PRNG key.

  Returns:
    For each layer `[inputs, units]` int32, indices into `model.nodes`.
  """
  shapes = list(zip(model.sizes[:-1], model.sizes[1:], strict=True))
  keys = jax.random.split(key, len(shapes))
  return [
    jax.random.randint(k, shape, 0, len(model.nodes))
    for k, shape in zip(keys, shapes, strict=True)
  ]


def run(
  model: MLP, params: Params, landing: Sequence[jax.Array], images: jax.Array
) -> Recording:
  """Simulates the network for each image.

  Args:
    model: of `make`.
    params: of `init`.
    landing: of `draw_landing`.
    images: `[B, inputs]`, about 0 to 1.

  Returns:
    The somatic voltages `v`, `[T + 1, U, B]` mV, layer after layer.
  """
  net, dtype = model.net, images.dtype
  spread = [
    weight[..., None] * jax.nn.one_hot(place, len(model.nodes), dtype=dtype)
    for weight, place in zip(params['weights'], landing, strict=True)
  ]
  cable = init_params(net, dtype)
  if net.synapses:
    signed = jnp.concatenate([each.ravel() for each in spread[1:]])
    for name, sign in ((EXCITATION.name, 1), (INHIBITION.name, -1)):
      cable['synapses'][name]['weight'] = jax.nn.relu(sign * signed)
  first = model.sizes[1]
  into_dendrites = images @ spread[0].reshape(model.sizes[0], -1)
  bias = jnp.concatenate(params['bias'])[:, None]
  stimuli = [
    Injection(
      [(unit, node) for unit in range(first) for node in model.nodes],
      model.input_current * into_dendrites.T,
    ),
    Injection(
      [(unit, net.cells[0].source) for unit in range(model.num_units)],
      model.input_current * bias,
    ),
  ]
  state = init_state(net, cable, REST, batch=len(images), dt=model.dt)
  recording, _ = simulate(
    net, cable, state, stimuli, model.duration, model.dt, remat='none'
  )
  return recording


def mean_voltage(model: MLP, recording: Recording) -> jax.Array:
  """`[B, U]` somatic voltage in mV, averaged over the window."""
  return recording.v[-round(model.window / model.dt) :].mean(axis=0).T


def read_out(model: MLP, params: Params, voltage: jax.Array) -> jax.Array:
  """Logits of the mean somatic voltages.

  Args:
    model: of `make`.
    params: of `init`.
    voltage: `[B, U]` of `mean_voltage`, or `[B, C]` of the last layer.

  Returns:
    `[B, C]`: an affine function of (V + 65 mV) / 10 mV of the last layer.
  """
  outputs = (voltage[:, -model.sizes[-1] :] - REST) / READOUT_SCALE
  return outputs @ params['readout']['matrix'] + params['readout']['shift']


def logits(
  model: MLP, params: Params, landing: Sequence[jax.Array], images: jax.Array
) -> jax.Array:
  """`[B, C]` logits of `[B, inputs]` images; see `run` and `read_out`."""
  voltage = mean_voltage(model, run(model, params, landing, images))
  return read_out(model, params, voltage)
