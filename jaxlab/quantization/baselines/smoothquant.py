"""SmoothQuant (arXiv:2211.10438): channels share range with the weights."""

from jaxlab.quantization.methods import PTQMethod

SMOOTHQUANT = PTQMethod('smoothquant', transform='smooth')
