"""Final answers in a box, as LaTeX marks them."""

_BOX = r'\boxed{'


def last_boxed(text: str) -> str | None:
  r"""Returns what the last `\boxed{...}` of a text holds.

  Returns:
    None if there is no box, or the last one is empty or not closed.
  """
  start = text.rfind(_BOX)
  if start < 0:
    return None
  start += len(_BOX)
  depth, place = 1, start
  while place < len(text):
    sign = text[place]
    if sign == '\\':
      place += 1  # \{ and \} are signs of a set, not groups
    depth += (sign == '{') - (sign == '}')
    if depth == 0:
      return text[start:place].strip() or None
    place += 1
  return None
