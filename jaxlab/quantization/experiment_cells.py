"""Quantizations by network, bit-widths, method and seed, each done once."""

import concurrent.futures
import dataclasses
import functools
import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.harness import files, startup
from jaxlab.harness.progress import Progress
from jaxlab.harness.settings import check, check_names, check_positive, key_of
from jaxlab.quantization import experiment_networks as networks
from jaxlab.quantization import export, fisher, ptq
from jaxlab.quantization.baselines import METHODS
from jaxlab.quantization.types import QuantSpec

_BITS = re.compile(r'W([1-8])A([1-8])')


class Cell(NamedTuple):
  """One quantization.

  Attributes:
    network: its name.
    net: seed of its training.
    bits: such as 'W2A2'.
    method: its name.
    seed: of the calibration pictures and of the method.
  """

  network: str
  net: int
  bits: str
  method: str
  seed: int


class Found(NamedTuple):
  """What a quantization gave.

  Attributes:
    accuracy: on the test pictures, in percent.
    kl: mean divergence of the output from the float network's on the
      calibration pictures, on held-out ones, on the test pictures.
    agree: test pictures that the integer mode gives the same class as the
      mode 'fake', and how many were compared; zeros where that was not done.
    gap: largest difference of their logits, over the largest logit.
    seconds: of quantization, with compilation where it was the first.
    report: `PTQReport.as_dict()`.
  """

  accuracy: float
  kl: tuple[float, float, float]
  agree: tuple[int, int]
  gap: float
  seconds: float
  report: dict[str, Any]


def check_config(config) -> None:
  """Raises `UserError` where what all studies share is no good."""
  check_names(config, 'networks', tuple(networks.NETWORKS))
  check_names(config, 'methods', tuple(METHODS))
  check_bits(config)
  good = set(config.packed) <= set(METHODS)
  check(config, 'packed', good, 'names of methods')
  check_positive(
    config, 'steps', 'calibration', 'float_networks', 'seeds', 'test_pictures'
  )


def check_bits(config) -> None:
  """Raises `UserError` unless the bit-widths have the form W2A2."""
  good = all(_BITS.fullmatch(bits) for bits in config.bits)
  good = good and len(set(config.bits)) == len(config.bits) > 0
  check(config, 'bits', good, "different bit-widths such as 'W2A2'")


def spec_of(bits: str) -> QuantSpec:
  """The bit-widths of 'W2A2'."""
  match = _BITS.fullmatch(bits)
  assert match is not None
  return QuantSpec(int(match[1]), int(match[2]))


class Bench:
  """The quantizations of a run."""

  def __init__(self, config, workdir):
    self._config = config
    self._workdir = workdir
    self.trained = functools.cache(self._trained)

  def _trained(self, network: str, net: int) -> networks.Trained:
    return networks.trained(
      network, net, self._config.test_pictures, self._workdir
    )

  def pictures(self, network: str) -> networks.Pictures:
    """The pictures of a network."""
    return networks.pictures_of(network, self._config.test_pictures)

  def cells(
    self, methods: Sequence[str], bits: Sequence[str] | None = None
  ) -> list[Cell]:
    """All that the config asks for, for some methods."""
    config = self._config
    return [
      Cell(network, net, width, method, seed)
      for network in config.networks
      for net in range(config.float_networks)
      for width in (config.bits if bits is None else bits)
      for method in methods
      for seed in range(config.seeds)
    ]

  def measure(self, cells: Iterable[Cell]) -> dict[Cell, Found]:
    """Quantizes, or reads what was found before."""
    cells = list(cells)
    found = {}
    # Neighbours are of different methods, which compile different programs.
    order = sorted(cells, key=lambda c: (c.network, c.net, c.seed))
    ahead = Ahead(self._measure, order)
    with Progress('quantizations', len(cells)) as progress, ahead:
      for cell in order:
        name = f'{cell.network}-{cell.net}/{cell.bits}/{cell.method}'
        stored = self._workdir.cached(
          f'{name}-{cell.seed}', functools.partial(ahead, cell)
        )
        found[cell] = _read(stored)
        progress.advance()
    return {cell: found[cell] for cell in cells}

  def _measure(self, cell: Cell) -> dict[str, Any]:
    config = self._config
    trained = self.trained(cell.network, cell.net)
    pictures = self.pictures(cell.network)
    calibration, held_out = networks.draw(
      pictures, cell.seed, config.calibration
    )
    method = dataclasses.replace(METHODS[cell.method], steps=config.steps)
    start = time.perf_counter()
    model, report = ptq.quantize_model(
      trained.chain.blocks(),
      trained.params,
      calibration,
      spec_of(cell.bits),
      method,
      key_of(config.seed, 'quantize', cell.seed),
      audit=held_out,
    )
    seconds = time.perf_counter() - start
    logits = networks.logits_of(lambda x: export.apply(model, x), pictures.test)
    right = logits.argmax(1) == pictures.test_labels
    kl_test = fisher.kl_divergence(
      jnp.asarray(trained.logits), jnp.asarray(logits)
    )
    agree, gap = (0, 0), np.nan
    if cell.method in config.packed and cell.seed < config.packed_seeds:
      agree, gap = _packed_agreement(model, logits, pictures.test)
    return {
      'accuracy': 100 * np.mean(right),
      'kl': [report.kl_calibration, report.kl_audit, jnp.mean(kl_test)],
      'agree': agree,
      'gap': gap,
      'seconds': seconds,
      'report': json.dumps(files.plain(report.as_dict())),
    }


class Ahead:
  """Computes cells before they are asked for, on the cores of a CPU.

  Most of a small quantization compiles or waits for one core. The first cell of
  each network is done alone: it trains the network, and the others share most
  of its programs. Ask within `with`, in the order of the cells.
  """

  def __init__(
    self, measure: Callable[[Cell], dict[str, Any]], cells: Sequence[Cell]
  ):
    self._measure = measure
    self._left = list(cells)
    self._jobs: dict[Cell, concurrent.futures.Future] = {}
    self._begun: set[tuple[str, int]] = set()
    on_cpu = jax.default_backend() == 'cpu'
    self._workers = startup.cores() if on_cpu else 1
    self._pool = concurrent.futures.ThreadPoolExecutor(self._workers)

  def __enter__(self) -> Self:
    return self

  def __exit__(self, *_) -> None:
    self._pool.shutdown(wait=False, cancel_futures=True)

  def __call__(self, cell: Cell) -> dict[str, Any]:
    """Returns what was measured; all cells after this one will be asked for."""
    del self._left[: self._left.index(cell)]
    if (cell.network, cell.net) not in self._begun or self._workers == 1:
      self._begun.add((cell.network, cell.net))
      return self._measure(cell)
    for other in self._left[: self._workers]:
      begun = (other.network, other.net) in self._begun
      if begun and other not in self._jobs:
        self._jobs[other] = self._pool.submit(self._measure, other)
    return self._jobs.pop(cell).result()


def _packed_agreement(model, logits, x) -> tuple[tuple[int, int], float]:
  """How often codes in the kernel give the class that floats give."""
  found = networks.logits_of(lambda x: export.apply(model, x, 'integer'), x)
  same = int(np.sum(found.argmax(1) == logits.argmax(1)))
  gap = float(np.max(np.abs(found - logits)) / np.max(np.abs(logits)))
  return (same, len(logits)), gap


def _read(stored: dict[str, np.ndarray]) -> Found:
  first, second, third = stored['kl'].tolist()
  same, compared = stored['agree'].tolist()
  return Found(
    float(stored['accuracy']),
    (first, second, third),
    (same, compared),
    float(stored['gap']),
    float(stored['seconds']),
    json.loads(str(stored['report'])),
  )


class Table:
  """Numbers of all cells, by network, bit-widths and method.

  Seeds are the replications. With several trained networks each of them is
  one, and stands with its mean over the calibration seeds.
  """

  def __init__(self, found: dict[Cell, Found]):
    self.found = found
    self.networks = list(dict.fromkeys(c.network for c in found))
    self.bits = list(dict.fromkeys(c.bits for c in found))
    self.methods = list(dict.fromkeys(c.method for c in found))

  @property
  def note(self) -> str:
    """What the replications are, if not calibration seeds alone."""
    nets = len({c.net for c in self.found})
    return f'{nets} trained networks, each with its mean' if nets > 1 else ''

  def rows(self, network: str, bits: str, method: str) -> list[Found]:
    """What was found with all seeds."""
    wanted = (network, bits, method)
    return [
      found
      for cell, found in self.found.items()
      if (cell.network, cell.bits, cell.method) == wanted
    ]

  def values(self, network: str, bits: str, method: str, of) -> np.ndarray:
    """One number of each replication; `of` takes it from `Found`."""
    by_net: dict[int, list[float]] = {}
    for cell, found in self.found.items():
      if (cell.network, cell.bits, cell.method) == (network, bits, method):
        by_net.setdefault(cell.net, []).append(of(found))
    values = np.array(list(by_net.values()), np.float64)
    return values[0] if len(values) == 1 else values.mean(axis=1)

  def accuracy(self, network: str, bits: str, method: str) -> np.ndarray:
    """Accuracies in percent."""
    return self.values(network, bits, method, lambda each: each.accuracy)

  def gain(self, network: str, bits: str, a: str, b: str) -> np.ndarray:
    """Points by which method a is ahead of b, paired."""
    return self.accuracy(network, bits, a) - self.accuracy(network, bits, b)

  def mean_gain(self, bits: str, a: str, b: str) -> np.ndarray:
    """The same, mean over the networks."""
    gains = [self.gain(name, bits, a, b) for name in self.networks]
    return np.mean(gains, axis=0)
