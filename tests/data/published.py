"""Published files, where this machine has them."""

import os
import pathlib

import pytest


def folder(*names):
  """The folder `sufficiency` of raw files, if it holds all the names."""
  checkout = pathlib.Path(__file__).resolve().parents[2]
  default = checkout.parent / 'shared' / 'data'
  root = pathlib.Path(os.environ.get('JAXLAB_DATA', default))
  found = root / 'sufficiency'
  missing = [name for name in names if not (found / name).exists()]
  if missing:
    pytest.skip(f'{missing} not in {found} (set JAXLAB_DATA)')
  return found
