"""Rows of text from files of JSON; damage is reported by file and line."""

import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jaxlab import errors

_CURE = 'take the file again from its source'


class Row(NamedTuple):
  """One object of a file.

  Attributes:
    place: the file and line, for messages.
    values: the object.
  """

  place: str
  values: dict[str, Any]

  def text(self, *names: str) -> str:
    """Returns a text or whole number as text, by the first name there is.

    Raises:
      UserError: if there is none, or it is something else.
    """
    name = next((name for name in names if name in self.values), None)
    if name is None:
      raise self.failure(f'no {" or ".join(map(repr, names))}')
    value = self.values[name]
    if isinstance(value, bool) or not isinstance(value, str | int):
      raise self.failure(f'{name!r} is {json.dumps(value)[:40]}, not a text')
    return str(value)

  def failure(self, what: str) -> errors.UserError:
    """Returns the error that the row is damaged."""
    return errors.UserError(f'{self.place}: {what}; {_CURE}.')


def read_lines(path: pathlib.Path) -> list[Row]:
  """Reads a file with one object a line; blank lines are none.

  Raises:
    UserError: if a line is no JSON object, or the file has no rows.
  """
  lines = enumerate(_text(path).split('\n'), 1)
  found = [
    _row(f'{path}, line {number}', line)
    for number, line in lines
    if line.strip()
  ]
  return _some(path, found)


def read_array(path: pathlib.Path) -> list[Row]:
  """Reads a file that is one list of objects.

  Raises:
    UserError: if it is something else, or has no rows.
  """
  content = _decode(str(path), _text(path))
  if not isinstance(content, list):
    raise errors.UserError(f'{path} is not a JSON list; {_CURE}.')
  return _some(path, list(_objects(path, content)))


def read_object(path: pathlib.Path) -> Row:
  """Reads a file that is one object.

  Raises:
    UserError: if it is something else.
  """
  return _row(str(path), _text(path))


def _objects(path: pathlib.Path, content: Sequence[Any]) -> Iterator[Row]:
  for number, values in enumerate(content, 1):
    if not isinstance(values, dict):
      raise errors.UserError(f'{path}, item {number} is no object; {_CURE}.')
    yield Row(f'{path}, item {number}', values)


def _row(place: str, text: str) -> Row:
  values = _decode(place, text)
  if not isinstance(values, dict):
    raise errors.UserError(f'{place}: not a JSON object; {_CURE}.')
  return Row(place, values)


def _decode(place: str, text: str) -> Any:
  try:
    return json.loads(text)
  except (ValueError, RecursionError) as error:
    reason = str(error).splitlines()[0]
    raise errors.UserError(f'{place}: not JSON ({reason}); {_CURE}.') from error


def _text(path: pathlib.Path) -> str:
  try:
    return path.read_text(encoding='utf-8-sig')
  except OSError as error:
    raise errors.UserError(
      f'{path}: {error.strerror}; make it a readable file.'
    ) from error
  except UnicodeDecodeError as error:
    raise errors.UserError(
      f'{path} is not UTF-8 ({error}); {_CURE}.'
    ) from error


def _some(path: pathlib.Path, rows: list[Row]) -> list[Row]:
  if not rows:
    raise errors.UserError(f'{path} has no rows; {_CURE}.')
  return rows
