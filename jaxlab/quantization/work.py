"""What the parts of a quantization share."""

import dataclasses
import functools
from typing import Any

import jax

from jaxlab.quantization import network
from jaxlab.quantization.methods import PTQMethod
from jaxlab.quantization.network import Plan


@dataclasses.dataclass(frozen=True)
class Work:
  """A quantization on its way.

  Attributes:
    plan: blocks and sites.
    params: of each block.
    recipe: the method.
    calib: `[n, ...]` inputs.
    floats: what each block gives for them in float; the last are logits.
    audit: inputs that serve the report only, or None.
    key: of everything random.
  """

  plan: Plan
  params: tuple[Any, ...]
  recipe: PTQMethod
  calib: jax.Array
  floats: list[jax.Array]
  audit: jax.Array | None
  key: jax.Array

  def key_of(self, *numbers: int) -> jax.Array:
    """A key for one purpose."""
    key = self.key
    for number in numbers:
      key = jax.random.fold_in(key, number)
    return key

  @functools.cached_property
  def audited(self) -> tuple[jax.Array, jax.Array] | None:
    """The audit's inputs with their float logits."""
    if self.audit is None:
      return None
    logits = network.outputs(self.plan, self.params, self.audit)[-1]
    return self.audit, logits
