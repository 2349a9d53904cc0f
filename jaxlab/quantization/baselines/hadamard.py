"""Rotated inputs, as in QuaRot (arXiv:2404.00456), then nearest or GPTQ."""

from jaxlab.quantization.fit import Rule
from jaxlab.quantization.methods import PTQMethod

HADAMARD = PTQMethod('hadamard', transform='hadamard')
HADAMARD_GPTQ = PTQMethod(
  'hadamard_gptq', Rule(rounding='gptq'), transform='hadamard'
)
