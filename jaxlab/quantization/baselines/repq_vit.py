"""RepQ-ViT (arXiv:2212.08254): channels on one range, log root-2 softmax."""

from jaxlab.quantization.fit import Rule
from jaxlab.quantization.methods import PTQMethod

REPQ_VIT = PTQMethod('repq_vit', Rule(unsigned='log_sqrt2'), transform='range')
