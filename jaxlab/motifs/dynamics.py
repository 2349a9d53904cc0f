"""The dynamics of a motif, in one place: what a user of them needs.

`models` has the equations and integrators, `systems` those with known spectra,
`stability` what the cycles of a motif allow, `lyapunov`, `fixed_points` and
`regimes` what a simulation shows.
"""

from jaxlab.motifs.fixed_points import FixedPoints, fixed_points
from jaxlab.motifs.lyapunov import (
  LyapunovSpectrum,
  decided_sign,
  lyapunov_spectrum,
)
from jaxlab.motifs.models import (
  ACTIVATIONS,
  MotifParams,
  flow,
  integrate,
  jacobian,
  map_step,
)
from jaxlab.motifs.regimes import (
  REGIMES,
  Regime,
  RegimeConfig,
  classify_regime,
  regime_shares,
)
from jaxlab.motifs.stability import (
  STATES,
  OriginStability,
  cycle_products,
  is_monotone,
  layer_effective,
  margins,
  origin_stability,
)

__all__ = [
  'ACTIVATIONS',
  'REGIMES',
  'STATES',
  'FixedPoints',
  'LyapunovSpectrum',
  'MotifParams',
  'OriginStability',
  'Regime',
  'RegimeConfig',
  'classify_regime',
  'cycle_products',
  'decided_sign',
  'fixed_points',
  'flow',
  'integrate',
  'is_monotone',
  'jacobian',
  'layer_effective',
  'lyapunov_spectrum',
  'map_step',
  'margins',
  'origin_stability',
  'regime_shares',
]
