"""Claims of a paper, each judged by the interval that was measured."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal, Self

from jaxlab.harness import files

Verdict = Literal['holds', 'fails', 'undecided']


@dataclasses.dataclass(frozen=True)
class Claim:
  """One statement of a paper against a measured interval.

  Attributes:
    text: the statement in plain words.
    paper: citation and place, such as `'Hwang & Park 2026, Fig. 2'`.
    measured: the point estimate, in `unit`.
    low: lower end of its confidence interval.
    high: upper end of its confidence interval.
    threshold: what the quantity is compared with.
    sense: `'>'` if the statement is that the quantity exceeds the threshold,
      `'<'` if it stays below.
    unit: unit of the four numbers.
    note: anything that a reader must know to judge the number.
  """

  text: str
  paper: str
  measured: float
  low: float
  high: float
  threshold: float
  sense: Literal['>', '<']
  unit: str = ''
  note: str = ''

  def __post_init__(self):
    if self.sense not in ('>', '<'):
      raise ValueError(f"sense must be '>' or '<', got {self.sense!r}.")
    for field in ('measured', 'low', 'high', 'threshold'):
      object.__setattr__(self, field, float(getattr(self, field)))
    if self.low > self.high:
      raise ValueError(
        f'low must not exceed high, got [{self.low}, {self.high}] for'
        f' {self.text!r}.'
      )

  @property
  def verdict(self) -> Verdict:
    """Whether the interval lies wholly on one side of the threshold.

    An interval that touches the threshold does not hold, for the comparison
    is strict; a NaN anywhere leaves the claim undecided.
    """
    numbers = (self.measured, self.low, self.high, self.threshold)
    if any(map(math.isnan, numbers)):
      return 'undecided'
    if self._margin > 0:
      return 'holds'
    far = self.high if self.sense == '>' else -self.low
    limit = self.threshold if self.sense == '>' else -self.threshold
    return 'fails' if far <= limit else 'undecided'

  @property
  def holds(self) -> bool:
    """Whether the whole interval lies on the claimed side."""
    return self.verdict == 'holds'

  @property
  def _margin(self) -> float:
    """Distance of the near end of the interval from the threshold."""
    if self.sense == '>':
      return self.low - self.threshold
    return self.threshold - self.high

  @classmethod
  def all_of(
    cls, text: str, paper: str, parts: Sequence['Claim'], *, note: str = ''
  ) -> Self:
    """Joins claims into one that holds only if each of them does.

    This is the intersection-union test: each part keeps its own level and no
    correction for their number is due (Berger 1982, Technometrics 24(4)).
    The numbers are those of the worst part: one that fails before one that is
    undecided before one that holds, then the smallest margin, taken relative
    to the part's threshold where that is not 0.

    Args:
      text: the joint statement.
      paper: citation and place.
      parts: the claims; their texts name them in the note.
      note: words to put before the count.

    Returns:
      The joint claim; its note counts the parts and names the worst one.

    Raises:
      ValueError: if there are no parts.
    """
    if not parts:
      raise ValueError(f'{text!r} needs at least one part.')
    worst = min(parts, key=_badness)
    count = sum(part.holds for part in parts)
    label = 'closest' if worst.holds else 'worst'
    counted = f'{count} of {len(parts)} hold; {label}: {worst.text}'
    return cls(
      text=text,
      paper=paper,
      measured=worst.measured,
      low=worst.low,
      high=worst.high,
      threshold=worst.threshold,
      sense=worst.sense,
      unit=worst.unit,
      note=' '.join(filter(None, (note, counted, worst.note))),
    )

  def to_json(self) -> dict[str, Any]:
    """Returns the fields, `holds` and `verdict`; non-finite becomes None."""
    return files.plain(
      {
        **dataclasses.asdict(self),
        'holds': self.holds,
        'verdict': self.verdict,
      }
    )


def _badness(claim: Claim) -> tuple[int, float]:
  """Sort key: the worst claim has the smallest."""
  rank = ('fails', 'undecided', 'holds').index(claim.verdict)
  margin = claim._margin / (abs(claim.threshold) or 1.0)
  return rank, -math.inf if math.isnan(margin) else margin
