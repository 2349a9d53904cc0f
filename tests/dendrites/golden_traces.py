"""Runs golden cases of the kind `voltage_trace`."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab import dendrites
from jaxlab.dendrites import channels

_CHANNELS = {'hh': channels.HH, 'pas': channels.Leak}
_SYNAPSES = {'ExpSyn': dendrites.ExpSyn, 'Exp2Syn': dendrites.Exp2Syn}


def case_voltage_trace(case: dict, data: Path) -> None:
  """Compares every recorded trace in both precisions."""
  for wide, limit in ((True, 'atol_f64'), (False, 'atol_f32')):
    if limit in case:
      with jax.enable_x64(wide):
        found = _traces(case, data)
      for ours, theirs in zip(found, case['traces'], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=case[limit])


def _traces(case, data):
  cell = _cell(case, data)
  synapses = [
    dendrites.synapse(
      _SYNAPSES[s['type']](
        **{k: s[k] for k in ('tau', 'tau1', 'tau2', 'e') if k in s}
      ),
      cell.node(s['section'], s['x']),
      s['weight'],
      due=s['due'],
    )
    for s in case.get('synapses', [])
  ]
  net = dendrites.network(cell, synapses)
  params = dendrites.init_params(net)
  state = dendrites.init_state(net, params, case['v_init'])
  clamps = [
    dendrites.current_clamp(
      cell.node(c['section'], c['x']), c['delay'], c['dur'], c['amp']
    )
    for c in case.get('stimuli', [])
  ]
  every = case['samples_every_steps']
  steps = (len(case['traces'][0]) - 1) * every
  recording, _ = dendrites.simulate(
    net,
    params,
    state,
    clamps,
    dt=case['dt'],
    steps=steps,
    record=[cell.node(section, x) for section, x in case['record']],
    every=every,
    secondorder=case['secondorder'],
  )
  return np.asarray(jnp.moveaxis(recording.v[..., 0], 0, 1))


def _cell(case, data):
  given = case['cell']
  if 'file' in given:
    morph = dendrites.read_swc(data / given['file'])
    tree = dendrites.discretize(morph, max_len=given['max_len'], Ra=given['Ra'])
    placed = [('all', _channel(k, p)) for k, p in given['channels'].items()]
  else:
    sections = given['sections']
    parts = [
      (s['name'], s['L'], s['diam'], s['parent'] and tuple(s['parent']))
      for s in sections
    ]
    tree = dendrites.discretize(
      dendrites.from_cylinders(parts),
      nseg={s['name']: s['nseg'] for s in sections},
      Ra=given['Ra'],
    )
    placed = [
      (s['name'], _channel(k, p))
      for s in sections
      for k, p in s['channels'].items()
    ]
  return dendrites.cell(tree, placed, cm=given['cm'], celsius=case['celsius'])


def _channel(name, values):
  return _CHANNELS[name](**values)
