"""Post-training quantization to 2 and 3 bits: SHARP-Q and its rivals.

    from jaxlab import nets
    from jaxlab.quantization import QuantSpec, apply, quantize_model

    chain = nets.vit(dim=32, depth=2, heads=4)           # or your own blocks
    model, report = quantize_model(
      chain.blocks(), params, pictures, QuantSpec(w_bits=2, a_bits=2), 'sharp'
    )
    logits = apply(model, x, 'integer')                  # from packed weights

`quantize_model` runs on the host and calls pure functions of arrays, which are
here too: grids, codebooks, rounding, Fisher factors, transforms, the
reconstruction of a block.
"""

from jaxlab.quantization.baselines import METHODS
from jaxlab.quantization.codebooks import (
  adalog_levels,
  apot_levels,
  fit_scaled_levels,
  kmeans_binned,
  kmeans_codebook,
  log2_levels,
  log_sqrt2_levels,
  twin_uniform_levels,
)
from jaxlab.quantization.compensation import compensate_low_rank
from jaxlab.quantization.dfsc import History, Hyper, reconstruct_block
from jaxlab.quantization.export import (
  PackedLinear,
  QuantModel,
  apply,
  stored_bytes,
)
from jaxlab.quantization.fisher import (
  fidelity,
  fisher_factors,
  kl_divergence,
  path_fisher,
  probe_cotangents,
  quadratic_form,
)
from jaxlab.quantization.fit import Rule
from jaxlab.quantization.grids import fit_activation, fit_grid, fit_grids
from jaxlab.quantization.methods import PTQMethod, with_hyper
from jaxlab.quantization.ptq import quantize_model
from jaxlab.quantization.quantizers import (
  UniformSpec,
  dequantize,
  fake_quant,
  levels_fake_quant,
  lsq_fake_quant,
  quantize,
)
from jaxlab.quantization.reports import BlockReport, PTQReport, SiteReport
from jaxlab.quantization.rounding import gptq_round, rtn_round, soft_round
from jaxlab.quantization.sketch import (
  ChannelFisher,
  channel_factor,
  channel_quadratic,
  sketch_update,
)
from jaxlab.quantization.transforms import (
  apply_transform,
  block_hadamard,
  smooth_scales,
)
from jaxlab.quantization.types import QuantSpec

__all__ = [
  'METHODS',
  'BlockReport',
  'ChannelFisher',
  'History',
  'Hyper',
  'PTQMethod',
  'PTQReport',
  'PackedLinear',
  'QuantModel',
  'QuantSpec',
  'Rule',
  'SiteReport',
  'UniformSpec',
  'adalog_levels',
  'apot_levels',
  'apply',
  'apply_transform',
  'block_hadamard',
  'channel_factor',
  'channel_quadratic',
  'compensate_low_rank',
  'dequantize',
  'fake_quant',
  'fidelity',
  'fisher_factors',
  'fit_activation',
  'fit_grid',
  'fit_grids',
  'fit_scaled_levels',
  'gptq_round',
  'kl_divergence',
  'kmeans_binned',
  'kmeans_codebook',
  'levels_fake_quant',
  'log2_levels',
  'log_sqrt2_levels',
  'lsq_fake_quant',
  'path_fisher',
  'probe_cotangents',
  'quadratic_form',
  'quantize',
  'quantize_model',
  'reconstruct_block',
  'rtn_round',
  'sketch_update',
  'smooth_scales',
  'soft_round',
  'stored_bytes',
  'twin_uniform_levels',
  'with_hyper',
]
