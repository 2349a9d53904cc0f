"""Rules that choose items, by name.

    rule = selector('mepv')
    trace = run_cat(rule, None, bank, responses, test_length=20, key=key)

`oracle_selector`, an upper bound, needs the responses and is not in the table.
"""

from collections.abc import Callable
from typing import Any

from jaxlab.adaptive_testing.selectors.becat import becat_full, becat_point
from jaxlab.adaptive_testing.selectors.bobcat import bobcat, train_bobcat
from jaxlab.adaptive_testing.selectors.classical import mfi, random
from jaxlab.adaptive_testing.selectors.full_space import newton_match
from jaxlab.adaptive_testing.selectors.kullback_leibler import kli
from jaxlab.adaptive_testing.selectors.maat import maat
from jaxlab.adaptive_testing.selectors.ncat import ncat, train_ncat
from jaxlab.adaptive_testing.selectors.oracle import oracle_selector
from jaxlab.adaptive_testing.selectors.pool import pool_reduction
from jaxlab.adaptive_testing.selectors.posterior import mepv, mpwi
from jaxlab.adaptive_testing.types import Selector
from jaxlab.errors import UserError

SELECTORS: dict[str, Callable[..., Selector]] = {
  'random': random,
  'mfi': mfi,
  'kli': kli,
  'mkli': kli,
  'mpwi': mpwi,
  'mepv': mepv,
  'maat': maat,
  'newton_match': newton_match,
  'pool_reduction': pool_reduction,
  'becat_full': becat_full,
  'becat_point': becat_point,
  'bobcat': bobcat,
  'ncat': ncat,
}

__all__ = [
  'SELECTORS',
  'becat_full',
  'becat_point',
  'bobcat',
  'kli',
  'maat',
  'mepv',
  'mfi',
  'mpwi',
  'ncat',
  'newton_match',
  'oracle_selector',
  'pool_reduction',
  'random',
  'selector',
  'train_bobcat',
  'train_ncat',
]


def selector(name: str, **options: Any) -> Selector:
  """The rule of a name; the same one each time, which jit relies on.

  Args:
    name: a key of `SELECTORS`.
    **options: of the rule, hashable.

  Raises:
    UserError: if the name is unknown.
  """
  if name not in SELECTORS:
    raise UserError(
      f'selector {name!r} is unknown: use {", ".join(SELECTORS)}; for GPM '
      'gpm_selector(config), for the oracle oracle_selector(responses).'
    )
  return SELECTORS[name](**options)
