"""Certified robustness: bounds, verification, training, and Pareto fronts.

    from jaxlab.certified import input_box, margin_matrix, pgd, verify
    from jaxlab.certified import alpha_crown                # or ibp, crown_ibp

    box = input_box(x, eps)                          # x [B, ...] in [0, 1]
    rows = margin_matrix(labels, 10)
    margins = alpha_crown(net, params, box, rows)    # net(params, x) -> [B, 10]
    proved = (margins.lower > 0).all(-1)             # for all inputs of the box
    attacked = pgd(net, params, x, labels, eps, key)           # the other side
    verdict = verify(net, params, x[0], labels[0], eps)        # the truth

A network is any pure function of affine operations, ReLU and max pooling, flax
modules among them. `learner_parts` trains populations by the methods of
`LOSSES`, and `front` compares them. `bounds.crown` is not repeated here, for a
module has its name.
"""

from jaxlab.certified.attacks import pgd, random_corners
from jaxlab.certified.bounds import (
  Interval,
  alpha_crown,
  crown_ibp,
  ibp,
  input_box,
  margin_matrix,
)
from jaxlab.certified.branch_and_bound import (
  Limits,
  Verdict,
  minimum_margin,
  verify,
)
from jaxlab.certified.cascade import Evaluation, evaluate
from jaxlab.certified.lanes import (
  Parts,
  deployed,
  knobs,
  learner_parts,
  sequential,
)
from jaxlab.certified.losses import LOSSES, Method
from jaxlab.certified.networks import (
  Layer,
  Network,
  cnn7,
  fold,
  mlp,
  small_cnn,
  with_clean_statistics,
)
from jaxlab.certified.pareto import (
  Complementarity,
  attainment,
  complementarity,
  epsilon_indicator,
  front,
  hypervolume,
)
from jaxlab.certified.search_space import (
  Knob,
  Published,
  hyper,
  published,
  space,
)

__all__ = [
  'LOSSES',
  'Complementarity',
  'Evaluation',
  'Interval',
  'Knob',
  'Layer',
  'Limits',
  'Method',
  'Network',
  'Parts',
  'Published',
  'Verdict',
  'alpha_crown',
  'attainment',
  'cnn7',
  'complementarity',
  'crown_ibp',
  'deployed',
  'epsilon_indicator',
  'evaluate',
  'fold',
  'front',
  'hyper',
  'hypervolume',
  'ibp',
  'input_box',
  'knobs',
  'learner_parts',
  'margin_matrix',
  'minimum_margin',
  'mlp',
  'pgd',
  'published',
  'random_corners',
  'sequential',
  'small_cnn',
  'space',
  'verify',
  'with_clean_statistics',
]
