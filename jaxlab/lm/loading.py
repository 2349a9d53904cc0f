"""Models from files and back: sizes, parameters, tokenizer.

    cfg, params, tokenizer = from_gguf('model.gguf')
    model = Decoder(cfg)

Files that were made for llama.cpp (GGUF) store queries and keys of Llama in
the order of interleaved rotation, and norms of Gemma with their one added;
checkpoints of the Hugging Face hub do neither. Parameters here always have the
order of rotated halves and the scale that is multiplied.
"""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxlab import errors
from jaxlab.lm import checks, gguf_io, metadata, names, packages, safetensors_io
from jaxlab.lm.config import ModelConfig, number
from jaxlab.lm.tokenizer import Tokenizer

_VISION = ('vision_tower.', 'multi_modal_projector.')

Params = dict[str, Any]


def from_tensors(
  keys: Mapping[str, Any],
  tensors: Mapping[str, Any],
  dtype: DTypeLike = jnp.float32,
  sharding: Any = None,
) -> tuple[ModelConfig, Params]:
  """Builds a model from what a GGUF file holds.

  Args:
    keys: metadata, as `gguf_io.read_gguf` gives it.
    tensors: arrays `[out, in]` by their names in the file, or
      `gguf_io.GGUFTensor`s, of which one at a time is then decoded.
    dtype: of the parameters; bfloat16 halves their memory.
    sharding: a sharding for every parameter, or a function
      `(path, shape) -> sharding` of names such as 'layers/q/kernel'; None puts
      all on one device.

  Returns:
    Sizes and parameters of a `Decoder`.

  Raises:
    UserError: if keys or tensors are missing, unexpected or do not fit.
  """
  shapes = {name: _shape(each) for name, each in tensors.items()}
  cfg = metadata.from_gguf_metadata(keys, shapes)
  if 'rope_freqs.weight' in tensors:
    stored = _array(tensors['rope_freqs.weight']).ravel().tolist()
    factors = tuple(number('rope_freqs.weight', each) for each in stored)
    cfg = dataclasses.replace(cfg, rope_factors=factors)

  def read(parameter: names.Named, name: str) -> np.ndarray:
    array = _array(tensors[name])
    if cfg.arch == 'llama' and parameter.path[1:2] in (('q',), ('k',)):
      array = _halves_from_pairs(array, cfg.head_dim)
    return array

  checks.check_tensors('the GGUF file', cfg, 'gguf', shapes)
  return cfg, _build(cfg, 'gguf', read, dtype, sharding)


def from_gguf(
  path: str | os.PathLike[str],
  dtype: DTypeLike = jnp.float32,
  sharding: Any = None,
) -> tuple[ModelConfig, Params, Tokenizer]:
  """Reads a model and its tokenizer from a GGUF file.

  Args:
    path: the file.
    dtype: as for `from_tensors`.
    sharding: as for `from_tensors`.

  Raises:
    UserError: if the file is damaged, has no tokenizer or the model is not
      one of ours.
  """
  found = gguf_io.read_gguf(path)
  if not any(key.startswith('tokenizer.ggml.') for key in found.metadata):
    raise errors.UserError(
      f'{path} has no keys tokenizer.ggml.*; loading.from_tensors reads it'
      ' without a tokenizer.'
    )
  cfg, params = from_tensors(found.metadata, found.tensors, dtype, sharding)
  return cfg, params, Tokenizer.from_gguf(found.metadata)


def from_pretrained_package(
  name: str, dtype: DTypeLike = jnp.float32, sharding: Any = None
) -> tuple[ModelConfig, Params, Tokenizer]:
  """Reads a model that is installed as a Python package.

  Args:
    name: such as 'smollm2-135m'; see `packages.PACKAGES`.
    dtype: as for `from_tensors`.
    sharding: as for `from_tensors`.

  Raises:
    MissingDataError: if it is not installed; says how to.
  """
  return from_gguf(packages.require(name), dtype, sharding)


def from_safetensors(
  path: str | os.PathLike[str],
  dtype: DTypeLike = jnp.float32,
  sharding: Any = None,
) -> tuple[ModelConfig, Params, Tokenizer | None]:
  """Reads a folder of the Hugging Face hub.

  Args:
    path: holds `config.json`, the weights in one file or several with an
      index, and mostly `tokenizer.json`.
    dtype: as for `from_tensors`.
    sharding: as for `from_tensors`.

  Returns:
    Sizes, parameters, and the tokenizer where there is one.

  Raises:
    UserError: if files are missing or damaged or the model is not one of ours.
  """
  folder = pathlib.Path(path)
  cfg = metadata.from_hub_config(safetensors_io.read_hf_config(folder))
  tensors = _hub_tensors(folder)
  cfg = dataclasses.replace(
    cfg,
    tie_embeddings=cfg.tie_embeddings or 'lm_head.weight' not in tensors,
  )
  params = _from_hub(cfg, tensors, dtype, sharding)
  file = folder / 'tokenizer.json'
  return cfg, params, Tokenizer.from_json(file) if file.exists() else None


def load_safetensors(
  path: str | os.PathLike[str],
  cfg: ModelConfig,
  dtype: DTypeLike = jnp.float32,
  sharding: Any = None,
) -> Params:
  """Reads the parameters of a known model.

  Args:
    path: a file, or a folder with one or with an index.
    cfg: the model.
    dtype: as for `from_tensors`.
    sharding: as for `from_tensors`.

  Raises:
    UserError: if tensors are missing, unexpected (ten are listed) or of
      another shape.
  """
  return _from_hub(cfg, _hub_tensors(path), dtype, sharding)


def to_tensors(
  cfg: ModelConfig, params: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
  """Returns metadata and tensors as `from_tensors` takes them.

  Args:
    cfg: the model.
    params: its parameters.

  Raises:
    UserError: if the parameters are those of another model.
  """
  tensors = {}
  for parameter, name, array in _unstacked(cfg, params, 'gguf'):
    turned = cfg.arch == 'llama' and parameter.path[1:2] in (('q',), ('k',))
    tensors[name] = _pairs_from_halves(array, cfg.head_dim) if turned else array
  keys = metadata.to_gguf_metadata(cfg)
  if cfg.rope_factors:
    tensors['rope_freqs.weight'] = np.asarray(cfg.rope_factors, np.float32)
  return keys, tensors


def to_gguf(
  path: str | os.PathLike[str],
  cfg: ModelConfig,
  params: Mapping[str, Any],
  *,
  tokenizer_metadata: Mapping[str, Any] | None = None,
  qtype: str = 'F32',
) -> None:
  """Writes a GGUF file, which llama.cpp reads too.

  Args:
    path: the file; an old one stays whole until the new one is.
    cfg: the model.
    params: its parameters.
    tokenizer_metadata: keys `tokenizer.*` of the file it came from.
    qtype: of the matrices: 'F32', 'F16', 'BF16', 'Q8_0' or 'Q4_1'; norms,
      biases and matrices whose rows are no multiple of 32 stay F32.

  Raises:
    UserError: if the type is unknown, the parameters are those of another
      model, or the file cannot be written.
  """
  if qtype not in gguf_io.WRITTEN:
    raise errors.UserError(
      f'qtype={qtype!r} is none of {", ".join(gguf_io.WRITTEN)}.'
    )
  keys, tensors = to_tensors(cfg, params)
  tokens = {
    key: value
    for key, value in (tokenizer_metadata or {}).items()
    if key.startswith('tokenizer.')
  }
  blocks = qtype.startswith('Q')
  qtypes = {
    name: qtype
    if array.ndim == 2 and not (blocks and array.shape[1] % 32)
    else 'F32'
    for name, array in tensors.items()
  }
  gguf_io.write_gguf(path, {**keys, **tokens}, tensors, qtypes)


def to_hub_tensors(
  cfg: ModelConfig, params: Mapping[str, Any]
) -> dict[str, np.ndarray]:
  """Returns the tensors of a checkpoint of the hub, in float32.

  Args:
    cfg: the model.
    params: its parameters.

  Raises:
    UserError: if the parameters are those of another model.
  """
  tensors = {}
  for parameter, name, array in _unstacked(cfg, params, 'hub'):
    gemma_norm = cfg.arch == 'gemma3' and parameter.is_norm
    tensors[name] = array - 1 if gemma_norm else array
  return tensors


def to_safetensors(
  path: str | os.PathLike[str], cfg: ModelConfig, params: Mapping[str, Any]
) -> None:
  """Writes `config.json` and `model.safetensors` as the hub has them.

  Args:
    path: the folder; made where it is missing.
    cfg: the model.
    params: its parameters.

  Raises:
    UserError: if the parameters are those of another model, or the folder
      cannot be written to.
  """
  if os.path.isfile(path):
    raise errors.UserError(f'{path} is a file; name a folder.')
  folder = pathlib.Path(path)
  safetensors_io.write_safetensors(
    folder / 'model.safetensors', to_hub_tensors(cfg, params), {'format': 'pt'}
  )
  safetensors_io.write_hf_config(folder, metadata.to_hub_config(cfg))


def _from_hub(cfg, tensors, dtype, sharding) -> Params:
  def read(parameter: names.Named, name: str) -> np.ndarray:
    array = np.asarray(tensors[name], np.float32)
    gemma_norm = cfg.arch == 'gemma3' and parameter.is_norm
    return array + 1 if gemma_norm else array

  if cfg.tie_embeddings:  # some checkpoints store the tied head as well
    tensors = {k: v for k, v in tensors.items() if k != 'lm_head.weight'}
  shapes = {name: tensor.shape for name, tensor in tensors.items()}
  checks.check_tensors('the checkpoint', cfg, 'hub', shapes)
  return _build(cfg, 'hub', read, dtype, sharding)


def _hub_tensors(path) -> dict[str, Any]:
  """Returns the tensors of the language model, whatever it is a part of."""
  found = {}
  for name, tensor in safetensors_io.read_safetensors(path).items():
    short = name.removeprefix('model.') if '.language_model.' in name else name
    short = short.removeprefix('language_model.')
    if not short.startswith(('model.', 'lm_head.')):
      short = f'model.{short}'
    if not name.removeprefix('model.').startswith(_VISION):
      found[short] = tensor
  return found


def _build(
  cfg: ModelConfig,
  kind: str,
  read: Callable[[names.Named, str], np.ndarray],
  dtype: DTypeLike,
  sharding: Any,
) -> Params:
  """Decodes, transposes and stacks one parameter after the other."""
  dtype = checks.check_float(dtype)
  params: Params = {}
  for parameter in names.named(cfg):
    name = getattr(parameter, kind)
    if parameter.is_stacked:
      # Stacked in the wanted dtype: one copy of the parameter at a time.
      array = np.empty(parameter.tree_shape(cfg), dtype)
      for layer in range(cfg.n_layers):
        one = read(parameter, name.format(layer))
        array[layer] = one.T if parameter.transposed else one
    else:
      one = read(parameter, name)
      one = one.T if parameter.transposed else one
      array = np.ascontiguousarray(one).astype(dtype, copy=False)
    path = '/'.join(parameter.path)
    where = sharding(path, array.shape) if callable(sharding) else sharding
    placed = (
      jnp.asarray(array) if where is None else jax.device_put(array, where)
    )
    _put(params, parameter.path, placed)
  return params


def _unstacked(cfg: ModelConfig, params: Mapping[str, Any], kind: str):
  """Yields parameter, name in the file and array as files have it."""
  checks.check_params(cfg, params)
  for parameter in names.named(cfg):
    leaf: Any = params
    for part in parameter.path:
      leaf = leaf[part]
    array = np.asarray(jax.device_get(leaf)).astype(np.float32)
    rows = array if parameter.is_stacked else array[None]
    for layer, row in enumerate(rows):
      name = getattr(parameter, kind).format(layer)
      stored = row.T if parameter.transposed else row
      yield parameter, name, np.ascontiguousarray(stored)


def _put(tree: Params, path: Sequence[str], leaf: Any) -> None:
  for part in path[:-1]:
    tree = tree.setdefault(part, {})
  tree[path[-1]] = leaf


def _shape(tensor: Any) -> tuple[int, ...]:
  packed = isinstance(tensor, gguf_io.GGUFTensor)
  return tuple(tensor.shape if packed else np.shape(tensor))


def _array(tensor: Any) -> np.ndarray:
  """Returns a tensor's numbers, decoded where it is packed."""
  if isinstance(tensor, gguf_io.GGUFTensor):
    return tensor.array()
  return np.asarray(tensor)


def _halves_from_pairs(rows: np.ndarray, head_dim: int) -> np.ndarray:
  """Undoes the order of interleaved rotation: `[heads * H, ...]`."""
  pairs = rows.reshape(-1, head_dim // 2, 2, *rows.shape[1:])
  return pairs.swapaxes(1, 2).reshape(rows.shape)


def _pairs_from_halves(rows: np.ndarray, head_dim: int) -> np.ndarray:
  halves = rows.reshape(-1, 2, head_dim // 2, *rows.shape[1:])
  return halves.swapaxes(1, 2).reshape(rows.shape)
