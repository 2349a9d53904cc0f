"""The experiments of the family: `configs/certified/*.py`."""

from jaxlab.certified import experiment_problem as problems
from jaxlab.certified import experiment_report as report
from jaxlab.certified.experiment_front import members
from jaxlab.certified.experiment_search import search


def run(config, workdir) -> None:
  """Searches the front of each method and compares the fronts."""
  problems.check_config(config)
  problem = problems.load(config)
  for eps in config.eps:
    trials = {
      method: search(problem, config, workdir, method, eps)
      for method in config.methods
    }
    fronts = {
      method: members(problem, config, workdir, method, eps, found)
      for method, found in trials.items()
    }
    report.record(workdir, config, eps, trials, fronts)
