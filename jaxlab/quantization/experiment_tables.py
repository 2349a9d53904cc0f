"""What all studies write of their quantizations: tables and figures."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from jaxlab import plots as charts
from jaxlab.harness.evidence import with_interval
from jaxlab.quantization import plots
from jaxlab.quantization.experiment_cells import Bench, Found, Table

Row = dict[str, Any]
# Accuracies in the papers named, of networks that do not fit in here.
PUBLISHED = (
  ('QDrop', 'ResNet-18', 'float', 71.0),
  ('QDrop', 'ResNet-18', 'W4A4', 69.1),
  ('QDrop', 'ResNet-18', 'W2A4', 65.6),
  ('QDrop', 'ResNet-18', 'W3A3', 64.5),
  ('QDrop', 'ResNet-18', 'W2A2', 51.6),
  ('FIMA-Q', 'ViT-S', 'W3A3', 64.09),
  ('FIMA-Q', 'ViT-B', 'W3A3', 77.63),
  ('FIMA-Q', 'DeiT-T', 'W3A3', 55.55),
  ('FIMA-Q', 'DeiT-S', 'W3A3', 69.13),
  ('FIMA-Q', 'DeiT-B', 'W3A3', 76.54),
  ('FIMA-Q', 'Swin-S', 'W3A3', 77.26),
  ('FIMA-Q', 'Swin-B', 'W3A3', 78.82),
)


def save_accuracy(workdir, bench: Bench, table: Table) -> None:
  """Table and figure of accuracies, sizes, times and divergences."""
  groups = _groups(table)
  rows = [_accuracy_row(bench, table, *group) for group in groups]
  nets = dict.fromkeys((c.network, c.net) for c in table.found)
  floats = [
    {'network': name, 'net': net, 'float': bench.trained(name, net).accuracy}
    for name, net in nets
  ]
  workdir.save_table('float', floats, 'Networks in float: accuracy in percent.')
  workdir.save_table(
    'accuracy',
    rows,
    'Accuracy in percent on the test pictures, 95 % t interval over seeds; '
    'mean divergence of the output from the float network on the calibration '
    'pictures, on held-out ones and on the test pictures; bytes stored; bits '
    'of a weight with its scales, zero points and codebooks; seconds of the '
    'first seed, which compiles, and of the quickest. All give the operands '
    'of scans and the first and last layer 8 bits.',
  )
  series = {}
  for network, bits in dict.fromkeys(g[:2] for g in groups):
    found = [
      list(with_interval('', table.accuracy(network, bits, method)).values())
      for method in table.methods
    ]
    series[f'{network} {bits}'] = tuple(np.transpose(found))
  workdir.save_figure(
    'accuracy',
    charts.bars_with_intervals(
      table.methods, series, ylabel='accuracy on test pictures (%)'
    ),
    'Mean over seeds with 95 % t intervals.',
  )


def _groups(table: Table) -> list[tuple[str, str, str]]:
  return list(dict.fromkeys((c.network, c.bits, c.method) for c in table.found))


def _accuracy_row(bench: Bench, table: Table, network, bits, method) -> Row:
  found = table.rows(network, bits, method)
  first = found[0].report
  kl = np.mean([each.kl for each in found], axis=0)
  seconds = [each.seconds for each in found]
  return {
    'network': network,
    'bits': bits,
    'method': method,
    'runs': len(found),
    **with_interval('accuracy', table.accuracy(network, bits, method)),
    'KL calibration': kl[0],
    'KL held out': kl[1],
    'KL test': kl[2],
    'bytes': first['bytes']['total'],
    'float bytes': first['float_bytes'],
    'bits per weight': first['bits_per_weight'],
    'seconds first': seconds[0],
    'seconds': min(seconds),
    'diverged': sum(_diverged(each) for each in found),
  }


def _diverged(found: Found) -> int:
  return sum(block['diverged'] for block in found.report['blocks'])


def save_differences(workdir, table: Table, main: str) -> None:
  """By how many points one method is ahead of each other, by seed."""
  rows = []
  for network, bits, method in _groups(table):
    if method == main:
      continue
    gain = table.gain(network, bits, main, method)
    row: Row = {'network': network, 'bits': bits, 'method': method}
    row |= with_interval('ahead', gain)
    rows.append(row | {f'seed {i}': x for i, x in enumerate(gain)})
  workdir.save_table(
    'differences',
    rows,
    f'Points of accuracy by which {main} is ahead, paired by seed, with 95 % '
    't intervals.',
  )


def save_layers(workdir, table: Table) -> None:
  """Errors of blocks, and what the objective did while they learned."""
  rows = []
  curves: dict[str, list[float]] = {}
  for network, bits, method in _groups(table):
    found = table.rows(network, bits, method)
    for i in range(len(found[0].report['blocks'])):
      blocks = [each.report['blocks'][i] for each in found]
      row = {
        'network': network,
        'bits': bits,
        'method': method,
        'block': i,
        'loss': blocks[0]['loss'],
        'error before': _mean(b['error_before'] for b in blocks),
        'error after': _mean(b['error_after'] for b in blocks),
      }
      changes = [b['change'] for b in blocks]
      for number in range(len(changes[0])):
        row[f'change {number + 1}'] = _mean(c[number] for c in changes)
      rows.append(row)
      name = f'{network} {bits} {method}'
      curves.setdefault(name, []).append(row['error after'])
  workdir.save_table(
    'layers',
    rows,
    'Squared error of the output of each block, relative to the output: as '
    'rounding starts and after the block is learned; relative change of the '
    'Fisher objective at each refresh; means over seeds.',
  )
  workdir.save_figure(
    'layers',
    plots.block_errors(curves),
    'Relative squared error of the output of each block after learning.',
  )


def _mean(values: Iterable[float | None]) -> float:
  return float(np.mean([np.nan if v is None else v for v in values]))


def save_choices(workdir, table: Table, method: str = 'sharp') -> None:
  """Candidates of the rectification at each site, and which were chosen."""
  rows, losses = [], {}
  for cell, found in table.found.items():
    if cell.method != method:
      continue
    for name, site in found.report['sites'].items():
      if not site['losses']:
        continue
      tried = site['losses']
      rows.append(
        {
          'network': f'{cell.network}-{cell.net}',
          'bits': cell.bits,
          'seed': cell.seed,
          'site': name,
          'chosen': site['transform'],
          'identity': tried['identity'],
          'best': min(v for v in tried.values() if v is not None),
          'unseen identity': site['audit'][0],
          'unseen chosen': site['audit'][1],
          **_before_after('sharpness', site['sharpness']),
          **_before_after('mixing', site['mixing']),
          'adds': site['online_adds'],
          **{f'try {candidate}': loss for candidate, loss in tried.items()},
        }
      )
      if cell.seed == cell.net == 0:
        losses[f'{cell.network} {cell.bits} {name}'] = tried
  if not rows:
    return
  workdir.save_table(
    'choices',
    rows,
    'Transforms of the inputs of sites: divergence of the output when this '
    'site alone is quantized, with the identity and with the best, on the '
    'pictures for choosing and on unseen ones; largest over mean eigenvalue '
    'of the second moment of the input, and its share off the diagonal, '
    'before and after; additions a place at run time; all candidates.',
  )
  workdir.save_figure(
    'candidates',
    plots.candidate_losses(losses),
    'Divergence of the output with each candidate over that with the '
    'identity, at each site, first seed; decimal logarithm.',
  )


def _before_after(name: str, pair) -> Row:
  return {f'{name} before': pair[0], f'{name} after': pair[1]}


def save_packed(workdir, table: Table) -> None:
  """Agreement of the integer mode with the mode that simulates it."""
  rows = [
    {
      **cell._asdict(),
      'same class': found.agree[0],
      'pictures': found.agree[1],
      'largest gap': found.gap,
    }
    for cell, found in table.found.items()
    if found.agree[1]
  ]
  workdir.save_table(
    'packed',
    rows,
    'Packed codes multiplied as integers against the same in floats: pictures '
    'of the same class, and largest difference of logits over the largest '
    'logit.',
  )


def save_published(workdir) -> None:
  """Accuracies that others have published, to stand beside."""
  names = ('method', 'network', 'bits', 'published')
  workdir.save_table(
    'published',
    [dict(zip(names, row, strict=True)) for row in PUBLISHED],
    'Published accuracies on ImageNet in percent (QDrop, arXiv:2203.05740; '
    'FIMA-Q, arXiv:2506.11543); other networks and pictures than here.',
  )


def add_headlines(workdir, table: Table, methods: Iterable[str]) -> None:
  """Accuracies of some methods."""
  for network, bits, method in _groups(table):
    if method in methods:
      interval = with_interval('', table.accuracy(network, bits, method))
      numbers = [None if np.isnan(x) else x for x in interval.values()]
      values = table.accuracy(network, bits, method)
      workdir.headline(
        f'{network} {bits} {method}',
        float(np.mean(values)),
        *numbers[1:],
        unit='%',
      )
