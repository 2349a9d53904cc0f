"""Finds, lists and loads the config files of the experiments."""

import ast
import difflib
import inspect
import os
import pathlib
import re
import runpy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import ml_collections
from absl import flags
from ml_collections import config_flags

from jaxlab import errors

MODES = ('', 'full', 'test')


class Listing(NamedTuple):
  """What the docstring of a config file says.

  Attributes:
    summary: its first line.
    time: how long the default mode takes.
    claims: the claims it checks.
  """

  summary: str
  time: str
  claims: str


class Loaded(NamedTuple):
  """A config ready to run.

  Attributes:
    name: `'bandits/model_selection'`, or the file's stem for a user's file.
    mode: one of `MODES`.
    path: the file.
    config: locked, with the overrides applied.
    overrides: dotted field -> value from the command line.
    rest: arguments that are neither flags nor overrides.
  """

  name: str
  mode: str
  path: pathlib.Path
  config: ml_collections.ConfigDict
  overrides: dict[str, Any]
  rest: list[str]


def configs_root() -> pathlib.Path:
  """Returns the folder of the configs, in a checkout or once installed."""
  package = pathlib.Path(__file__).parents[1]
  installed = package / 'configs'
  return installed if installed.is_dir() else package.parent / 'configs'


def names() -> list[str]:
  """Returns the names of all configs that come with the package."""
  root = configs_root()
  return sorted(
    path.relative_to(root).with_suffix('').as_posix()
    for path in root.glob('*/*.py')
    if not path.name.startswith('_')
  )


def listing(path: pathlib.Path) -> Listing:
  """Reads the docstring of a config without running the file."""
  text = ast.get_docstring(ast.parse(path.read_text())) or ''
  fields = {}
  for name in ('Time', 'Claims'):
    found = re.search(rf'^{name}:((?:.*)(?:\n[ \t]+\S.*)*)', text, re.MULTILINE)
    fields[name.lower()] = ' '.join(found[1].split()) if found else ''
  return Listing(text.partition('\n')[0], **fields)


def find(reference: str) -> tuple[str, pathlib.Path, str]:
  """Resolves `NAME[:mode]` or `FILE.py[:mode]`.

  Args:
    reference: a name as `names` gives it, or a path. A path that begins with
      `configs/` also works away from the checkout.

  Returns:
    Name, file and mode.

  Raises:
    UserError: if there is no such config or mode.
  """
  stem, _, mode = reference.partition(':')
  if mode not in MODES:
    raise errors.UserError(
      f'unknown mode {mode!r} of {stem}{_suggest(mode, MODES)}; leave it out or'
      ' use full or test.'
    )
  root = configs_root()
  name = stem.removesuffix('.py').removeprefix('./').removeprefix('configs/')
  shipped = root / f'{name}.py'
  path = pathlib.Path(stem)
  if not (path.suffix == '.py' and path.is_file()):
    path = shipped
  if not path.is_file():
    raise errors.UserError(
      f'unknown config {stem!r}{_suggest(name, names())}; `jaxlab list` shows'
      ' them all.'
    )
  if path.resolve().is_relative_to(root.resolve()):
    inside = path.resolve().relative_to(root.resolve())
    return inside.with_suffix('').as_posix(), path, mode
  return path.stem, path, mode


def load(
  reference: str, arguments: Sequence[str], flag_values: flags.FlagValues
) -> Loaded:
  """Loads a config and applies `--config.field=value` from the command line.

  Args:
    reference: as for `find`.
    arguments: the command line without the reference.
    flag_values: the other flags that `arguments` may hold; `config` is added.

  Returns:
    The config and what was given.

  Raises:
    UserError: unknown config, mode, field or flag, or a value of a wrong type.
  """
  name, path, mode = find(reference)
  config = _read(path, mode)
  _check_fields(config, arguments)
  try:
    config_flags.DEFINE_config_dict(
      'config', config, flag_values=flag_values, sys_argv=list(arguments)
    )
    rest = flag_values(['jaxlab', *arguments])[1:]
  except (flags.Error, TypeError, ValueError) as error:
    raise errors.UserError(_explain(error, config)) from error
  flag = flag_values['config']
  overrides = config_flags.get_override_values(flag)
  seed = (flag.value or config).get('seed', 0)
  if isinstance(seed, int) and not 0 <= seed < 2**32:
    raise errors.UserError(
      f'config.seed must be a whole number from 0 to {2**32 - 1}, got {seed}.'
    )
  return Loaded(name, mode, path, flag.value, dict(overrides), rest)


def sweep_of(path: pathlib.Path) -> Callable[[], list[Mapping[str, Any]]]:
  """Returns `get_sweep` of a config file, or one that varies nothing."""
  return _run(path).get('get_sweep', lambda: [{}])


def _run(path: pathlib.Path) -> dict[str, Any]:
  try:
    return runpy.run_path(os.fspath(path))
  except SyntaxError as error:
    raise errors.UserError(
      f'{path}, line {error.lineno}: {error.msg}.'
    ) from error


def _read(path: pathlib.Path, mode: str) -> ml_collections.ConfigDict:
  get_config = _run(path).get('get_config')
  if get_config is None:
    raise errors.UserError(f'{path} does not define get_config().')
  arguments = (mode,) if mode else ()
  try:
    inspect.signature(get_config).bind(*arguments)
  except TypeError as error:
    raise errors.UserError(
      f'get_config of {path} does not take the mode {mode!r}: {error}.'
    ) from error
  config = get_config(*arguments)
  if not isinstance(config, ml_collections.ConfigDict):
    raise errors.UserError(
      f'get_config of {path} returned {type(config).__name__}, not ConfigDict.'
    )
  if not isinstance(config.get('experiment'), str):
    raise errors.UserError(
      f'{path} does not say which experiment it is for; set config.experiment.'
    )
  return config


def _check_fields(
  config: ml_collections.ConfigDict, arguments: Sequence[str]
) -> None:
  fields = list(_flat(config))
  for argument in arguments:
    found = re.match(r'--?(?:no)?config\.([^=]+)', argument)
    if found and found[1] not in fields:
      raise errors.UserError(
        f'unknown field config.{found[1]}{_suggest(found[1], fields)}; the'
        f' config has {", ".join(sorted(config))}.'
      )


def _flat(config: Any, prefix: str = '') -> dict[str, Any]:
  """Returns dotted name -> value, inner nodes included."""
  flat = {}
  for key, value in config.items():
    flat[f'{prefix}{key}'] = value
    if isinstance(value, ml_collections.ConfigDict):
      flat |= _flat(value, f'{prefix}{key}.')
  return flat


def _explain(error: Exception, config: ml_collections.ConfigDict) -> str:
  """Returns one line with the type that the field of `error` has."""
  message = str(error).splitlines()[0]
  found = re.search(r'config\.([\w.]+)', message)
  fields = _flat(config)
  if not found or found[1].rstrip('.') not in fields:
    return message
  field = found[1].rstrip('.')
  value = fields[field]
  kind = type(value).__name__
  return (
    f'config.{field} takes a value of type {kind}, such as {value!r}:'
    f' {message.partition(". ")[0]}.'
  )


def _suggest(word: str, known: Sequence[str]) -> str:
  close = difflib.get_close_matches(word, [k for k in known if k], 3, 0.6)
  return f' (did you mean {" or ".join(close)}?)' if close else ''
