"""What a method of post-training quantization consists of."""

import dataclasses
from collections.abc import Mapping

from jaxlab import errors
from jaxlab.quantization.dfsc import Hyper
from jaxlab.quantization.fit import UNIFORM, Rule

TRANSFORMS = ('none', 'smooth', 'hadamard', 'range', 'har')
TOKEN_SCALES = ('dynamic', 'static', 'none')
LEARN = ('none', 'layer', 'block')
LOSSES = (
  *('mse', 'channel', 'sample', 'diag', 'brecq', 'aphq', 'fima', 'select'),
)


@dataclasses.dataclass(frozen=True)
class PTQMethod:
  """A recipe; static and hashable. `dataclasses.replace` makes ablations.

  Attributes:
    name: in tables.
    rule: how grids are fitted.
    transform: of the inputs of sites, one of `TRANSFORMS`: 'smooth' is
      SmoothQuant's diagonal, 'hadamard' a rotation everywhere, 'range' a
      scale and shift that give channels one range, 'har' chooses.
    score: how 'har' chooses, 'kl' or 'ell'.
    token_scale: how tokens of dense layers get steps of their own: 'dynamic',
      where 'har' may divide each by its size; 'static', a fixed step and offset
      for each position of `[B, T, C]`, as in PTQ4VM (arXiv:2412.20386); 'none'.
    learn: what is reconstructed: nothing, layers or blocks.
    loss: what the error of a block costs, one of `LOSSES`.
    ridge: weight of the plain squared error beside a Fisher loss.
    refreshes: how often the Fisher form is built anew while a block learns.
    path: whether it is then that of the path, 2/3 float and 1/3 rounded.
    probes: r, Rademacher probes of a factor.
    exact_max_classes: up to so many classes, factors are exact.
    hyper: of the loop, as pairs; see `Hyper`.
    acts_after: activations are rounded, and their steps learned, only after
      the weights.
    comp_rank: rank of the compensation after a block is learned.
    steps: T.
    batch: examples an update.
  """

  name: str
  rule: Rule = dataclasses.field(default_factory=Rule)
  transform: str = 'none'
  score: str = 'kl'
  token_scale: str = 'dynamic'
  learn: str = 'none'
  loss: str = 'mse'
  ridge: float = 0.3
  refreshes: int = 0
  path: bool = True
  probes: int = 6
  exact_max_classes: int = 16
  hyper: tuple[tuple[str, float], ...] = ()
  acts_after: bool = False
  comp_rank: int = 0
  steps: int = 2000
  batch: int = 32

  def __post_init__(self):
    for field, known in (
      ('transform', TRANSFORMS),
      ('token_scale', TOKEN_SCALES),
      ('learn', LEARN),
      ('loss', LOSSES),
      ('score', ('kl', 'ell')),
    ):
      if getattr(self, field) not in known:
        raise errors.UserError(
          f'{field} = {getattr(self, field)!r}: choose one of '
          f'{", ".join(known)}.'
        )
    if self.token_scale == 'static' and self.rule.acts not in UNIFORM:
      raise errors.UserError(
        f"token_scale = 'static' goes with uniform steps of activations, not "
        f'with rule.acts = {self.rule.acts!r}; take one of '
        f'{", ".join(UNIFORM)}.'
      )
    for field in ('steps', 'batch', 'probes'):
      if getattr(self, field) < 1:
        raise errors.UserError(
          f'{field} = {getattr(self, field)}: give a positive number.'
        )
    unknown = [name for name, _ in self.hyper if name not in Hyper._fields]
    if unknown:
      raise errors.UserError(
        f'hyper names {unknown[0]!r}; choose from {", ".join(Hyper._fields)}.'
      )
    if self.comp_rank < 0 or self.refreshes < 0:
      raise errors.UserError('comp_rank and refreshes must not be negative.')

  @property
  def rates(self) -> Hyper:
    """The settings of the loop."""
    return Hyper()._replace(**dict(self.hyper))


def with_hyper(method: PTQMethod, **changed: float) -> PTQMethod:
  """The method with other rates."""
  return dataclasses.replace(
    method, hyper=tuple(sorted((dict(method.hyper) | changed).items()))
  )


def resolve(
  method: str | PTQMethod, known: Mapping[str, PTQMethod]
) -> PTQMethod:
  """The method of a name.

  Raises:
    UserError: if there is none.
  """
  if isinstance(method, PTQMethod):
    return method
  if method not in known:
    raise errors.UserError(
      f'method = {method!r} is unknown; choose one of {", ".join(known)}.'
    )
  return known[method]
