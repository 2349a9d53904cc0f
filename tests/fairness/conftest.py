"""Fixtures of the family's tests."""

import jax
import pytest


@pytest.fixture
def x64():
  """Float64 by default, as the exact comparisons need."""
  with jax.enable_x64(True):
    yield
