"""Solves linear systems whose graph is a tree, as steps of neurons are."""

from kernels_pallas.tree_solver.api import (
  IMPLEMENTATIONS,
  tree_factor_solve,
  tree_resolve,
  tree_solve,
  tree_solve_linear,
)
from kernels_pallas.tree_solver.lowering import backends, lower_for
from kernels_pallas.tree_solver.schedule import (
  ScheduleError,
  TreeSchedule,
  best_k,
  make_schedule,
  schedule_stats,
  steps_lower_bound,
)
from kernels_pallas.tree_solver.types import Pivots
