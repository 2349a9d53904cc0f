"""Checks of the golden cases about channels; run under x64."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.dendrites import channels


def _curves(channel, case):
  """{column of the case: values} of a channel at the case's voltages."""
  v = jnp.asarray(case['v'], float)
  ion = channels.Ion(celsius=case.get('celsius', 6.3))
  found = {}
  steady = channel.steady(v, channel.defaults(), ion)
  for gate, (inf, tau) in steady.items():
    kind = {'hf': '_fast', 'hs': '_slow'}.get(gate, '')
    column = 'h' if kind else gate
    found[f'{column}inf'] = np.broadcast_to(inf, v.shape)
    found[f'{column}tau{kind}'] = np.broadcast_to(tau, v.shape)
  return found


def _compare(channel, case):
  found = _curves(channel, case)
  columns = {name for name in case if 'inf' in name or 'tau' in name}
  assert columns and columns <= found.keys()
  for name in columns:
    np.testing.assert_allclose(
      found[name], case[name], rtol=case['rtol'], err_msg=name
    )


def case_hh_rates(case):
  """Steady states and time constants, and gradients at the singularities."""
  _compare(channels.HH, case)

  def total(v):
    steady = channels.HH.steady(v, {}, channels.Ion(celsius=case['celsius']))
    return sum(inf + tau for inf, tau in steady.values())

  slopes = jax.vmap(jax.grad(total))(jnp.asarray([-40.0, -55.0]))
  assert np.isfinite(slopes).all()
  step = 1e-4
  for v, slope in zip([-40.0, -55.0], slopes, strict=True):
    expected = (total(v + step) - total(v - step)) / (2 * step)
    np.testing.assert_allclose(slope, expected, rtol=1e-6)


def case_channel_curves(case):
  """Steady states and time constants of a channel of the worm."""
  _compare(getattr(channels, case['channel']), case)
