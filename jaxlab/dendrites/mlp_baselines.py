"""What the deep biophysical perceptron is compared with: a local rule.

The rule sees a unit as DeepDendrite's training did (Zhang et al. 2023, Nature
Communications 14: 5798, doi 10.1038/s41467-023-41553-7): its activity comes
from the full simulation, its gradient from a static curve of the activity over
the current, as if dendrites and time were not there.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlab.dendrites import mlp
from jaxlab.dendrites.network import network
from jaxlab.dendrites.simulate import simulate
from jaxlab.dendrites.state import init_params, init_state
from jaxlab.dendrites.stimuli import Injection
from jaxlab.dendrites.synapses import SynapseType


class Curve(NamedTuple):
  """What a unit does under constant currents into its soma.

  Attributes:
    voltage: `[G]` rising mean voltage over the window, mV.
    gain: `[G]` its derivative to the current, mV/nA.
  """

  voltage: jax.Array
  gain: jax.Array


def static_curve(
  model: mlp.MLP, low: float = -1.5, high: float = 3.0, points: int = 181
) -> Curve:
  """Measures the curve of a model's unit.

  Args:
    model: of `mlp.make`.
    low: least current, nA.
    high: greatest current, nA.
    points: G.

  Returns:
    The curve, of as many runs.
  """
  net = network([model.net.cells[0]])
  current = jnp.linspace(low, high, points)
  params = init_params(net)
  state = init_state(net, params, mlp.REST, batch=points, dt=model.dt)
  source = net.cells[0].source
  recording, _ = simulate(
    net,
    params,
    state,
    [Injection([source], current[None])],
    model.duration,
    model.dt,
    remat='none',
  )
  voltage = mlp.mean_voltage(model, recording)[:, 0]
  return Curve(voltage, jnp.asarray(jnp.gradient(voltage, current)))


def local_logits(
  model: mlp.MLP,
  curve: Curve,
  params: mlp.Params,
  landing: Sequence[jax.Array],
  images: jax.Array,
) -> jax.Array:
  """Logits of the simulation with the gradient of the local rule.

  Forward this is `mlp.logits`. Backward a unit's voltage changes by the gain at
  its voltage times the change of its static current: the inputs' currents, or
  weight times sender's open share times driving force at its mean voltage.

  Args:
    model: of `mlp.make`.
    curve: of `static_curve`.
    params: of `mlp.init`.
    landing: of `mlp.draw_landing`; the gradient does not know it.
    images: `[B, inputs]`.

  Returns:
    `[B, C]` logits.
  """
  recording = mlp.run(model, jax.lax.stop_gradient(params), landing, images)
  simulated = jax.lax.stop_gradient(mlp.mean_voltage(model, recording))
  ends = [sum(model.sizes[1 : i + 2]) for i in range(len(model.sizes) - 2)]
  layers = jnp.split(simulated, ends, axis=1)
  voltage = images
  for depth, (here, weight, bias) in enumerate(
    zip(layers, params['weights'], params['bias'], strict=True)
  ):
    drive = model.input_current * bias
    if depth == 0:
      drive = drive + model.input_current * images @ weight
    else:
      drive = drive + _synaptic_current(weight, voltage, here)
    gain = jnp.interp(here, curve.voltage, curve.gain)
    voltage = here + gain * (drive - jax.lax.stop_gradient(drive))
  return mlp.read_out(model, params, voltage)


def _synaptic_current(weight, before, here):
  """`[B, U]` nA into units at `here` mV of senders at `before` mV."""
  return sum(
    _open(kind, before)
    @ jax.nn.relu(sign * weight)
    * kind.defaults()['gbar']
    * (kind.defaults()['e'] - here)
    for kind, sign in ((mlp.EXCITATION, 1), (mlp.INHIBITION, -1))
  )


def _open(kind: SynapseType, v: jax.Array) -> jax.Array:
  p = kind.defaults()
  return jax.nn.sigmoid((v - p['v_th']) / p['delta'])
