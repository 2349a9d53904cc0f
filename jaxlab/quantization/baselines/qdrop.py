"""QDrop (arXiv:2203.05740): blocks, squared error, random dropping."""

from jaxlab.quantization.methods import PTQMethod

QDROP = PTQMethod('qdrop', learn='block')
