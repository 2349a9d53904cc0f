"""What the paper claims, from errors of rules on the same examinees."""

from collections.abc import Iterator, Sequence

from jaxlab.adaptive_testing import experiment_rules as rules
from jaxlab.adaptive_testing.experiment_compare import Comparison
from jaxlab.harness.claims import Claim

PAPER = 'Gradient Path Matching (ICML 2026), abstract'
BEST = 'the best rule without learning'
SAVED = 0.2  # what the paper claims
WORSE = 0.03  # by how much an error may exceed that of MFI


def references(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
  """What rules are compared with: each one, and the best without learning."""
  found: dict[str, tuple[str, ...]] = {
    name: (name,) for name in names if name != rules.ORACLE
  }
  unlearned = tuple(name for name in names if rules.is_unlearned(name))
  if unlearned:
    found[BEST] = unlearned
  return found


def of_rules(config, compared: Comparison) -> Iterator[Claim]:
  """The claims for which the rules are there."""
  names, lengths = compared.names, config.lengths
  yield Claim.all_of(
    f'The error of every rule falls from {lengths[0]} to {lengths[-1]} items',
    PAPER,
    [
      compared.fall(name, lengths[0], lengths[-1]).claim(
        name, PAPER, 0.0, '<', 'relative change'
      )
      for name in names
    ],
  )
  for name in ('mfi', rules.GPM):
    if name in names and 'random' in names:
      yield lower(compared, name, 'random', lengths)
  if rules.GPM not in names:
    return
  yield from _savings(config, compared)
  if 'mfi' in names:
    late = [length for length in lengths if length >= 10]
    if late:
      yield lower(compared, rules.GPM, 'mfi', late)
    yield lower(
      compared,
      rules.GPM,
      'mfi',
      lengths,
      WORSE,
      f'The error of GPM is not above that of MFI by more than {WORSE:.0%}',
    )
  if rules.FULL_SPACE in names:
    yield lower(
      compared,
      rules.GPM,
      rules.FULL_SPACE,
      lengths,
      text='Matching on paths has a lower error than matching in the whole '
      'space, at the same cost of training',
    )
  middle = [length for length in lengths if length == 10] or lengths[-1:]
  for rival in ('becat_full', 'becat_point'):
    for name in (rules.GPM, rules.FULL_SPACE):
      if rival in names and name in names:
        yield lower(compared, name, rival, middle)


def of_truth(config, compared: Comparison) -> Iterator[Claim]:
  """The claim on errors against true abilities."""
  if rules.GPM in compared.names and 'mfi' in compared.names:
    yield lower(
      *(compared, rules.GPM, 'mfi', config.lengths, WORSE),
      'Against true abilities the error of GPM is not above that of MFI by '
      f'more than {WORSE:.0%}',
    )


def lower(
  compared: Comparison,
  new: str,
  reference: str,
  lengths: Sequence[int],
  threshold: float = 0.0,
  text: str = '',
) -> Claim:
  """That a rule has a lower error than another one at some lengths."""
  change = compared.change(new, reference)
  text = text or f'{new} has a lower error than {reference}'
  listed = ', '.join(map(str, lengths))
  return Claim.all_of(
    f'{text}: relative change at T = {listed}',
    PAPER,
    [
      change[length - 1].claim(
        f'T = {length}', PAPER, threshold, '<', 'relative change'
      )
      for length in lengths
    ],
  )


def _savings(config, compared: Comparison) -> Iterator[Claim]:
  known = references(compared.names)
  wanted = [
    (BEST, 0.0, 'needs fewer questions than the best rule without learning'),
    (BEST, SAVED, 'needs 20 % fewer questions than the best such rule'),
    (
      *(rules.FULL_SPACE, SAVED),
      'needs 20 % fewer questions than its network matched in the whole space',
    ),
    ('random', SAVED, 'needs 20 % fewer questions than random choice'),
    ('becat_full', SAVED, 'needs 20 % fewer questions than BECAT'),
    (
      *('newton_match', SAVED),
      'needs 20 % fewer questions than closed-form matching in the whole space',
    ),
  ]
  for label, threshold, text in wanted:
    if label not in known:
      continue
    found = compared.saved(rules.GPM, known[label], config.lengths)[-1]
    yield found.claim(
      f'GPM {text}',
      f'{PAPER}: "on average 20 % fewer"' if threshold else PAPER,
      threshold,
      '>',
      'share of questions',
      f'mean over T = {", ".join(map(str, config.lengths))}',
    )
