"""Matrix products with weights of 2, 3, 4 or 8 bits that stay packed."""

from kernels_pallas.quantized_matmul.activations import (
  ACTIVATIONS,
  ActQuant,
  OutQuant,
)
from kernels_pallas.quantized_matmul.api import (
  IMPLEMENTATIONS,
  backends,
  matmul_nonuniform,
  quantized_matmul,
)
from kernels_pallas.quantized_matmul.conv import quantized_conv
from kernels_pallas.quantized_matmul.lowering import compile_ptx, lower_for
from kernels_pallas.quantized_matmul.packing import (
  PackedTensor,
  dequantize,
  nbytes,
  pack,
  quantize,
  unpack,
)
from kernels_pallas.quantized_matmul.reference import (
  codebook_matmul_ref,
  integer_accumulators,
)
from kernels_pallas.quantized_matmul.tuning import tune
