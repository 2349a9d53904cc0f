"""Fair decisions from calibrated scores: equal PPV and FOR in every group.

    from jaxlab.fairness import decide, make_groups, optimal_sufficient

    gs = make_groups(scores, groups)       # scores are calibrated by group
    rule = optimal_sufficient(gs)          # the cheapest with one PPV, one FOR
    decisions = decide(jax.random.key(0), rule, gs, scores, groups)

Everything but `make_groups` is a pure function of arrays.
"""

from jaxlab.fairness.decisions import decide, decision_probabilities
from jaxlab.fairness.geometry import (
  Region,
  feasible_region,
  for_lower,
  group_boundary,
  require_feasible,
)
from jaxlab.fairness.grouping import make_groups
from jaxlab.fairness.realize import realize
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

__all__ = [
  'INFEASIBLE',
  'OK',
  'TRIVIAL',
  'Boundary',
  'GroupScores',
  'InfeasibleError',
  'Region',
  'Solution',
  'Trace',
  'decide',
  'decision_probabilities',
  'feasible_region',
  'for_lower',
  'group_boundary',
  'make_groups',
  'min_separation',
  'optimal_sufficient',
  'pareto_front',
  'realize',
  'require_feasible',
  'separation_gaps',
  'trace_boundary',
  'trace_optimum',
]
