"""What a quantization reports: plain numbers."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.quantization import export, network
from jaxlab.quantization.types import Site

_NAN = float('nan')


@dataclasses.dataclass(frozen=True)
class SiteReport:
  """A site.

  Attributes:
    kind: 'dense', 'conv' or 'operand'.
    w_bits: of weights; 0 for operands.
    a_bits: of activations.
    weights: number of weights.
    transform: name of the chosen transform.
    losses: by candidate.
    audit: losses of the identity and of the chosen one on inputs used neither
      to fit nor to choose.
    sharpness: of the input's second moment before and after, largest over
      mean eigenvalue.
    mixing: its off-diagonal energy before and after, as a share.
    online_adds: additions for a token that the transform costs at run time;
      shifts and scales are part of the rounding and cost nothing.
  """

  kind: str
  w_bits: int
  a_bits: int
  weights: int
  transform: str = 'identity'
  losses: dict[str, float] = dataclasses.field(default_factory=dict)
  audit: tuple[float, float] = (_NAN, _NAN)
  sharpness: tuple[float, float] = (_NAN, _NAN)
  mixing: tuple[float, float] = (_NAN, _NAN)
  online_adds: int = 0

  @classmethod
  def of(cls, site: Site) -> 'SiteReport':
    """The report before anything is chosen."""
    linear = site.linear
    return cls(
      site.kind,
      site.w_bits if linear else 0,
      site.a_bits,
      site.rows * site.columns if linear else 0,
    )

  def with_choice(self, choice: Any, site: Site) -> 'SiteReport':
    """The report with the `har.Choice` of a site."""
    name = choice.names[choice.chosen]
    adds = network.hadamard_adds(site) if 'Hadamard' in name else 0
    adds += 3 * site.channels if 'per token' in name else 0
    return dataclasses.replace(
      self,
      transform=name,
      losses=dict(zip(choice.names, choice.losses, strict=True)),
      audit=choice.audit,
      sharpness=choice.sharpness,
      mixing=choice.mixing,
      online_adds=adds,
    )


@dataclasses.dataclass(frozen=True)
class BlockReport:
  """A block.

  Attributes:
    error_before: squared error of its output, relative, before learning.
    error_after: the same afterwards.
    loss: name of what was learned.
    ridge: its weight of the plain squared error.
    losses: `[T]` of each update.
    change: relative change of the objective at each refresh.
    diverged: whether it was left as it started.
  """

  error_before: float
  error_after: float = _NAN
  loss: str = ''
  ridge: float = _NAN
  losses: tuple[float, ...] = ()
  change: tuple[float, ...] = ()
  diverged: bool = False

  def with_history(
    self, history: Any, loss: str, ridge: float = _NAN
  ) -> 'BlockReport':
    """The report with what happened while it learned."""
    if history is None:
      return self
    return dataclasses.replace(
      self,
      loss=loss,
      ridge=ridge,
      losses=tuple(np.asarray(history.losses).tolist()),
      change=tuple(np.asarray(history.change).tolist()),
      diverged=bool(history.diverged),
    )


@dataclasses.dataclass(frozen=True)
class PTQReport:
  """What a quantization did.

  Attributes:
    method: its name.
    sites: by the number of the block and the name of the site.
    blocks: in order.
    bytes: stored, by what they are for; `total` is the sum.
    float_bytes: of the float network.
    bits_per_weight: codes, scales, zero points and compensation of the sites
      with the fewest bits, over their weights.
    kl_calibration: mean KL divergence of the output on the inputs given.
    kl_audit: on further inputs; NaN without them.
    notes: what a person should know.
  """

  method: str
  sites: dict[str, SiteReport]
  blocks: list[BlockReport]
  bytes: dict[str, int]
  float_bytes: int
  bits_per_weight: float
  kl_calibration: float
  kl_audit: float
  notes: list[str]

  @classmethod
  def of(
    cls, method, model, params, site_reports, blocks, kls, notes
  ) -> 'PTQReport':
    """Puts a report together."""
    return cls(
      method,
      site_reports,
      blocks,
      export.stored_bytes(model),
      sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(params)),
      bits_per_weight(model),
      kls[0],
      kls[1],
      notes,
    )

  def as_dict(self) -> dict[str, Any]:
    """Plain dictionaries, lists and numbers, as JSON has them."""
    return dataclasses.asdict(self)


def bits_per_weight(model: export.QuantModel) -> float:
  """True bits of a weight at the sites of the fewest bits."""
  fewest = min(
    s.w_bits for group in model.plan.sites for s in group if s.linear
  )
  bits = count = 0
  for group, packed in zip(model.plan.sites, model.sites, strict=True):
    for site in group:
      if site.linear and site.w_bits == fewest:
        state = packed[site.name]
        w = state.weights
        kept = (w.scale, w.zero, w.levels, state.first, state.second)
        bits += site.rows * site.columns * state.weights.bits
        bits += 8 * sum(
          x.size * jnp.dtype(x.dtype).itemsize for x in jax.tree.leaves(kept)
        )
        count += site.rows * site.columns
  return bits / count
