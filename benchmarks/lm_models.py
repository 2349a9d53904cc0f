"""The models that are timed, and what is common to their rows."""

import contextlib
import functools
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import peers
from jaxlab.lm import loading, packages, sampling
from jaxlab.lm.config import ModelConfig
from jaxlab.lm.model import ApplyFn, Decoder, apply_fn
from jaxlab.lm.tokenizer import Tokenizer

SMOLLM2 = 'smollm2-135m'
GEMMA3 = 'gemma3-270m'


class Model(NamedTuple):
  """A model with its parameters.

  Attributes:
    name: how rows call it.
    fn: the function of (params, tokens).
    params: its parameters.
  """

  name: str
  fn: ApplyFn
  params: Any

  @property
  def cfg(self) -> ModelConfig:
    """Its sizes."""
    return self.fn.model.cfg

  def astype(self, dtype: Any) -> 'Model':
    """Returns the model with parameters and computations in a dtype."""
    params = jax.tree.map(lambda x: x.astype(dtype), self.params)
    fn = apply_fn(Decoder(self.cfg, param_dtype=dtype))
    return self._replace(fn=fn, params=params)

  @property
  def nbytes(self) -> int:
    """Bytes of its parameters."""
    return sum(x.nbytes for x in jax.tree.leaves(self.params))


@functools.cache
def smollm2() -> tuple[Model, Tokenizer] | None:
  """SmolLM2 in float32 and its tokenizer; None where it is not installed."""
  if packages.find(SMOLLM2) is None:
    return None
  cfg, params, tokenizer = loading.from_pretrained_package(SMOLLM2)
  return Model('SmolLM2', apply_fn(Decoder(cfg)), params), tokenizer


def tiny(n_layers: int = 4) -> Model:
  """A Llama of a million parameters, untrained."""
  cfg = ModelConfig(
    arch='llama',
    n_layers=n_layers,
    d_model=128,
    n_heads=4,
    n_kv_heads=2,
    head_dim=32,
    d_ff=384,
    vocab_size=512,
  )
  decoder = Decoder(cfg)
  tokens = jnp.zeros((1, 4), jnp.int32)
  params = jax.jit(decoder.init)(jax.random.key(0), tokens)['params']
  return Model('a Llama of 1M', apply_fn(decoder), params)


def path(name: str) -> pathlib.Path:
  """Where the GGUF file of an installed model is."""
  return packages.require(name)


def cure(name: str) -> str:
  """What stands in rows whose model is not here."""
  title = packages.PACKAGES[name].title
  return f'{title} is not installed: jaxlab data prepare {name}'


def random_tokens(model: Model, batch: int, length: int) -> np.ndarray:
  """`[batch, length]` int32."""
  rng = np.random.default_rng(batch * length)
  shape = batch, length
  return rng.integers(0, model.cfg.vocab_size, shape, dtype=np.int32)


def prompts(tokenizer: Tokenizer, batch: int, length: int) -> np.ndarray:
  """`[batch, length]` int32: lists of sums, others in each row."""
  rows = []
  for seed in range(batch):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(10, 100, (length, 2)).tolist()
    text = ' '.join(f'The sum of {a} and {b} is {a + b}.' for a, b in pairs)
    rows.append(tokenizer.encode(text)[:length])
  return np.array(rows, np.int32)


def greedy(model: Model, tokens: np.ndarray, new: int) -> np.ndarray:
  """Returns the likeliest tokens `[B, new]`."""
  sp = sampling.SamplingParams(temperature=0.0, max_new=new)
  mask = np.ones(tokens.shape, bool)
  key = jax.random.key(0)
  out = sampling.generate(model.fn, model.params, tokens, mask, key, sp)
  return np.asarray(out.tokens)


@contextlib.contextmanager
def in_torch(model: Model, threads: int) -> Iterator[peers.Peer]:
  """The same weights in transformers, if that is installed."""
  with (
    peers.Peer('transformers', 'lm_torch.py') as peer,
    tempfile.TemporaryDirectory() as folder,
  ):
    if peer.version is not None:
      loading.to_safetensors(folder, model.cfg, model.params)
      peer.run(kind='load', folder=folder, threads=threads)
    yield peer
