"""Runs all golden cases of the family; a kind has one check."""

import jax
import pytest

from tests.dendrites import golden_channels, golden_morphology, golden_traces
from tests.golden import Golden

GOLDEN = Golden('heliox')
CHECKS = {
  'swc_sections': golden_morphology.case_swc_sections,
  'swc_error': golden_morphology.case_swc_error,
  'hh_rates': golden_channels.case_hh_rates,
  'channel_curves': golden_channels.case_channel_curves,
  'cable_steady_state': golden_morphology.case_cable_steady_state,
  'voltage_trace': golden_traces.case_voltage_trace,
}
WITHOUT_FILES = ('hh_rates', 'channel_curves')


@pytest.mark.parametrize('case', GOLDEN.parameters())
def test_case(case):
  check = CHECKS[case['kind']]
  with jax.enable_x64(True):
    if case['kind'] in WITHOUT_FILES:
      check(case)
    else:
      name = case.get('file') or case.get('cell', {}).get('file')
      check(case, GOLDEN.data_folder(*([name] if name else [])))
