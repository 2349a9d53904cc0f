"""Of the experiments: logits by other programs."""

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxlab import errors
from jaxlab.lm import loading, metadata, reference

ORACLES = ('float64', 'transformers')


def make(
  name: str, keys: Mapping[str, Any], tensors: Mapping[str, np.ndarray]
) -> Callable[[list[int]], np.ndarray]:
  """Returns the oracle's function from T tokens to logits `[T, V]`.

  Args:
    name: 'float64' is `reference`; 'transformers' is PyTorch's model.
    keys: metadata of a GGUF file.
    tensors: its tensors, decoded.

  Raises:
    UserError: if its packages are not installed.
  """
  if name == 'float64':
    return lambda ids: reference.logits(keys, tensors.get, ids)
  cfg, params = loading.from_tensors(keys, tensors)
  torch, network = transformers_model(cfg, params)

  def logits(ids: list[int]) -> np.ndarray:
    with torch.no_grad():
      return network(torch.tensor([ids])).logits[0].numpy()

  return logits


def check(name: str) -> None:
  """Raises UserError if the packages of an oracle are not installed."""
  for package in ('torch', 'transformers') if name == 'transformers' else ():
    if importlib.util.find_spec(package) is None:
      peer(package)


def transformers_model(cfg: Any, params: Any) -> tuple[Any, Any]:
  """Returns torch and the same model in transformers, in float32.

  Raises:
    UserError: if they are not installed.
  """
  torch = peer('torch')
  transformers = peer('transformers')
  config = dict(metadata.to_hub_config(cfg))
  kind = config.pop('model_type')
  config.pop('torch_dtype')
  settings = transformers.AutoConfig.for_model(kind, **config)
  network = transformers.AutoModelForCausalLM.from_config(
    settings, dtype=torch.float32
  )
  weights = {
    name: torch.from_numpy(np.array(array))
    for name, array in loading.to_hub_tensors(cfg, params).items()
  }
  missing, unexpected = network.load_state_dict(weights, strict=False)
  missing = [name for name in missing if name != 'lm_head.weight']
  if missing or unexpected:
    raise errors.UserError(
      f'transformers {transformers.__version__} names parameters otherwise:'
      f' missing {missing[:3]}, unexpected {unexpected[:3]}.'
    )
  network.tie_weights()
  return torch, network.eval()


def peer(name: str) -> Any:
  """Imports a package that only comparisons need.

  Raises:
    UserError: if it is not installed.
  """
  try:
    return importlib.import_module(name)
  except ImportError as error:
    raise errors.UserError(
      f'{name} is not installed: pip install {name}, or compare with another'
      ' program.'
    ) from error
