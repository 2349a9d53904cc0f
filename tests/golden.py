"""Golden cases and raw data of a method, where this machine has them."""

import dataclasses
import json
import os
import pathlib

import pytest

_BESIDE = pathlib.Path(__file__).resolve().parents[2] / 'shared'


@dataclasses.dataclass(frozen=True)
class Golden:
  """What lies beside the checkout for one method.

  Attributes:
    method: name of the method's folders.
  """

  method: str

  def parameters(self, *kinds: str) -> list:
    """All cases as `pytest.param`s; those of some kinds only where given."""
    folder = self._under('JAXLAB_CASES', 'cases')
    found = []
    for path in sorted(folder.rglob('*.json')):
      content = json.loads(path.read_text())
      cases = content['cases'] if isinstance(content, dict) else content
      for index, case in enumerate(cases):
        if not kinds or case['kind'] in kinds:
          name = f'{path.stem}-{index}-{case["kind"]}'
          found.append(pytest.param(case, id=name))
    if not found:
      reason = f'no such cases in {folder}; JAXLAB_CASES names its parent'
      return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    return found

  def data_folder(self, *names: str) -> pathlib.Path:
    """Folder of the raw files; skips the test where one of them is missing.

    Args:
      *names: names or patterns of the files that the test reads.
    """
    folder = self._under('JAXLAB_DATA', 'data')
    missing = [name for name in names if not any(folder.glob(name))]
    if missing:
      pytest.skip(f'{missing} not in {folder}; JAXLAB_DATA names its parent')
    return folder

  def _under(self, variable: str, default: str) -> pathlib.Path:
    root = os.environ.get(variable, _BESIDE / default)
    return pathlib.Path(root) / self.method
