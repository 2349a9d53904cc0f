"""Numbers, intervals and claims of a report as text and as small plots."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, TypeGuard

MISSING = '\N{EN DASH}'
MINUS = '\N{MINUS SIGN}'

_PLOT_WIDTH, _PLOT_MARGIN = 240.0, 12.0


@dataclasses.dataclass(frozen=True)
class IntervalPlot:
  """Horizontal pixel positions of one claim's interval and its threshold."""

  measured: float
  low: float
  high: float
  threshold: float | None
  region: tuple[float, float] | None
  anchor: str


def format_number(value: Any, decimals: int | None = None) -> str:
  """Formats a number for reading; what is missing or NaN becomes a dash.

  Args:
    value: a number, or anything else, which is shown as its text.
    decimals: digits after the point; None shows four significant digits.

  Returns:
    The text, with thousands separators and a true minus sign.
  """
  if value is None or value == '' or _is_nan(value):
    return MISSING
  if isinstance(value, bool) or not isinstance(value, int | float):
    return str(value)
  if isinstance(value, float) and math.isinf(value):
    text = '∞' if value > 0 else '-∞'
  elif decimals is not None:
    text = f'{value:,.{decimals}f}'
  elif isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
    text = f'{int(value):,}'
  elif 1e-4 <= abs(value) < 1e6:
    text = f'{float(f"{value:.4g}"):,}'.removesuffix('.0')
  else:
    text = f'{value:.3g}'
  return text.replace('-', MINUS)


def format_measured(entry: Mapping[str, Any], key: str = 'measured') -> str:
  """Formats `entry[key]` with as many digits as its interval supports."""
  return _with_unit(format_number(entry.get(key), _decimals(entry)), entry)


def format_interval(entry: Mapping[str, Any]) -> str:
  """Formats `[low, high]`; a dash when neither end is known."""
  decimals = _decimals(entry)
  ends = [format_number(entry.get(key), decimals) for key in ('low', 'high')]
  return MISSING if ends == [MISSING] * 2 else f'[{ends[0]}, {ends[1]}]'


def format_goal(claim: Mapping[str, Any]) -> str:
  """Formats the side of the threshold on which the claim holds."""
  if not _is_finite(claim.get('threshold')):
    return MISSING
  threshold = _with_unit(format_number(claim['threshold']), claim)
  return f'{claim.get("sense") or ""} {threshold}'.strip()


def format_duration(seconds: Any) -> str:
  """Formats a wall time in seconds as `9.4 s`, `2 min 05 s` or `1 h 02 min`."""
  if not _is_finite(seconds):
    return MISSING
  if seconds < 59.95:
    return f'{seconds:.1f} s'
  minutes, rest = divmod(round(seconds), 60)
  if minutes < 60:
    return f'{minutes} min {rest:02d} s'
  return f'{minutes // 60} h {minutes % 60:02d} min'


def interval_plot(claim: Mapping[str, Any]) -> IntervalPlot | None:
  """Places a claim's interval and threshold on one horizontal axis.

  Args:
    claim: an entry of the ledger; ends that are missing or infinite are drawn
      at the measured value and at the border.

  Returns:
    Positions in pixels, or None without a measured value.
  """
  measured, threshold = claim.get('measured'), claim.get('threshold')
  if not _is_finite(measured):
    return None
  low, high = (
    measured if end is None or _is_nan(end) else end
    for end in (claim.get('low'), claim.get('high'))
  )
  points = [x for x in (measured, low, high, threshold) if _is_finite(x)]
  start, span = min(points), max(points) - min(points)
  if not span:
    span = abs(start) or 1.0
    start -= span / 2
  start, span = start - 0.15 * span, 1.3 * span

  def place(value: float) -> float:
    share = min(max((value - start) / span, 0.0), 1.0)
    return round(_PLOT_MARGIN + share * (_PLOT_WIDTH - 2 * _PLOT_MARGIN), 1)

  line = place(threshold) if _is_finite(threshold) else None
  region, anchor = None, 'middle'
  if line is not None:
    upward = str(claim.get('sense')).startswith('>')
    downward = str(claim.get('sense')).startswith('<')
    if upward or downward:
      region = (line, _PLOT_WIDTH) if upward else (0.0, line)
    anchor = 'start' if line < 80 else 'end' if line > 160 else 'middle'
  return IntervalPlot(
    place(measured),
    place(low),
    place(high),
    line,
    region,
    anchor,
  )


def _with_unit(text: str, entry: Mapping[str, Any]) -> str:
  unit = entry.get('unit')
  if not unit or text == MISSING:
    return text
  return f'{text}\N{NO-BREAK SPACE}{unit}'


def _is_nan(value: Any) -> bool:
  return isinstance(value, float) and math.isnan(value)


def _is_finite(value: Any) -> TypeGuard[float]:
  is_number = isinstance(value, int | float) and not isinstance(value, bool)
  return is_number and math.isfinite(value)


def _decimals(entry: Mapping[str, Any]) -> int | None:
  """Digits after the point that show two digits of the interval's width."""
  low, high = entry.get('low'), entry.get('high')
  if not (_is_finite(low) and _is_finite(high)) or high <= low:
    return None
  decimals = max(1 - math.floor(math.log10(high - low)), 0)
  return decimals if decimals <= 6 else None
