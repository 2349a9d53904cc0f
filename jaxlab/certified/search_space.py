"""What is searched for each method, and the settings of its authors."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jaxlab.certified import lanes
from jaxlab.errors import UserError


class Knob(NamedTuple):
  """A range that is searched.

  Attributes:
    name: of the knob.
    low: least value.
    high: largest value.
    log: whether values are drawn uniformly on a logarithmic scale.
  """

  name: str
  low: float
  high: float
  log: bool = False


_L1 = Knob('l1', 1e-8, 1e-4, log=True)
SHARED = (
  Knob('learning_rate', 1e-4, 1e-2, log=True),
  _L1,
  Knob('warmup', 0.0, 0.1),
  Knob('ramp', 0.1, 0.8),
  Knob('eps_ratio', 1.0, 1.5),
  Knob('regularizer', 0.0, 1.0),
)

_KAPPAS = (Knob('kappa_start', 0.0, 1.0), Knob('kappa_end', 0.0, 1.0))
_LAMBDA = Knob('lambda', 0.02, 1.0, log=True)
_ALPHA = (
  Knob('alpha', 1e-3, 1.0, log=True),
  Knob('attack_scale', 0.5, 2.5),
)
_TAPS = Knob('taps_weight', 0.5, 10.0, log=True)

TRADE_OFFS: dict[str, tuple[Knob, ...]] = {
  'standard': (),
  'pgd': (),
  'ibp': _KAPPAS,
  'crown_ibp': (*_KAPPAS, Knob('beta_end', 0.0, 1.0)),
  'sabr': (_LAMBDA,),
  'mtl_ibp': _ALPHA,
  'cc_ibp': _ALPHA,
  'exp_ibp': _ALPHA,
  'taps': (_TAPS,),
  'staps': (_LAMBDA, _TAPS),
}


class Published(NamedTuple):
  """A setting that the authors of a method or of a comparison have chosen.

  Attributes:
    source: who, where.
    values: of all knobs.
  """

  source: str
  values: dict[str, float]


_GOWAL = 'Gowal et al., ICCV 2019'
_ZHANG = 'Zhang et al., ICLR 2020, configurations of the authors'
_SHI = 'Shi et al., NeurIPS 2021, configurations of the authors'
_MUELLER = 'Mueller et al., ICLR 2023, commands of the authors'
_DE_PALMA = 'De Palma et al., ICLR 2024, commands of the authors'
_CTBENCH = 'Mao et al., ICML 2025 (CTBench), commands of the authors'

# Method, source, values of the knobs in the order of `space(method)`. SABR's
# authors also shrink boxes behind ReLUs at radius 2/255.
_Row = tuple[str, str, tuple[float, ...]]
_PUBLISHED: dict[str, tuple[_Row, ...]] = {
  'mnist_0.1': (
    ('ibp', _GOWAL, (1e-3, 0, 2 / 60, 10 / 60, 2, 0, 1, 0.5)),
    ('crown_ibp', _ZHANG, (1e-3, 0, 0.03, 0.18, 2, 0, 1, 0.5, 0)),
    ('sabr', _MUELLER, (5e-4, 1e-5, 2 / 70, 20 / 70, 1, 0.5, 0.4)),
    ('mtl_ibp', _DE_PALMA, (5e-4, 1e-5, 1 / 70, 20 / 70, 2, 0.5, 0.01, 1)),
    ('cc_ibp', _DE_PALMA, (5e-4, 2e-6, 1 / 70, 20 / 70, 2, 0.5, 0.1, 1)),
  ),
  'mnist_0.3': (
    ('ibp', _CTBENCH, (5e-4, 2e-6, 0, 20 / 70, 1, 0.5, 0.3, 0.3)),
    ('crown_ibp', _ZHANG, (5e-4, 0, 0.05, 51 / 200, 4 / 3, 0, 1, 0.5, 0)),
    ('sabr', _CTBENCH, (5e-4, 2e-6, 0, 20 / 70, 1, 0.5, 0.9)),
    ('mtl_ibp', _CTBENCH, (5e-4, 1e-6, 0, 20 / 70, 1, 0.5, 0.5, 1)),
    ('cc_ibp', _DE_PALMA, (5e-4, 3e-6, 1 / 70, 20 / 70, 1.334, 0.5, 0.3, 1)),
    ('taps', _CTBENCH, (5e-4, 0, 0, 20 / 70, 4 / 3, 0.5, 4)),
    ('staps', _CTBENCH, (5e-4, 1e-5, 0, 20 / 70, 1, 0.5, 0.6, 4)),
  ),
  'cifar10_2': (
    ('ibp', _CTBENCH, (5e-4, 1e-6, 1 / 160, 80 / 160, 1, 0.5, 0.2, 0.2)),
    ('crown_ibp', _ZHANG, (5e-4, 0, 0.1, 0.5, 1.1, 0, 0, 0, 1)),
    ('sabr', _MUELLER, (5e-4, 1e-6, 2 / 160, 80 / 160, 1, 0.5, 0.1)),
    ('mtl_ibp', _DE_PALMA, (5e-4, 3e-6, 2 / 160, 0.5, 1, 0.5, 4e-3, 2.1)),
    ('cc_ibp', _DE_PALMA, (5e-4, 3e-6, 2 / 160, 0.5, 1, 0.5, 0.01, 2.1)),
    ('exp_ibp', _DE_PALMA, (5e-4, 4e-6, 2 / 160, 0.5, 1, 0.5, 0.095, 2.1)),
  ),
  'cifar10_8': (
    ('ibp', _SHI, (5e-4, 0, 2 / 160, 80 / 160, 1, 0.5, 0, 0)),
    ('crown_ibp', _ZHANG, (5e-4, 0, 0.1, 0.5, 1.1, 0, 0, 0, 0)),
    ('sabr', _CTBENCH, (5e-4, 0, 1 / 240, 120 / 240, 1, 0.5, 0.9)),
    ('mtl_ibp', _CTBENCH, (5e-4, 0, 1 / 240, 120 / 240, 1, 0.5, 0.6, 1)),
    ('cc_ibp', _DE_PALMA, (5e-4, 0, 2 / 260, 80 / 260, 1, 0.5, 0.5, 1)),
    ('exp_ibp', _DE_PALMA, (5e-4, 0, 2 / 260, 80 / 260, 1, 0.5, 0.5, 1)),
    ('staps', _CTBENCH, (5e-4, 0, 1 / 240, 120 / 240, 1, 0.5, 0.9, 2)),
  ),
}
# Nobody has published settings for the 8x8 digits: those of MNIST at the same
# radius are transferred.
_SAME = {'digits': 'mnist_0.1'}


def published(method: str, benchmark: str) -> dict[str, Published]:
  """Settings of a method's authors or of a comparison.

  Args:
    method: a name in `losses.LOSSES`.
    benchmark: `'mnist_0.1'`, `'mnist_0.3'`, `'cifar10_2'`, `'cifar10_8'`
      (radii in 1/255) or `'digits'`.

  Returns:
    `{'published': setting}`, or nothing where none is known.

  Raises:
    UserError: for an unknown method or benchmark.
  """
  names = [knob.name for knob in (*SHARED, *_trade_off(method))]
  known = _PUBLISHED | {new: _PUBLISHED[old] for new, old in _SAME.items()}
  if benchmark not in known:
    raise UserError(
      f'benchmark {benchmark!r} is unknown: use one of {sorted(known)}.'
    )
  found = {}
  for name, source, values in known[benchmark]:
    if name == method:
      setting = dict(zip(names, map(float, values), strict=True))
      # A weight of 0 has no logarithm: the least of the range stands for it.
      setting['l1'] = max(setting['l1'], _L1.low)
      found['published'] = Published(source, setting)
  return found


def space(method: str, benchmark: str | None = None) -> tuple[Knob, ...]:
  """Knobs that are searched for a method: the shared ones and its own.

  Args:
    method: a name in `losses.LOSSES`.
    benchmark: whose published settings the ranges must contain; a range is
      widened where they do not.

  Raises:
    UserError: for an unknown method or benchmark.
  """
  ranges = (*SHARED, *_trade_off(method))
  if benchmark is None:
    return ranges
  settings = [found.values for found in published(method, benchmark).values()]
  return tuple(_widened(knob, settings) for knob in ranges)


def hyper(
  method: str, values: Mapping[str, float], eps_test: float
) -> dict[str, float]:
  """Turns a point of the space into what `lanes` trains with.

  The radius of training is `eps_ratio * eps_test`; kappa never rises; beta
  starts at 1.

  Args:
    method: a name in `losses.LOSSES`.
    values: of all knobs of `space(method)`.
    eps_test: radius that is certified.

  Returns:
    A value for each of `lanes.knobs(method)`.

  Raises:
    UserError: if a knob is missing or superfluous.
  """
  names = {knob.name for knob in space(method)}
  wrong = names ^ set(values)
  if wrong:
    raise UserError(
      f'knobs {sorted(wrong)} are missing or unknown: {method} takes '
      f'{sorted(names)}.'
    )
  full = {**values, 'eps_train': values['eps_ratio'] * eps_test}
  if 'kappa_end' in full:
    full['kappa_end'] = min(full['kappa_start'], full['kappa_end'])
  full['beta_start'] = 1.0
  return {name: float(full[name]) for name in lanes.knobs(method)}


def check(ranges: Sequence[Knob], values: Mapping[str, float]) -> None:
  """Raises UserError for a bad range, or a value outside of its range."""
  for knob in ranges:
    if not knob.low < knob.high or (knob.log and knob.low <= 0):
      raise UserError(
        f'knob {knob.name} has the range [{knob.low:g}, {knob.high:g}]: it '
        'must rise, from above 0 where it is logarithmic.'
      )
    value = values.get(knob.name, knob.low)
    if not knob.low <= value <= knob.high:
      raise UserError(
        f'knob {knob.name} is {value:g}, outside its range '
        f'[{knob.low:g}, {knob.high:g}].'
      )


def _trade_off(method: str) -> tuple[Knob, ...]:
  if method not in TRADE_OFFS:
    raise UserError(
      f'method {method!r} is unknown: use one of {sorted(TRADE_OFFS)}.'
    )
  return TRADE_OFFS[method]


def _widened(knob: Knob, settings: Sequence[Mapping[str, float]]) -> Knob:
  values = [float(setting[knob.name]) for setting in settings]
  low, high = min([knob.low, *values]), max([knob.high, *values])
  return knob._replace(low=low, high=high)
