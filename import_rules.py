"""A rule that import-linter does not bring along."""

from collections.abc import Iterator
from typing import Any

import grimp
from importlinter import Contract, ContractCheck, fields, output


class ExperimentsContract(Contract):
  """In a family only modules called `experiment*` import the shell.

  Attributes:
    families: the families' packages.
    shell: packages that only experiments may import.
  """

  families = fields.ListField(subfield=fields.ModuleField())
  shell = fields.ListField(subfield=fields.ModuleField())

  def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:
    """Finds modules that break the rule."""
    del verbose
    broken = sorted(self._broken(graph))
    return ContractCheck(kept=not broken, metadata={'broken': broken})

  def render_broken_contract(self, check: ContractCheck) -> None:
    """Says which import has to go."""
    broken: list[tuple[str, str]] = check.metadata['broken']
    for importer, imported in broken:
      output.print_error(
        f'{importer} imports {imported}: move that to an experiment*.py.'
      )

  def _broken(self, graph: Any) -> Iterator[tuple[str, str]]:
    shell = {
      module
      for package in self.shell  # type: ignore[attr-defined]
      for module in _members(graph, package.name)
    }
    for family in self.families:  # type: ignore[attr-defined]
      for module in _members(graph, family.name):
        name = module.removeprefix(f'{family.name}.').partition('.')[0]
        if not name.startswith('experiment'):
          found = graph.find_modules_directly_imported_by(module) & shell
          yield from ((module, imported) for imported in found)


def _members(graph: Any, package: str) -> set[str]:
  return {package, *graph.find_descendants(package)}
