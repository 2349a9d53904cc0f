"""Are runs those of NEURON, and do they converge as their method should?"""

import functools

import jax
import numpy as np

from jaxlab import data, dendrites
from jaxlab.dendrites import channels, plots, rival
from jaxlab.harness import evidence
from jaxlab.harness.claims import Claim
from jaxlab.harness.progress import Progress
from jaxlab.harness.settings import (
  check,
  check_positive,
  check_seeds,
  key_of,
)

_SOURCE = 'NEURON 9 (Hines and Carnevale); HelioX (ICML 2026), abstract'
_STICK = (('soma', 20.0, 20.0, None), ('dend', 400.0, 2.0, ('soma', 1.0)))
_PASSIVE = {'g': 1e-4, 'e': -65.0}


def run(config, workdir) -> None:
  """Compares random drives of three cells, then halves the step."""
  check_seeds(config)
  check_positive(config, 't_max', 'dt', 'max_len', 'order_time', 'order_dts')
  steps = list(config.order_dts)
  falling = len(steps) > 1 and steps == sorted(set(steps), reverse=True)
  check(config, 'order_dts', falling, 'two or more steps, the longest first')
  check(
    config,
    'order_time',
    config.order_time >= 2 * steps[0],
    'at least two of the longest order_dts',
  )
  check(config, 't_max', config.t_max >= 4 * config.dt, 'at least 4 dt')
  cells = ('ball_and_stick', 'branched', 'ca1')
  found, orders = {}, {}
  with Progress('runs beside NEURON', 2 * len(cells) + 2) as progress:
    for name in cells:
      for secondorder in (0, 2):
        found[name, secondorder] = workdir.cached(
          f'{name}-{secondorder}',
          functools.partial(_compare, config, name, secondorder),
        )
        progress.advance()
    for secondorder in (0, 2):
      orders[secondorder] = workdir.cached(
        f'order-{secondorder}', functools.partial(_order, config, secondorder)
      )
      progress.advance()
  _record(config, workdir, found, orders)


def _morphology(name: str):
  if name == 'ball_and_stick':
    return dendrites.from_cylinders(_STICK)
  file = {'branched': 'morph_3_types', 'ca1': 'morph_ca1_n120'}[name]
  morph = dendrites.parse_swc(
    data.load('neurons', file.removeprefix('morph_')).swc
  )
  # NEURON keeps points in float32.
  return morph._replace(
    sections=tuple(
      s._replace(points=s.points.astype(np.float32).astype(np.float64))
      for s in morph.sections
    )
  )


def _placed(name: str):
  """Channels for us, and the same for NEURON."""
  if name == 'ball_and_stick':
    leak = channels.Leak(**_PASSIVE)
    ours = [('soma', channels.HH), ('basal', leak)]
    return ours, {'soma': {'hh': {}}, 'basal': {'pas': _PASSIVE}}
  return [('all', channels.HH)], {'all': {'hh': {}}}


def _drive(config, name: str, seed: int, morph) -> rival.Drive:
  """A clamp in the soma and synapses at two places, which are a cell's own."""
  where = np.asarray(jax.random.uniform(key_of(config.seed, name), (2, 2)))
  key = key_of(config.seed, name, seed)
  when = np.asarray(jax.random.uniform(key, (3, 2)), float)
  names = [s.name for s in morph.sections]
  root = next(s.name for s in morph.sections if s.parent < 0)
  half = config.t_max / 2
  size = 0.5 if len(names) < 3 else 1.0
  clamp = (root, 0.5, when[0, 0], half, size * (0.5 + when[0, 1]))
  synapses = tuple(
    (
      names[int(place * len(names))],
      float(x),
      *(0.3, 2.0, 0.0, 2e-3),
      (half * early, half * (1 + 0.8 * late)),
    )
    for (place, x), (early, late) in zip(where, when[1:], strict=True)
  )
  return rival.Drive((clamp,), synapses)


def _ours(tree, placed, drive, record, steps, dt, secondorder):
  cell = dendrites.cell(tree, placed)
  net = dendrites.network(
    cell,
    [
      dendrites.synapse(
        dendrites.Exp2Syn(tau1=tau1, tau2=tau2, e=e),
        cell.node(section, x),
        weight,
      )
      for section, x, tau1, tau2, e, weight, _ in drive.synapses
    ],
  )
  params = dendrites.init_params(net)
  stimuli: list[dendrites.Stimulus] = [
    dendrites.current_clamp(cell.node(section, x), delay, duration, amplitude)
    for section, x, delay, duration, amplitude in drive.clamps
  ]
  if drive.synapses:
    due = [times for *_, times in drive.synapses]
    stimuli.append(dendrites.Events(dendrites.arrivals(due, steps, dt)))
  recording, _ = dendrites.simulate(
    net,
    params,
    dendrites.init_state(net, params),
    stimuli,
    dt=dt,
    steps=steps,
    record=[cell.node(section, x) for section, x in record],
    secondorder=secondorder,
  )
  return np.asarray(recording.v[..., 0])


def _compare(config, name: str, secondorder: int) -> dict:
  """Largest difference and spike times for each seed; the traces of one."""
  h = rival.neuron()
  morph = _morphology(name)
  tree = dendrites.discretize(morph, max_len=config.max_len)
  ours, theirs = _placed(name)
  sections = rival.build(h, morph, tree, theirs)
  steps = round(config.t_max / config.dt)
  root = next(s.name for s in morph.sections if s.parent < 0)
  record = [(root, 0.5), (morph.sections[-1].name, 0.9)]
  worst, same, spikes = [], [], []
  for seed in range(config.seeds):
    drive = _drive(config, name, seed, morph)
    reference = rival.run(
      h, sections, drive, record, steps, config.dt, secondorder=secondorder
    )
    with jax.enable_x64(True):
      found = _ours(tree, ours, drive, record, steps, config.dt, secondorder)
    worst.append(np.abs(found - reference).max())
    fired = [
      np.flatnonzero(np.diff((v[:, 0] >= 0).astype(int)) > 0)
      for v in (found, reference)
    ]
    spikes.append(len(fired[1]))
    same.append(np.array_equal(fired[0], fired[1]))
  return {
    'worst': np.array(worst),
    'same': np.array(same),
    'spikes': np.array(spikes),
    'ours': found,
    'neuron': reference,
  }


def _order(config, secondorder: int) -> dict:
  """Slopes of the error over the step, one for each seed."""
  morph = _morphology('ball_and_stick')
  tree = dendrites.discretize(morph, max_len=config.max_len)
  placed, _ = _placed('ball_and_stick')
  finest = min(config.order_dts) / 32
  slopes, errors = [], []
  for seed in range(config.seeds):
    numbers = jax.random.uniform(key_of(config.seed, 'order', seed), (2,))
    # A constant current: what jumps within a step has no second order.
    clamp = ('soma', 0.5, -1.0, 1e9, 0.02 + 0.1 * float(numbers[0]))
    drive = rival.Drive((clamp,))

    def sampled(dt, order, drive=drive):
      steps = round(config.order_time / dt)
      record = [('soma', 0.5)]
      v = _ours(tree, placed, drive, record, steps, dt, order)
      return v[:: round(max(config.order_dts) / dt), 0]

    with jax.enable_x64(True):
      exact = sampled(finest, 2)
      row = [
        np.abs(sampled(dt, secondorder) - exact).max()
        for dt in config.order_dts
      ]
    errors.append(row)
    slopes.append(np.polyfit(np.log(config.order_dts), np.log(row), 1)[0])
  return {'slopes': np.array(slopes), 'errors': np.array(errors)}


def _record(config, workdir, found, orders) -> None:
  rows = [
    {
      'cell': name,
      'method': 'Crank-Nicolson' if secondorder else 'implicit Euler',
      'largest difference (mV)': float(f['worst'].max()),
      'spikes': int(f['spikes'].sum()),
      'runs with equal spike times': int(f['same'].sum()),
      'runs': len(f['same']),
    }
    for (name, secondorder), f in found.items()
  ]
  workdir.save_table(
    'differences',
    rows,
    f'{config.seeds} random drives a cell, {config.t_max:g} ms at '
    f'dt {config.dt:g} ms, float64; NEURON with exact rates.',
  )
  t = np.arange(len(found['ca1', 0]['ours'])) * config.dt
  shown = {'ours': 'ours', 'NEURON': 'neuron'}
  workdir.save_figure(
    'traces',
    plots.traces(
      t, {label: found['ca1', 0][key][:, 0] for label, key in shown.items()}
    ),
    'Soma of the reconstructed CA1 cell under the last drive: two lines that '
    'lie on each other.',
  )
  errors = {
    'implicit Euler': orders[0]['errors'].mean(axis=0),
    'Crank-Nicolson': orders[2]['errors'].mean(axis=0),
  }
  workdir.save_figure(
    'orders',
    plots.slopes(
      np.asarray(config.order_dts),
      errors,
      xlabel='dt (ms)',
      ylabel='error (mV)',
    ),
    'Largest error over the samples against the step, to a run with a step '
    '32 times finer.',
  )
  _claims(workdir, found, orders)


def _claims(workdir, found, orders) -> None:
  differences = [
    evidence.mean_claim(
      f'{name}, {"CN" if secondorder else "Euler"}: voltages are those of '
      'NEURON to 1e-6 mV',
      np.log10(f['worst']),
      threshold=-6.0,
      sense='<',
      unit='log10 mV',
      source=_SOURCE,
    )
    for (name, secondorder), f in found.items()
  ]
  workdir.add_claim(
    Claim.all_of(
      'Voltages are those of NEURON to 1e-6 mV on three cells, both methods',
      _SOURCE,
      differences,
    )
  )
  same = np.concatenate([f['same'] for f in found.values()])
  workdir.add_claim(
    evidence.share_claim(
      'Spikes fall into the same steps as in NEURON',
      same,
      threshold=0.8,
      sense='>',
      source=_SOURCE,
    )
  )
  for secondorder, text, bar in (
    (0, 'Implicit Euler converges with order 1', 0.9),
    (2, 'Crank-Nicolson converges with order 2', 1.8),
  ):
    workdir.add_claim(
      evidence.mean_claim(
        text,
        orders[secondorder]['slopes'],
        threshold=bar,
        sense='>',
        unit='order',
        source='numerical analysis',
      )
    )
  workdir.headline(
    'largest difference to NEURON',
    float(max(f['worst'].max() for f in found.values())),
    unit='mV',
  )
