"""Language models: python -m benchmarks.lm [--quick].

Files beside the package gguf, reading and writing of text beside transformers
and llama.cpp, training beside PyTorch: other programs in a process of their
own, with as many threads as there are cores. Both sides have the same weights.
"""

import hashlib
import json
import logging
import math
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from benchmarks import (
  cpu_time,
  lm_generation,
  lm_models,
  lm_training,
  peers,
  timing,
)
from benchmarks.timing import Row, Side
from jaxlab.lm import gguf_io, loading, packages, sampling

_ABSENT = 'gguf: not installed'
_PARSE_GOAL = timing.faster(5)
_DECODE_GOAL = cpu_time.at_most(1.5)
# What GGUFReader adds to the keys of the file.
_COUNTS = 'GGUF.'


def rows(quick: bool) -> Iterator[Row]:
  """Yields the rows, with fewer and smaller instances if `quick`."""
  yield compilations(quick)
  yield compile_times(1 if quick else 3)
  yield from files(quick)
  yield from lm_generation.rows(quick)
  if not quick:
    yield from lm_training.rows()


def files(quick: bool) -> Iterator[Row]:
  """Reading of GGUF files."""
  repeats = 1 if quick else 3
  with peers.Peer('gguf', 'lm_gguf.py') as peer:
    names = [lm_models.SMOLLM2] + [lm_models.GEMMA3] * (not quick)
    for name in names:
      path, title = packages.find(name), packages.PACKAGES[name].title
      works = (
        (f'Header and vocabulary of {title}', _PARSE_GOAL),
        (f'All weights of {title}, decoded and stacked', _DECODE_GOAL),
      )
      if path is None or peer.version is None:
        why = lm_models.cure(name) if path is None else _ABSENT
        note = '' if path is None else peers.CURE
        for work, goal in works:
          yield timing.unmeasured(work, why, 's', goal=goal, note=note)
        continue
      yield header(works[0][0], path, peer, repeats)
      yield weights(works[1][0], path, peer, repeats)


def header(
  work: str, path: pathlib.Path, peer: peers.Peer, repeats: int
) -> Row:
  """All keys, with the strings of the vocabulary."""

  def theirs(seed: int) -> Any:
    if seed:
      return peer.run(kind='parse', path=str(path), output='')
    with tempfile.TemporaryDirectory() as folder:
      output = pathlib.Path(folder, 'header.json')
      peer.run(kind='parse', path=str(path), output=str(output))
      return json.loads(output.read_text())

  assert peer.version
  return timing.compare(
    work,
    Side(lambda _: gguf_io.read_gguf(path), 1),
    Side(theirs, 1, peer.version),
    same_header,
    unit='s',
    goal=_PARSE_GOAL,
    repeats=repeats,
  )


def same_header(found: gguf_io.GGUFFile, expected: dict[str, Any]) -> str:
  """Compares keys and shapes.

  Raises:
    DisagreementError: if they differ.
  """
  keys = {
    name: value.tolist() if isinstance(value, np.ndarray) else value
    for name, value in found.metadata.items()
  }
  shapes = {name: list(each.shape) for name, each in found.tensors.items()}
  theirs = {
    name: value
    for name, value in expected['keys'].items()
    if not name.startswith(_COUNTS)
  }
  if keys != theirs or shapes != expected['shapes']:
    names = [n for n in {**keys, **theirs} if keys.get(n) != theirs.get(n)]
    raise timing.DisagreementError(f'keys {names[:10]}, or shapes')
  return f'all {len(keys)} keys and {len(shapes)} shapes are the same'


def weights(
  work: str, path: pathlib.Path, peer: peers.Peer, repeats: int
) -> Row:
  """From blocks to the parameters of a model; there, to separate arrays."""
  file = gguf_io.read_gguf(path)
  peer.run(kind='parse', path=str(path), output='')

  def ours(seed: int) -> Any:
    del seed
    made = loading.from_tensors(file.metadata, file.tensors)
    return jax.block_until_ready(made)

  def agree(found: Any, expected: dict[str, str]) -> str:
    _, tensors = loading.to_tensors(*found)
    differ = [
      name
      for name, array in tensors.items()
      if hashlib.sha256(array.data).hexdigest() != expected.get(name)
    ]
    if differ or len(tensors) != len(expected):
      raise timing.DisagreementError(f'tensors {differ[:10]}, or their number')
    return f'all bits of {len(tensors)} tensors are the same'

  assert peer.version
  return timing.compare(
    work,
    Side(ours, 1),
    Side(
      lambda seed: peer.run(kind='dequantize', digests=not seed),
      *(1, peer.version),
    ),
    agree,
    unit='s',
    goal=_DECODE_GOAL,
    repeats=repeats,
  )


def compilations(quick: bool) -> Row:
  """Programs that prompts of many lengths need."""
  model, batches = lm_models.tiny(), (1, 2)
  lengths = range(5, 31, 5) if quick else range(5, 41)
  pairs = len({max(16, 2 ** math.ceil(math.log2(n))) for n in lengths})
  pairs *= len(batches)
  jax.clear_caches()
  with _Compiled() as compiled, jax.log_compiles():
    for batch in batches:
      for length in lengths:
        tokens = lm_models.random_tokens(model, batch, length)
        lm_models.greedy(model, tokens, 4)
  names = compiled.names
  return timing.measured(
    f'Programs of generate for prompts of {lengths[0]} to {lengths[-1]} tokens,'
    f' batches of {" and ".join(map(str, batches))}',
    *(float(names.count('jit(_generate)')), ''),
    goal=cpu_time.up_to(pairs, ''),
    note=f'and {len(names)} in all, with what prepares the prompts',
  )


class _Compiled(logging.Handler):
  """Collects the names of the programs that jax compiles."""

  def __init__(self) -> None:
    super().__init__()
    self.names: list[str] = []

  def __enter__(self) -> '_Compiled':
    self._logger = logging.getLogger('jax')
    self._propagates = self._logger.propagate
    self._others = self._logger.handlers
    self._logger.handlers, self._logger.propagate = [self], False
    return self

  def __exit__(self, *_: Any) -> None:
    self._logger.handlers = self._others
    self._logger.propagate = self._propagates

  def emit(self, record: logging.LogRecord) -> None:
    """Reads a line such as 'Compiling jit(f) with global shapes ..'."""
    first, *rest = record.getMessage().split()
    if first == 'Compiling':
      self.names.append(rest[0])


def compile_times(repeats: int) -> Row:
  """Compilation of prefill and decode with depth."""
  deep, shallow = (_compilation(n_layers) for n_layers in (24, 12))
  deep(0)
  taken = timing.alternate([deep, shallow], repeats)
  return cpu_time.against(
    'To compile prefill and decode of a Llama of width 128: 24 layers',
    *map(statistics.median, taken),
    'jaxlab, 12 layers',
    unit='s',
    goal=cpu_time.at_most(1.25),
    note='tracing included, without a cache',
  )


def _compilation(n_layers: int) -> Callable[[int], Any]:
  """Compiles anew at each call."""
  model = lm_models.tiny(n_layers)
  tokens = lm_models.random_tokens(model, 1, 64)
  sp = sampling.SamplingParams(temperature=0.0, max_new=16)

  def compiled(seed: int) -> Any:
    jax.clear_caches()

    def write(params, tokens, key):
      mask = tokens >= 0
      return sampling.generate(model.fn, params, tokens, mask, key, sp)

    given = model.params, tokens, jax.random.key(seed)
    return jax.jit(write).lower(*given).compile()

  return compiled


if __name__ == '__main__':
  from benchmarks.__main__ import main

  sys.exit(main(['lm', *sys.argv[1:]]))
