"""APHQ-ViT (arXiv:2504.02508): average perturbation Hessian as weights."""

from jaxlab.quantization.methods import PTQMethod

APHQ = PTQMethod('aphq', learn='block', loss='aphq', ridge=0.0)
