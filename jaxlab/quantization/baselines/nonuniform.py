"""Codebooks: k-means, additive powers of two, logarithms.

Levels of weights belong to a channel, those of activations to a tensor. Each
as nearest rounding, and with the block reconstruction that uniform methods
have, learned levels, gains and biases included.
"""

import dataclasses

from jaxlab.quantization.fit import Rule
from jaxlab.quantization.methods import PTQMethod

KMEANS = PTQMethod('kmeans', Rule(weights='kmeans', acts='kmeans'))
APOT = PTQMethod('apot', Rule(weights='apot', acts='apot'))
LOG2 = PTQMethod('log2', Rule(weights='log2', acts='log2', unsigned='log2'))
ADALOG = PTQMethod(
  'adalog', Rule(weights='log2', acts='adalog', unsigned='adalog')
)


def _learned(method: PTQMethod) -> PTQMethod:
  return dataclasses.replace(
    method,
    name=f'{method.name}_recon',
    learn='block',
    hyper=(('gains', 2e-3),),
  )


KMEANS_RECON, APOT_RECON, LOG2_RECON, ADALOG_RECON = map(
  _learned, (KMEANS, APOT, LOG2, ADALOG)
)
KMEANS_ALIGNED = dataclasses.replace(
  KMEANS_RECON,
  name='kmeans_aligned',
  rule=dataclasses.replace(KMEANS.rule, mean_rectify=True),
  transform='har',
  loss='channel',
  refreshes=2,
)
