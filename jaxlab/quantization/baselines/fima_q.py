"""FIMA-Q (arXiv:2506.11543): diagonal and low-rank Fisher, float point."""

from jaxlab.quantization.methods import PTQMethod

FIMA_Q = PTQMethod('fima_q', learn='block', loss='fima', ridge=0.0)
