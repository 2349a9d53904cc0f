"""Ion channels as pure functions: Hodgkin-Huxley, cortex, C. elegans.

    from jaxlab.dendrites import channels

    hh = channels.HH(g_na=0.1)                   # other defaults
    p, ion = hh.defaults(), channels.Ion(celsius=6.3)
    state = hh.init(v, p, ion)                   # at its steady state
    state = hh.update(state, v, 0.025, p, ion)   # exact for constant v
    G, GE = hh.current(state, v, p, ion)         # I = G v - GE, mA/cm2
    hh.steady(v, p, ion)['m']                    # (steady state, tau)

`hay`, `pospischil` and `celegans` are sets; `hh.parameters` and `hh.source`
say where each number comes from. `channel_from_rates` makes your own.
"""

from jaxlab.dendrites.channels import (
  celegans,
  celegans_calcium,
  hay,
  hh,
  passive,
  pospischil,
  rates,
)
from jaxlab.dendrites.channels.celegans import (
  cca1,
  egl2,
  egl19,
  egl36,
  irk,
  kqt3,
  kvs1,
  nca,
  shk1,
  shl1,
  unc2,
)
from jaxlab.dendrites.channels.celegans_calcium import (
  cainternm,
  kcnl,
  slo1_egl19,
  slo1_unc2,
  slo2_egl19,
  slo2_unc2,
)
from jaxlab.dendrites.channels.custom import (
  channel_from_rates,
  channel_from_steady_states,
)
from jaxlab.dendrites.channels.hay import (
  SK_E2,
  Ca_HVA,
  Ca_LVA,
  CaDynamics_E2,
  Ih,
  Im,
  K_Pst,
  K_Tst,
  Kv3_1,
  Nap,
  NaTg,
  SKv3_1,
)
from jaxlab.dendrites.channels.hh import HH
from jaxlab.dendrites.channels.passive import Leak
from jaxlab.dendrites.channels.pools import calcium_pool, calcium_reversal
from jaxlab.dendrites.channels.pospischil import CaL, CaT, K, Km, Na
from jaxlab.dendrites.channels.rates import boltzmann, exponential_step, vtrap
from jaxlab.dendrites.channels.types import Channel, Ion, Parameter

CELEGANS = (
  shl1,
  shk1,
  kvs1,
  egl2,
  egl36,
  kqt3,
  egl19,
  unc2,
  cca1,
  slo1_egl19,
  slo1_unc2,
  slo2_egl19,
  slo2_unc2,
  kcnl,
  nca,
  irk,
  cainternm,
)
HAY = (
  NaTg,
  Nap,
  K_Pst,
  K_Tst,
  SKv3_1,
  Kv3_1,
  SK_E2,
  Im,
  Ih,
  Ca_HVA,
  Ca_LVA,
  CaDynamics_E2,
)
POSPISCHIL = (Na, K, Km, CaL, CaT, pospischil.Leak)
