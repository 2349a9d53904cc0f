"""What the tests of this family compare with."""

import numpy as np


def assert_normwise(found, expected, rtol: float, atol: float = 0.0) -> None:
  """Largest difference within `rtol` of the largest expected magnitude."""
  found, expected = np.asarray(found), np.asarray(expected)
  assert found.shape == expected.shape
  limit = rtol * np.max(np.abs(expected)) + atol
  assert np.max(np.abs(found - expected)) <= limit
