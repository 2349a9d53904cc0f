"""GPTQ (arXiv:2210.17323): each rounding error is fed into later weights."""

from jaxlab.quantization.fit import Rule
from jaxlab.quantization.methods import PTQMethod

GPTQ = PTQMethod('gptq', Rule(rounding='gptq'))
