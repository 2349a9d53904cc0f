"""The small bank and its tests, which several modules look at."""

import pytest

from jaxlab.adaptive_testing import types
from tests.adaptive_testing import small


@pytest.fixture(scope='package')
def bank():
  return types.item_bank(small.A, small.B, small.C)


@pytest.fixture(scope='package')
def trace(bank):
  return small.play(bank)
