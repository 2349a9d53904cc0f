"""The passive leak."""

from jaxlab.dendrites.channels.types import (
  Channel,
  conductance,
  ohmic,
  voltage,
)

_SOURCE = "NEURON's mechanism pas"


def _none(*_):
  return {}


Leak = Channel(
  name='Leak',
  parameters=(
    conductance(1e-3, _SOURCE, high=0.1),
    voltage('e', -70.0, _SOURCE),
  ),
  states=(),
  init=_none,
  update=_none,
  current=lambda state, v, p, ion: ohmic(p['g'], p['e'], v),
  steady=_none,
  source=_SOURCE,
)
