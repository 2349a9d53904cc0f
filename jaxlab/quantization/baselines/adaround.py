"""AdaRound (arXiv:2004.10568): rounding learned layer by layer."""

from jaxlab.quantization.methods import PTQMethod

ADAROUND = PTQMethod('adaround', learn='layer', acts_after=True)
