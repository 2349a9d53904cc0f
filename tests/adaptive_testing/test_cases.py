"""Runs all golden cases of the family; a kind has one check."""

import jax
import pytest

from tests.adaptive_testing import golden_items, golden_paths, golden_rules
from tests.golden import Golden

GOLDEN = Golden('gpm')
CHECKS = {
  name.removeprefix('case_'): check
  for module in (golden_items, golden_rules, golden_paths)
  for name, check in vars(module).items()
  if name.startswith('case_')
}


@pytest.mark.parametrize('case', GOLDEN.parameters())
def test_case(case):
  with jax.enable_x64(True):
    CHECKS[case['kind']](case)
