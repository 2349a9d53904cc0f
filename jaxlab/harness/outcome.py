"""What a finished run says in the terminal."""

from collections.abc import Mapping
from typing import Any

import rich.console
import rich.markup
import rich.table


def print_outcome(summary: Mapping[str, Any]) -> None:
  """Prints headline numbers and the claims ledger of a finished run.

  Args:
    summary: what `summary.json` holds.
  """
  console = rich.console.Console()
  claims = rich.table.Table(title='claims', title_justify='left')
  for title in ('claim', 'measured [interval]', 'asked', 'verdict'):
    claims.add_column(title, overflow='fold')
  for claim in summary['claims']:
    claims.add_row(
      rich.markup.escape(claim['text']),
      _interval(claim['measured'], claim['low'], claim['high'], claim['unit']),
      f'{claim["sense"]} {_number(claim["threshold"])}',
      claim['verdict'],
    )
  if summary['claims']:
    console.print(claims)
  for entry in summary['headline']:
    text = _interval(entry['value'], entry['low'], entry['high'], entry['unit'])
    console.print(f'{rich.markup.escape(entry["name"])}: {text}')


def _interval(
  value: float | None, low: float | None, high: float | None, unit: str
) -> str:
  text = _number(value)
  if (low, high) != (None, None):
    text = f'{text} [{_number(low)}, {_number(high)}]'
  return rich.markup.escape(f'{text} {unit}'.rstrip())


def _number(value: float | None) -> str:
  return '?' if value is None else f'{value:.4g}'
