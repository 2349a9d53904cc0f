"""EfficientNet-Lite0 with its published weights, on photographs.

Photographs have no labels of ImageNet: what counts is how often the quantized
network agrees with the float one. With a folder of labelled pictures there is
accuracy too.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab import data, plots
from jaxlab.data import efficientnet_lite0
from jaxlab.harness.claims import Claim
from jaxlab.harness.evidence import mean_claim, share_claim, share_interval
from jaxlab.harness.progress import track
from jaxlab.harness.settings import check_names, check_positive, key_of
from jaxlab.quantization import efficientnet_weights, export, fisher, ptq
from jaxlab.quantization import experiment_networks as networks
from jaxlab.quantization.baselines import METHODS
from jaxlab.quantization.experiment_cells import (
  Ahead,
  Cell,
  check_bits,
  spec_of,
)

_SOURCE = 'this package: real weights keep their function'
_AGREE_AT_8_BITS = 0.8


class _Inputs(NamedTuple):
  """Pictures, normalized, and what the float network makes of them."""

  calibration: jax.Array
  test: np.ndarray
  labels: np.ndarray | None
  chain: Any
  params: Any
  logits: np.ndarray


def run(config, workdir) -> None:
  """Quantizes the network and compares its outputs with those in float."""
  check_names(config, 'methods', tuple(METHODS))
  check_bits(config)
  check_positive(config, 'calibration', 'crops', 'image_size', 'steps')
  inputs = functools.cache(lambda: _inputs(config))
  cells = [
    Cell('efficientnet_lite0', 0, bits, name, 0)
    for bits in config.bits
    for name in config.methods
  ]
  with Ahead(functools.partial(_unit, config, inputs), cells) as ahead:
    found = {
      (cell.bits, cell.method): workdir.cached(
        f'{cell.bits}/{cell.method}', functools.partial(ahead, cell)
      )
      for cell in track(cells, 'quantizations')
    }
  _record(workdir, found)


def _inputs(config) -> _Inputs:
  state = efficientnet_lite0.load()
  chain, params = efficientnet_weights.pretrained(state)
  options = {'size': config.image_size, 'seed': config.seed}
  calibration = data.load(
    'photos', 'calibration', n=config.calibration, **options
  ).images
  labels = None
  if config.imagenet:
    given = data.load(
      'imagenet',
      config.imagenet_split or None,
      folder=config.imagenet,
      index=config.imagenet_index or None,
      per_class=config.per_class or None,
      size=config.image_size,
      resize=round(config.image_size * 256 / 224),
    )
    test, labels = given.images, given.labels
  else:
    test = data.load('photos', 'test', n=config.crops, **options).images
  normalize = efficientnet_weights.normalize
  test = np.asarray(normalize(test))
  logits = networks.logits_of(
    jax.jit(lambda x: chain.apply({'params': params}, x)), test
  )
  return _Inputs(
    jnp.asarray(normalize(calibration)), test, labels, chain, params, logits
  )


def _unit(config, inputs, cell: Cell) -> dict[str, Any]:
  """Agreement and divergence on each test picture, and the size."""
  known = inputs()
  model, report = ptq.quantize_model(
    known.chain.blocks(),
    known.params,
    known.calibration,
    spec_of(cell.bits),
    dataclasses.replace(METHODS[cell.method], steps=config.steps),
    key_of(config.seed, 'quantize'),
  )
  logits = networks.logits_of(lambda x: export.apply(model, x), known.test)
  found = {
    'same': logits.argmax(1) == known.logits.argmax(1),
    'kl': fisher.kl_divergence(jnp.asarray(known.logits), jnp.asarray(logits)),
    'bytes': report.bytes['total'],
    'float bytes': report.float_bytes,
    'bits per weight': report.bits_per_weight,
  }
  if known.labels is not None:
    found['right'] = logits.argmax(1) == known.labels
    found['right in float'] = known.logits.argmax(1) == known.labels
  return found


def _record(workdir, found) -> None:
  rows, bars = [], {}
  for (bits, name), each in found.items():
    same = each['same']
    low, high = share_interval(int(same.sum()), same.size)
    share = tuple(100 * x for x in (same.mean(), low, high))
    bars[f'{bits} {name}'] = share
    row = {'bits': bits, 'method': name, 'pictures': same.size}
    row |= dict(zip(('agreement', 'low', 'high'), share, strict=True))
    row |= {'KL': each['kl'].mean(), 'KL median': np.median(each['kl'])}
    for key in ('bytes', 'float bytes', 'bits per weight'):
      row[key] = each[key].item()
    for key in ('right', 'right in float'):
      if key in each:
        row[key] = 100 * each[key].mean()
    rows.append(row)
    workdir.headline(f'{bits} {name} agrees with float', *share, unit='%')
  workdir.save_table(
    'agreement',
    rows,
    'Pictures to which the quantized network gives the class that the float '
    'network gives, in percent with 95 % Wilson intervals; divergence of the '
    'output; bytes.',
  )
  workdir.save_figure(
    'agreement',
    plots.bars_with_intervals(
      list(bars),
      {'agreement': tuple(np.transpose(list(bars.values())))},
      ylabel='agreement with float (%)',
    ),
    'Top-1 agreement with the float network, 95 % Wilson intervals.',
  )
  for claim in _claims(found):
    workdir.add_claim(claim)


def _claims(found) -> list[Claim]:
  claims = []
  for bits, name in found:
    if bits == 'W8A8':
      claims.append(
        share_claim(
          f'{bits} {name}: the class of the float network on more than '
          f'{_AGREE_AT_8_BITS:.0%} of crops',
          found[bits, name]['same'],
          threshold=_AGREE_AT_8_BITS,
          sense='>',
          source=_SOURCE,
        )
      )
  for bits in dict.fromkeys(key[0] for key in found):
    if (bits, 'rtn_minmax') not in found:
      continue
    base = found[bits, 'rtn_minmax']['kl']
    for width, name in found:
      if width == bits and name != 'rtn_minmax' and bits != 'W8A8':
        claims.append(
          mean_claim(
            f'{bits}: {name} has a smaller divergence than grids from the '
            'extremes',
            base - found[bits, name]['kl'],
            threshold=0.0,
            sense='>',
            unit='nats',
            source=_SOURCE,
            note='a seed is a crop',
          )
        )
  return claims
