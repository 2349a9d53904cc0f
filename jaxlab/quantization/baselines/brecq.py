"""BRECQ (arXiv:2102.05426): blocks, weighted by squared gradients."""

from jaxlab.quantization.methods import PTQMethod

BRECQ = PTQMethod(
  'brecq',
  learn='block',
  loss='brecq',
  ridge=0.0,
  hyper=(('drop', 0.0),),
  acts_after=True,
)
