"""What the paper claims, from the numbers of a table."""

from collections.abc import Iterator

import numpy as np

from jaxlab.harness.claims import Claim
from jaxlab.harness.evidence import mean_claim, share_claim
from jaxlab.quantization.experiment_cells import Table
from jaxlab.quantization.experiment_networks import NETWORKS

PAPER = 'SHARP-Q (ICML 2026), abstract'
SHARP = 'sharp'
_OVER_NEAREST = {'CNN': 30.0, 'ViT': 30.0, 'SSM': 20.0}
_RECONSTRUCTED = ('qdrop', 'brecq', 'gptq')
_SAME_CLASS, _GAP = 0.995, 1e-3


def of_table(table: Table) -> Iterator[Claim]:
  """The claims for which the table has the methods and bit-widths."""
  if SHARP not in table.methods:
    return
  if 'W2A2' in table.bits:
    yield from _over_nearest(table)
    yield from _over_reconstruction(table)
    yield from _over_codebooks(table)
  if 'W3A3' in table.bits:
    yield from _over_codebooks_at_3_bits(table)
  yield from _rectification(table)
  yield from packed(table)


def kind_of(network: str) -> str:
  """'CNN', 'ViT' or 'SSM'."""
  return NETWORKS[network].kind


def _over_nearest(table: Table) -> Iterator[Claim]:
  if 'rtn_mse' not in table.methods:
    return
  for network in table.networks:
    wanted = _OVER_NEAREST[kind_of(network)]
    yield mean_claim(
      f'{kind_of(network)} W2A2: SHARP-Q is at least {wanted:g} points ahead '
      'of rounding to nearest',
      table.gain(network, 'W2A2', SHARP, 'rtn_mse'),
      threshold=wanted,
      sense='>',
      unit='points',
      source=PAPER,
      note=table.note,
    )


def _over_reconstruction(table: Table) -> Iterator[Claim]:
  for rival in _RECONSTRUCTED:
    if rival in table.methods:
      yield mean_claim(
        f'{_kinds(table)} W2A2: SHARP-Q is ahead of {rival}',
        table.mean_gain('W2A2', SHARP, rival),
        threshold=0.0,
        sense='>',
        unit='points',
        source=PAPER,
        note=table.note,
      )
  if 'qdrop' in table.methods and len(table.networks) > 1:
    for network in table.networks:
      yield _level(table, network, 'W2A2', 'qdrop')


def _kinds(table: Table) -> str:
  kinds = [kind_of(network) for network in table.networks]
  if len(kinds) == 1:
    return kinds[0]
  return f'mean over {", ".join(kinds[:-1])} and {kinds[-1]},'


def _level(table: Table, network: str, bits: str, rival: str) -> Claim:
  """That SHARP-Q is level or ahead: undecided where the interval holds 0."""
  return mean_claim(
    f'{kind_of(network)} {bits}: SHARP-Q is at least level with {rival}',
    table.gain(network, bits, SHARP, rival),
    threshold=0.0,
    sense='>',
    unit='points',
    source=PAPER,
    note=table.note,
  )


def _over_codebooks(table: Table) -> Iterator[Claim]:
  """Uniform against non-uniform levels at 2 bits, unaligned and aligned."""
  unaligned = {'SSM': 0.0, 'ViT': -1.0}
  if 'kmeans_recon' in table.methods:
    for network in table.networks:
      kind = kind_of(network)
      if kind in unaligned:
        limit = unaligned[kind]
        yield mean_claim(
          f'{kind} W2A2: uniform SHARP-Q against k-means levels without '
          f'alignment: over {limit:g} points',
          table.gain(network, 'W2A2', SHARP, 'kmeans_recon'),
          threshold=limit,
          sense='>',
          unit='points',
          source=PAPER,
          note=table.note,
        )
    if len(table.networks) > 1:
      yield mean_claim(
        f'{_kinds(table)} W2A2: uniform SHARP-Q against k-means levels without '
        'alignment: at least equal',
        table.mean_gain('W2A2', SHARP, 'kmeans_recon'),
        threshold=0.0,
        sense='>',
        unit='points',
        source=PAPER,
        note=table.note,
      )
  if 'kmeans_aligned' in table.methods:
    for network in table.networks:
      yield mean_claim(
        f'{kind_of(network)} W2A2: uniform SHARP-Q is within 1 point of '
        'k-means levels with the same alignment',
        table.gain(network, 'W2A2', SHARP, 'kmeans_aligned'),
        threshold=-1.0,
        sense='>',
        unit='points',
        source=PAPER,
        note='; '.join(
          filter(None, ('to outperform them needs over 0', table.note))
        ),
      )


def _over_codebooks_at_3_bits(table: Table) -> Iterator[Claim]:
  if 'kmeans_recon' in table.methods:
    for network in table.networks:
      yield _level(table, network, 'W3A3', 'kmeans_recon')


def _rectification(table: Table) -> Iterator[Claim]:
  """That chosen transforms help on pictures that did not choose them."""
  for network in table.networks:
    pairs = np.array(
      [
        site['audit']
        for cell, found in table.found.items()
        if (cell.network, cell.method) == (network, SHARP)
        for site in found.report['sites'].values()
        if site['losses'] and None not in site['audit']
      ]
    ).reshape(-1, 2)
    yield share_claim(
      f'{kind_of(network)}: at most sites the chosen transform has a smaller '
      'divergence than the identity on pictures that did not choose it',
      pairs[:, 1] < pairs[:, 0],
      threshold=0.5,
      sense='>',
      source=PAPER,
      note='a draw is a site with a seed; the identity is no gain',
    )


def packed(table: Table) -> Iterator[Claim]:
  """That packed integers give what was evaluated."""
  found = [each for each in table.found.values() if each.agree[1]]
  if not found:
    return
  same = np.array([each.agree for each in found])
  hits = np.repeat([True, False], [same[:, 0].sum(), np.diff(same).sum()])
  gap = max(each.gap for each in found)
  source = 'this package: packed weights in kernels_pallas.quantized_matmul'
  yield share_claim(
    'Packed codes in the integer kernel give the class of the simulation on '
    '99.5 % of pictures',
    hits,
    threshold=_SAME_CLASS,
    sense='>',
    source=source,
  )
  yield Claim(
    'Logits of both differ by at most 0.001 of the largest',
    source,
    *(gap, gap, gap, _GAP, '<'),
    note=f'largest of {len(found)} quantizations',
  )
