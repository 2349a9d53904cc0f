"""How the experiments of the family turn numbers into rows and claims."""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxlab.harness import evidence
from jaxlab.harness.evidence import LEVEL, share_interval, with_interval
from jaxlab.harness.settings import (
  check,
  check_names,
  check_positive,
  check_seeds,
  key_of,
)
from jaxlab.motifs import measures

__all__ = (
  'LEVEL',
  'PAPER',
  'check',
  'check_names',
  'check_positive',
  'check_seeds',
  'key_of',
  'mean_claim',
  'network_facts',
  'share_claim',
  'share_interval',
  'with_interval',
)

PAPER = (
  '"Functional building blocks of neural networks: from network motifs to '
  'collective dynamics" (ICML 2026), abstract'
)
mean_claim = functools.partial(evidence.mean_claim, source=PAPER)
share_claim = functools.partial(evidence.share_claim, source=PAPER)


def network_facts(A: Any, W: Any) -> dict[str, float]:
  """What arms of a comparison must share, of `[N, N]` A and W."""
  W = jnp.asarray(W)
  used = int(np.count_nonzero(W))
  return {
    'edges': int(np.count_nonzero(A)),
    'weights': used,
    'weight rms': float(jnp.sqrt(jnp.sum(W**2) / max(used, 1))),
    'spectral radius': float(measures.spectral_radius(W)),
  }
