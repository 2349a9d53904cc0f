"""What the functions of this family take and return."""

from typing import NamedTuple

import jax

from jaxlab.errors import UserError

OK = 0  # values of `Solution.status` and `Region.status`
INFEASIBLE = 1
TRIVIAL = 2


class InfeasibleError(UserError):
  """No decision rule gives every group the same PPV and the same FOR."""


class GroupScores(NamedTuple):
  """The distribution of a calibrated score in each of K groups.

  Calibrated means `P(Y=1 | S=s, A=a) = s`. Leading axes are instances. Nothing
  is checked where groups are used: `make_groups` makes them well formed,
  `check_groups` says what is wrong with those made by hand.

  Attributes:
    scores: `[..., K, m]` float: the distinct scores of each group, falling;
      padding repeats the last one.
    mass: `[..., K, m]` float: `P(S=s | A=a)`; padding has mass 0, rows sum
      to 1.
    weight: `[..., K]` float: `P(A=a)`, sums to 1.
    n_atoms: `[..., K]` int32: number of real scores.
  """

  scores: jax.Array
  mass: jax.Array
  weight: jax.Array
  n_atoms: jax.Array


class Boundary(NamedTuple):
  """The upper edge of what one group can reach, `P(R=1)` to `P(R=1, Y=1)`.

  Vertex k takes the k highest scores. Leading axes are groups.

  Attributes:
    M: `[..., m+1]` float: `P(R=1)` at the vertices, from 0 to 1.
    N: `[..., m+1]` float: `P(R=1, Y=1)`, from 0 to the base rate.
    P: `[..., m+1]` float: PPV `N / M`, falling; the highest score at vertex 0.
    c: `[..., m]` float: intercept of each edge on the line through it, >= 0;
      the slope is the score.
    pi: `[...]` float: base rate `P(Y=1)`.
  """

  M: jax.Array
  N: jax.Array
  P: jax.Array
  c: jax.Array
  pi: jax.Array


class Solution(NamedTuple):
  """A decision rule and what it does.

  Attributes:
    ppv: `P(Y=1 | R=1)`: a scalar where all groups share it, else `[K]`; nan
      where nobody is positive.
    for_: false omission rate `P(Y=1 | R=0)`: likewise.
    loss: scalar `cost_fp P(R=1, Y=0) + cost_fn P(R=0, Y=1)`.
    tpr_gap: scalar: the largest difference of `P(R=1 | Y=1)` between groups.
    fpr_gap: scalar: the largest difference of `P(R=1 | Y=0)`.
    selection_rate: `[K]` float `P(R=1 | A=a)`.
    rho: `[K, m]` float in [0, 1]: the rule `P(R=1 | S, A)`.
    active_group: int32: the group whose boundary the solution lies on; -1
      where there is none.
    status: int32: `OK`, `INFEASIBLE` (all numbers are nan) or `TRIVIAL` (the
      feasible set is a single point).
    degenerate: bool: some group is all positive or all negative, so that one
      of its rates is only a limit.
  """

  ppv: jax.Array
  for_: jax.Array
  loss: jax.Array
  tpr_gap: jax.Array
  fpr_gap: jax.Array
  selection_rate: jax.Array
  rho: jax.Array
  active_group: jax.Array
  status: jax.Array
  degenerate: jax.Array
