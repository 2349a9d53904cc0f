"""Adaptive testing: item banks, abilities, and rules that choose questions.

    from jaxlab.adaptive_testing import fit_mml, run_cat, selector

    bank, info = fit_mml(responses, model='2PL')     # responses [E, n], 0 or 1
    trace = run_cat(
      selector('mfi'), None, bank, responses, test_length=20, key=key
    )
    trace.theta                                      # [T, E] after each item

`train_gpm` learns a rule from recorded tests (gradient path matching), `live`
asks one examinee, `SELECTORS` lists the rules. An ability has the shape `()`,
or `(D,)` for a bank of D dimensions.
"""

from jaxlab.adaptive_testing import live, metrics, synthetic, theory
from jaxlab.adaptive_testing.calibrate import FitInfo, fit_mml
from jaxlab.adaptive_testing.content import ContentBalance, content_balance
from jaxlab.adaptive_testing.estimate import (
  estimate_ability,
  fit_ridge,
  gd_path,
)
from jaxlab.adaptive_testing.exposure import Progressive, Randomesque
from jaxlab.adaptive_testing.gpm import (
  GPMConfig,
  gpm_selector,
  train_gpm,
)
from jaxlab.adaptive_testing.gpm_losses import gpm_loss
from jaxlab.adaptive_testing.joint import fit_mirt, fit_ncd
from jaxlab.adaptive_testing.models import (
  item_information,
  max_information_theta,
  nll,
  nll_grad,
  prob,
)
from jaxlab.adaptive_testing.paths import (
  best_subset,
  greedy_subset,
  match_value,
  path_points,
)
from jaxlab.adaptive_testing.selectors import (
  SELECTORS,
  oracle_selector,
  selector,
)
from jaxlab.adaptive_testing.selectors.itemwise import for_bank
from jaxlab.adaptive_testing.simulate import initial_state, run_cat, update
from jaxlab.adaptive_testing.stopping import AnyOf, FixedLength, StandardError
from jaxlab.adaptive_testing.sympson_hetter import SympsonHetter
from jaxlab.adaptive_testing.types import (
  Ability,
  CatState,
  CatTrace,
  ItemBank,
  NeuralBank,
  Selector,
  item_bank,
)

__all__ = [
  'SELECTORS',
  'Ability',
  'AnyOf',
  'CatState',
  'CatTrace',
  'ContentBalance',
  'FitInfo',
  'FixedLength',
  'GPMConfig',
  'ItemBank',
  'NeuralBank',
  'Progressive',
  'Randomesque',
  'Selector',
  'StandardError',
  'SympsonHetter',
  'best_subset',
  'content_balance',
  'estimate_ability',
  'fit_mirt',
  'fit_mml',
  'fit_ncd',
  'fit_ridge',
  'for_bank',
  'gd_path',
  'gpm_loss',
  'gpm_selector',
  'greedy_subset',
  'initial_state',
  'item_bank',
  'item_information',
  'live',
  'match_value',
  'max_information_theta',
  'metrics',
  'nll',
  'nll_grad',
  'oracle_selector',
  'path_points',
  'prob',
  'run_cat',
  'selector',
  'synthetic',
  'theory',
  'train_gpm',
  'update',
]
