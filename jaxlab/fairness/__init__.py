"""Fair decisions from calibrated scores: equal PPV and FOR in every group.

    from jaxlab.fairness import decide, make_groups, optimal_sufficient

    with jax.enable_x64(True):
      gs = make_groups(scores, groups)     # scores are calibrated by group
      rule = optimal_sufficient(gs)        # the cheapest with one PPV, one FOR
    decisions = decide(jax.random.key(0), rule, gs, scores, groups)

Pure functions of arrays, but for `make_groups`, `check_groups`,
`fit_calibrator` and the estimator, which run on the host.
"""

from typing import TYPE_CHECKING, Any

from jaxlab.fairness.abstention import Abstention, abstention
from jaxlab.fairness.baselines import (
  bayes,
  equal_opportunity,
  equalized_odds,
  group_thresholds,
  single_threshold,
  statistical_parity,
)
from jaxlab.fairness.calibration import (
  CalibratorState,
  apply_calibrator,
  fit_calibrator,
)
from jaxlab.fairness.comparison import groups_of_cells, resample_cells
from jaxlab.fairness.decisions import decide, decision_probabilities
from jaxlab.fairness.geometry import (
  Region,
  feasible_region,
  for_lower,
  group_boundary,
  require_feasible,
)
from jaxlab.fairness.grouping import check_groups, make_groups
from jaxlab.fairness.instances import random_groups
from jaxlab.fairness.metrics import (
  GroupMetrics,
  group_metrics,
  largest_gap,
  rule_metrics,
  rule_solution,
)
from jaxlab.fairness.predictive_parity import (
  predictive_parity_for,
  predictive_parity_ppv,
)
from jaxlab.fairness.realize import realize
from jaxlab.fairness.relaxed import calibrated_eq_odds, soft_sufficiency
from jaxlab.fairness.reliability import (
  Reliability,
  Robustness,
  calibration_in_the_large,
  check_calibration,
  expected_calibration_error,
  observed_rates,
  rate_robustness,
  reliability_table,
)
from jaxlab.fairness.separation import min_separation, pareto_front
from jaxlab.fairness.solution import separation_gaps
from jaxlab.fairness.sufficiency import optimal_sufficient
from jaxlab.fairness.trace import Trace, trace_boundary, trace_optimum
from jaxlab.fairness.types import (
  INFEASIBLE,
  OK,
  TRIVIAL,
  Boundary,
  GroupScores,
  InfeasibleError,
  Solution,
)

if TYPE_CHECKING:
  from jaxlab.fairness.postprocess import SufficiencyPostProcessor

__all__ = [
  'INFEASIBLE',
  'OK',
  'TRIVIAL',
  'Abstention',
  'Boundary',
  'CalibratorState',
  'GroupMetrics',
  'GroupScores',
  'InfeasibleError',
  'Region',
  'Reliability',
  'Robustness',
  'Solution',
  'SufficiencyPostProcessor',
  'Trace',
  'abstention',
  'apply_calibrator',
  'bayes',
  'calibrated_eq_odds',
  'calibration_in_the_large',
  'check_calibration',
  'check_groups',
  'decide',
  'decision_probabilities',
  'equal_opportunity',
  'equalized_odds',
  'expected_calibration_error',
  'feasible_region',
  'fit_calibrator',
  'for_lower',
  'group_boundary',
  'group_metrics',
  'group_thresholds',
  'groups_of_cells',
  'largest_gap',
  'make_groups',
  'min_separation',
  'observed_rates',
  'optimal_sufficient',
  'pareto_front',
  'predictive_parity_for',
  'predictive_parity_ppv',
  'random_groups',
  'rate_robustness',
  'realize',
  'reliability_table',
  'require_feasible',
  'resample_cells',
  'rule_metrics',
  'rule_solution',
  'separation_gaps',
  'single_threshold',
  'soft_sufficiency',
  'statistical_parity',
  'trace_boundary',
  'trace_optimum',
]


def __getattr__(name: str) -> Any:
  """Imports the estimator on first use: scikit-learn takes seconds."""
  if name != 'SufficiencyPostProcessor':
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
  from jaxlab.fairness import postprocess  # noqa: PLC0415

  return postprocess.SufficiencyPostProcessor
