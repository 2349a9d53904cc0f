"""Are the gradients of runs right?"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab import data, dendrites
from jaxlab.data.neurons import RECONSTRUCTIONS
from jaxlab.dendrites import channels, dense, plots
from jaxlab.harness import evidence
from jaxlab.harness.claims import Claim
from jaxlab.harness.progress import Progress
from jaxlab.harness.settings import (
  check,
  check_names,
  check_positive,
  check_seeds,
  key_of,
)

_SOURCE = 'HelioX (ICML 2026), abstract: custom gradients of the tree solve'
_DUE = 0.5
_KINDS = {
  'g_Na': ('channels', 'HH', 'g_na'),
  'g_K': ('channels', 'HH', 'g_k'),
  'radius': ('geometry', '0', 'radius'),
  'Ra': ('geometry', '0', 'Ra'),
  'synaptic weight': ('synapses', 'Exp2Syn', 'weight'),
}


def run(config, workdir) -> None:
  """Compares gradients with differences and with generic autodiff."""
  check_seeds(config)
  check_positive(config, 'steps', 'dt', 'max_len', 'differences')
  check_names({'cell': (config.cell,)}, 'cell', RECONSTRUCTIONS)
  check(
    config,
    'steps',
    config.steps * config.dt > _DUE,
    f'long enough for the synapses at {_DUE} ms',
  )
  found = {}
  with Progress('gradients', len(_KINDS) + 1) as progress:
    for kind in _KINDS:
      unit = functools.partial(_differences, config, kind)
      found[kind] = workdir.cached(kind.replace(' ', '-'), unit)
      progress.advance()
    generic = workdir.cached('generic', functools.partial(_generic, config))
    progress.advance()
  _record(config, workdir, found, generic)


@functools.cache
def _network(name: str, max_len: float) -> dendrites.Network:
  if name == 'stick':
    morph = dendrites.from_cylinders(
      [('soma', 20.0, 20.0, None), ('dend', 300.0, 2.0, ('soma', 1.0))]
    )
  else:
    morph = dendrites.parse_swc(data.load('neurons', name).swc)
  tree = dendrites.discretize(morph, max_len=max_len)
  cell = dendrites.cell(tree, [('all', channels.HH)])
  kind = dendrites.Exp2Syn(tau1=0.3, tau2=2.0, e=0.0)
  far = int(np.argmax(tree.distance))
  return dendrites.network(
    cell,
    [
      dendrites.synapse(kind, node, 2e-3, due=[_DUE])
      for node in (far, tree.n // 2)
    ],
  )


def _loss(config, net, params):
  """How far the soma is from -50 mV, through an action potential."""
  state = dendrites.init_state(net, params)
  clamp = dendrites.current_clamp(0, 0.3, 1.0, config.amplitude)
  recording, _ = dendrites.simulate(
    net, params, state, [clamp], dt=config.dt, steps=config.steps
  )
  return jnp.mean((recording.v + 50.0) ** 2) / 100


def _leaf(params, path):
  return functools.reduce(lambda tree, name: tree[name], path, params)


def _moved(params, path, leaf):
  head, *rest = path
  if not rest:
    return {**params, head: leaf}
  return {**params, head: _moved(params[head], rest, leaf)}


def _differences(config, kind: str) -> dict:
  """Relative errors of directional derivatives, one for each seed."""
  path = _KINDS[kind]
  with jax.enable_x64(True):
    net = _network(config.cell, config.max_len)
    params = dendrites.init_params(net)
    loss = functools.partial(_loss, config, net)
    gradient = _leaf(jax.jit(jax.grad(loss))(params), path)
    start = _leaf(params, path)

    @jax.jit
    def along(direction, step):
      return loss(_moved(params, path, start + step * direction))

    errors, ours = [], []
    for seed in range(config.seeds):
      key = key_of(config.seed, kind, seed)
      direction = start * jax.random.uniform(key, start.shape, minval=0.2)
      value = float(jnp.vdot(gradient, direction))
      tried = []
      for h in config.differences:
        near, far = (
          float(along(direction, s * h) - along(direction, -s * h))
          for s in (1, 2)
        )
        tried.append(abs((8 * near - far) / (12 * h) - value))
      errors.append(min(tried) / abs(value))
      ours.append(value)
  return {'error': np.array(errors), 'value': np.array(ours)}


def _generic(config) -> dict:
  """Largest difference to generic autodiff of dense steps, by seed."""
  with jax.enable_x64(True):
    net = _network('stick', config.max_len)
    params = dendrites.init_params(net)

    def differences(amplitude):
      clamp = dendrites.current_clamp(0, 0.3, 1.0, amplitude)

      def ours(params):
        state = dendrites.init_state(net, params)
        recording, _ = dendrites.simulate(
          net, params, state, [clamp], dt=config.dt, steps=config.steps
        )
        return jnp.mean(recording.v[1:] ** 2)

      def plain(params):
        v = dense.simulate(
          net,
          params,
          -65.0,
          [(0, 0.3, 1.0, amplitude)],
          config.steps,
          config.dt,
        )
        return jnp.mean(v[:, 0] ** 2)

      a, b = jax.grad(ours)(params), jax.grad(plain)(params)
      scales = jax.tree.map(
        lambda x, y: jnp.max(jnp.abs(x - y)) / (jnp.max(jnp.abs(y)) + 1e-12),
        a,
        b,
      )
      return jnp.max(jnp.stack(jax.tree.leaves(scales)))

    compare = jax.jit(differences)
    amplitudes = np.linspace(0.3, 1.2, config.seeds)
    return {'error': np.array([float(compare(a)) for a in amplitudes])}


def _record(config, workdir, found, generic) -> None:
  rows = [
    {
      'parameter': kind,
      'largest relative error': float(f['error'].max()),
      'median relative error': float(np.median(f['error'])),
      'smallest derivative': float(np.abs(f['value']).min()),
    }
    for kind, f in found.items()
  ]
  workdir.save_table(
    'differences',
    rows,
    f'{config.seeds} random directions a parameter; {config.steps} steps of '
    f'{config.dt:g} ms on {config.cell}, float64; fourth-order central '
    'differences, the best of several steps.',
  )
  workdir.save_figure(
    'errors',
    plots.slopes(
      np.arange(1, config.seeds + 1),
      {kind: np.sort(f['error']) for kind, f in found.items()},
      xlabel='direction, sorted',
      ylabel='relative error',
    ),
    'Relative error of the gradient against central differences.',
  )
  workdir.add_claim(
    Claim.all_of(
      'Gradients equal central differences to 1e-5, for every parameter',
      _SOURCE,
      [
        evidence.mean_claim(
          kind,
          np.log10(f['error']),
          threshold=-5.0,
          sense='<',
          unit='log10',
          source=_SOURCE,
        )
        for kind, f in found.items()
      ],
    )
  )
  workdir.add_claim(
    evidence.mean_claim(
      'Gradients equal generic autodiff of dense steps to 1e-9',
      np.log10(generic['error']),
      threshold=-9.0,
      sense='<',
      unit='log10',
      source=_SOURCE,
    )
  )
  worst = max(float(f['error'].max()) for f in found.values())
  workdir.headline('largest relative error of a gradient', worst)
