"""Finds the golden cases of this family, whatever their files are called."""

import json
import os
import pathlib

import pytest

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]


def folder() -> pathlib.Path:
  """`$JAXLAB_CASES`, by default `shared/cases` beside the checkout."""
  beside = CHECKOUT.parent / 'shared' / 'cases'
  return pathlib.Path(os.environ.get('JAXLAB_CASES', beside)) / 'box_thirding'


def data_folder() -> pathlib.Path:
  """`$JAXLAB_DATA`, by default `shared/data` beside the checkout."""
  beside = CHECKOUT.parent / 'shared' / 'data'
  return pathlib.Path(os.environ.get('JAXLAB_DATA', beside)) / 'box_thirding'


def parameters(*kinds: str) -> list:
  """All cases as `pytest.param`s; those of some kinds only where given."""
  found = []
  for path in sorted(folder().rglob('*.json')):
    content = json.loads(path.read_text())
    cases = content['cases'] if isinstance(content, dict) else content
    for index, case in enumerate(cases):
      if not kinds or case['kind'] in kinds:
        name = f'{path.stem}-{index}-{case["kind"]}'
        found.append(pytest.param(case, id=name))
  if not found:
    reason = f'no such cases in {folder()}; JAXLAB_CASES names its parent'
    return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
  return found
