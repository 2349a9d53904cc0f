"""PTQ4ViT (arXiv:2111.12293): twin uniform grids, scales by the Hessian."""

from jaxlab.quantization.fit import Rule
from jaxlab.quantization.methods import PTQMethod

PTQ4VIT = PTQMethod(
  'ptq4vit', Rule(weights='hessian', acts='twin', unsigned='twin_softmax')
)
