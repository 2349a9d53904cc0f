"""What a trained network is worth, by the whole cascade of verifiers."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxlab.certified import branch_and_bound, cascade
from jaxlab.certified.experiment_problem import Split
from jaxlab.certified.networks import Network
from jaxlab.harness.settings import key_of

_BOUNDS = ('ibp', 'crown_ibp', 'alpha_crown')
STAGES = (*_BOUNDS, 'branch and bound')


class Measure:
  """The measures of one radius on one set of pictures."""

  def __init__(self, config, network: Network, split: Split, eps: float):
    """Computes nothing yet."""
    self._config, self._network = config, network
    self._split, self._eps = split, eps

  def quick(self, params: Any) -> cascade.Evaluation:
    """By bounds and a short attack, for a search.

    Raises:
      RuntimeError: if an attack breaks what a bound certifies.
    """
    config = self._config
    return self._evaluate(params, config.attack_steps, restarts=1)

  def whole(self, params: Any) -> dict[str, np.ndarray]:
    """By a strong attack and all stages.

    Args:
      params: deployed parameters, or None for a training that diverged, which
        counts as wrong on every picture.

    Returns:
      `[n]` of bool each: `natural`, the stages, `survives` the attack, and
      `open`, neither broken nor certified.

    Raises:
      RuntimeError: if an attack breaks what a bound certifies.
    """
    if params is None:
      names = ('natural', *STAGES, 'survives', 'open')
      return {name: np.zeros(len(self._split.y), bool) for name in names}
    config = self._config
    found = self._evaluate(params, config.pgd_steps, config.pgd_restarts)
    certified, survives = found.proved.copy(), found.attacked.copy()
    left = np.flatnonzero(survives & ~certified)
    for i in left[: config.complete]:
      verdict = branch_and_bound.verify(
        self._network.apply,
        params,
        jnp.asarray(self._split.x[i]),
        int(self._split.y[i]),
        self._eps,
        limits=branch_and_bound.Limits(nodes=config.nodes),
      )
      certified[i] = verdict.status == 'verified'
      survives[i] = verdict.status != 'falsified'
    return {
      'natural': found.natural,
      **found.certified,
      STAGES[-1]: certified,
      'survives': survives,
      'open': survives & ~certified,
    }

  def _evaluate(self, params, steps, restarts) -> cascade.Evaluation:
    found = cascade.evaluate(
      self._network,
      params,
      self._split.x,
      self._split.y,
      self._eps,
      key_of(self._config.seed, 'attack'),
      stages=_BOUNDS,
      intermediate='crown' if self._config.network == 'mlp' else 'ibp',
      batch_size=self._config.evaluated_at_once,
      steps=steps,
      restarts=restarts,
    )
    if found.violations:
      raise RuntimeError(
        f'an attack breaks {found.violations} pictures that a bound certifies: '
        'a bound is wrong; please report this.'
      )
    return found
