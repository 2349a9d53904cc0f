"""Trains the networks that all other studies quantize."""

from typing import Any

import jax
import numpy as np

from jaxlab import plots
from jaxlab.harness.evidence import share_claim, share_interval
from jaxlab.harness.progress import track
from jaxlab.harness.settings import check, check_names, check_positive
from jaxlab.quantization import experiment_networks as networks

_SOURCE = 'this package: networks that are worth quantizing'


def run(config, workdir) -> None:
  """Trains each network from each seed, or reads what was trained before."""
  check_names(config, 'networks', tuple(networks.NETWORKS))
  check_positive(config, 'float_networks', 'test_pictures')
  check(config, 'wanted', 0 < config.wanted < 100, 'a percentage')
  cells = [
    (name, net)
    for name in config.networks
    for net in range(config.float_networks)
  ]
  rows: list[dict[str, Any]] = []
  hits: dict[str, list[np.ndarray]] = {}
  for name, net in track(cells, 'networks'):
    found = networks.trained(name, net, config.test_pictures, workdir)
    pictures = networks.pictures_of(name, config.test_pictures)
    right = found.logits.argmax(1) == pictures.test_labels
    low, high = share_interval(int(right.sum()), right.size)
    hits.setdefault(name, []).append(right)
    rows.append(
      {
        'network': name,
        'net': net,
        'accuracy': found.accuracy,
        'low': 100 * low,
        'high': 100 * high,
        'test pictures': right.size,
        'training pictures': len(pictures.train),
        'parameters': sum(x.size for x in jax.tree.leaves(found.params)),
      }
    )
  _record(config, workdir, rows, hits)


def _record(config, workdir, rows, hits) -> None:
  workdir.save_table(
    'networks',
    rows,
    'Accuracy in percent on the test pictures, 95 % Wilson interval.',
  )
  accuracy, low, high = (
    [row[key] for row in rows] for key in ('accuracy', 'low', 'high')
  )
  workdir.save_figure(
    'networks',
    plots.bars_with_intervals(
      [f'{row["network"]} {row["net"]}' for row in rows],
      {'accuracy': (accuracy, low, high)},
      ylabel='accuracy on test pictures (%)',
    ),
    'Accuracy of the networks in float, 95 % Wilson intervals.',
  )
  for name, right in hits.items():
    workdir.headline(f'{name} in float', 100 * np.mean(right), unit='%')
    workdir.add_claim(
      share_claim(
        f'{name}: accuracy in float over {config.wanted:g} %',
        np.concatenate(right),
        threshold=config.wanted / 100,
        sense='>',
        source=_SOURCE,
        note='a draw is a test picture with a network',
      )
    )
