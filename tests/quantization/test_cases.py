"""Runs all golden cases of the family; a kind has one check."""

import jax
import pytest

from tests.golden import Golden
from tests.quantization import golden_fisher, golden_quantizers

GOLDEN = Golden('sharp_q')
CHECKS = {
  'uniform_quantize': golden_quantizers.case_uniform_quantize,
  'channel_roundtrip': golden_quantizers.case_channel_roundtrip,
  'weight_grid': golden_quantizers.case_weight_grid,
  'kmeans_codebook': golden_quantizers.case_kmeans_codebook,
  'integer_conv1x1': golden_quantizers.case_integer_conv1x1,
  'rounding': golden_quantizers.case_rounding,
  'gptq_codes': golden_quantizers.case_gptq_codes,
  'fisher_matrix': golden_fisher.case_fisher_matrix,
  'fisher_probe': golden_fisher.case_fisher_probe,
  'path_quadratic': golden_fisher.case_path_quadratic,
  'equivalence_transform': golden_fisher.case_equivalence_transform,
  'compensate_low_rank': golden_fisher.case_compensate_low_rank,
}


@pytest.mark.parametrize('case', GOLDEN.parameters())
def test_case(case):
  with jax.enable_x64(True):
    CHECKS[case['kind']](case)
