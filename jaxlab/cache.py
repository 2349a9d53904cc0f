"""The folder of what jaxlab keeps between runs, outside them."""

import os
import pathlib


def cache_root() -> pathlib.Path:
  """Returns the folder named by `JAXLAB_CACHE`, else `~/.cache/jaxlab`."""
  folder = os.environ.get('JAXLAB_CACHE') or '~/.cache/jaxlab'
  return pathlib.Path(folder).expanduser()
