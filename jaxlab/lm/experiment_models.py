"""Of the experiments: the model that a config names, ready to be applied."""

import pathlib
from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxlab import errors
from jaxlab.lm import loading, packages
from jaxlab.lm.config import ModelConfig
from jaxlab.lm.model import ApplyFn, Decoder, apply_fn
from jaxlab.lm.tokenizer import Tokenizer

_DTYPES = {'float32': jnp.float32, 'bfloat16': jnp.bfloat16}


class Loaded(NamedTuple):
  """A language model.

  Attributes:
    cfg: its sizes.
    params: its parameters.
    tokenizer: its tokenizer.
    apply_fn: the function of (params, tokens).
  """

  cfg: ModelConfig
  params: Any
  tokenizer: Tokenizer
  apply_fn: ApplyFn


def load(config) -> Loaded:
  """Reads `config.model`: the name of a package, a GGUF file or a folder.

  Raises:
    UserError: if there is no such model, or it has no tokenizer.
    MissingDataError: if its package is not installed.
  """
  name = str(config.model) or 'nothing'
  dtype = _DTYPES.get(config.get('dtype', 'float32'))
  if dtype is None:
    raise errors.UserError(
      f'config.dtype is {config.dtype!r}; choose one of {", ".join(_DTYPES)}.'
    )
  tokenizer: Tokenizer | None
  if name in packages.PACKAGES:
    cfg, params, tokenizer = loading.from_pretrained_package(name, dtype)
  elif pathlib.Path(name).is_dir():
    cfg, params, tokenizer = loading.from_safetensors(name, dtype)
  elif pathlib.Path(name).is_file():
    cfg, params, tokenizer = loading.from_gguf(name, dtype)
  else:
    known = ', '.join(packages.PACKAGES)
    raise errors.UserError(
      f'config.model is {name!r}: neither one of {known}, nor a GGUF file, nor'
      ' a folder with config.json and safetensors.'
    )
  if tokenizer is None:
    raise errors.UserError(f'{name} has no tokenizer.json; add it.')
  fn = apply_fn(Decoder(cfg, dtype=dtype, param_dtype=dtype))
  return Loaded(cfg, params, tokenizer, fn)
