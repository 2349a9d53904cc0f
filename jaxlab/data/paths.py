"""Where data sets lie.

- `JAXLAB_DATA`: folder with one subfolder of raw files a data set. Default:
  `shared/data` beside the checkout when that exists, else `data` in the cache.
- `JAXLAB_CACHE`: folder of prepared copies. Default: `~/.cache/jaxlab`.
"""

import os
import pathlib

from jaxlab.cache import cache_root


def data_root() -> pathlib.Path:
  """Returns the folder that holds the raw files of all data sets."""
  if folder := os.environ.get('JAXLAB_DATA'):
    return pathlib.Path(folder).expanduser()
  checkout = pathlib.Path(__file__).resolve().parents[2]
  beside = checkout.parent / 'shared' / 'data'
  return beside if beside.is_dir() else cache_root() / 'data'


def prepared_root() -> pathlib.Path:
  """Returns the `data_dir` of all TensorFlow Datasets builders."""
  return cache_root() / 'tensorflow_datasets'
