"""SHARP-Q, and what is left of it without one of its parts."""

import dataclasses

from jaxlab.quantization.fit import Rule
from jaxlab.quantization.methods import PTQMethod, with_hyper

SHARP = PTQMethod(
  'sharp',
  Rule(
    weights='hessian',
    acts='weighted',
    half_integer=True,
    act_offset=True,
    mean_rectify=True,
  ),
  transform='har',
  learn='block',
  loss='channel',
  refreshes=2,
  hyper=(('gains', 2e-3), ('offsets', 2e-3)),
)
SHARP_SELECT = dataclasses.replace(SHARP, name='sharp_select', loss='select')
HAR_ONLY = dataclasses.replace(SHARP, name='har_only', learn='none')
NO_TRANSFORM = dataclasses.replace(
  SHARP, name='sharp_no_transform', transform='none'
)
STATIC_TOKENS = dataclasses.replace(
  SHARP, name='static_tokens', token_scale='static'
)
NO_TOKENS = dataclasses.replace(SHARP, name='no_tokens', token_scale='none')
DFSC_ONLY = dataclasses.replace(
  SHARP, name='dfsc_only', rule=Rule(), transform='none'
)
HAR_MSE = dataclasses.replace(SHARP, name='har_mse', loss='mse', refreshes=0)
STATIC = dataclasses.replace(SHARP, name='static_fisher', refreshes=0)
FLOAT_POINT = dataclasses.replace(SHARP, name='float_point', path=False)
DIAG = dataclasses.replace(SHARP, name='diag_fisher', loss='diag')
SAMPLE = dataclasses.replace(SHARP, name='sample_fisher', loss='sample')
NO_GAIN = with_hyper(dataclasses.replace(SHARP, name='no_gain_bias'), gains=0.0)
PROBES = tuple(
  dataclasses.replace(SHARP, name=f'probes_{r}', probes=r, exact_max_classes=0)
  for r in (1, 2, 6)
)
COMPENSATED = tuple(
  dataclasses.replace(SHARP, name=f'comp_rank_{q}', comp_rank=q)
  for q in (8, 16)
)
