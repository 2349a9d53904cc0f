"""Finds the golden cases and the data of this family."""

import json
import os
import pathlib

import pytest

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]


def _under(variable: str, default: str) -> pathlib.Path:
  beside = CHECKOUT.parent / 'shared' / default
  return pathlib.Path(os.environ.get(variable, beside)) / 'sufficiency'


def data_folder(*names: str) -> pathlib.Path:
  """Folder of the raw files; skips the test where one of them is missing."""
  folder = _under('JAXLAB_DATA', 'data')
  missing = [name for name in names if not any(folder.glob(name))]
  if missing:
    pytest.skip(f'{missing} not in {folder}; JAXLAB_DATA names its parent')
  return folder


def parameters() -> list:
  """All cases as `pytest.param`s."""
  folder = _under('JAXLAB_CASES', 'cases')
  found = []
  for path in sorted(folder.rglob('*.json')):
    content = json.loads(path.read_text())
    cases = content['cases'] if isinstance(content, dict) else content
    for index, case in enumerate(cases):
      name = f'{path.stem}-{index}-{case["kind"]}'
      found.append(pytest.param(case, id=name))
  if not found:
    reason = f'no cases in {folder}; JAXLAB_CASES names its parent'
    return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
  return found
