"""Shows the experiments in a terminal."""

from collections.abc import Mapping

import rich.console
import rich.markup
import rich.padding
import rich.table

from jaxlab.harness import configs

# A narrower table of four columns is taller than it is readable.
_TABLE_WIDTH = 130


def show(
  entries: Mapping[str, configs.Listing], console: rich.console.Console
) -> None:
  """Prints each experiment with what it does, its time and its claims.

  Args:
    entries: by name.
    console: a wide one shows a table, another a paragraph each.
  """
  if console.width < _TABLE_WIDTH:
    for name, entry in entries.items():
      summary, time, claims = map(rich.markup.escape, entry)
      console.print(f'[bold]{name}[/bold]  [dim]{time}[/dim]')
      text = f'{summary}\n[dim]claims:[/dim] {claims}'
      console.print(rich.padding.Padding(text, (0, 0, 0, 2)))
    return
  table = rich.table.Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
  for title in ('config', 'what it does', 'time', 'claims'):
    table.add_column(title, overflow='fold', no_wrap=title == 'config')
  for name, entry in entries.items():
    table.add_row(*map(rich.markup.escape, (name, *entry)))
  console.print(table)
