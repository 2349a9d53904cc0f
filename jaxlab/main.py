"""jaxlab: run and compare the experiments of this package.

Usage: jaxlab COMMAND [ARGUMENTS]

  list                     the experiments, what they check, how long they take
  run CONFIG               one experiment; a killed one resumes where it was
  sweep CONFIG             one experiment under many settings
  report [WORKDIR ...]     an HTML page about finished runs
  data list|prepare|inspect
                           the data sets
  help COMMAND             more about a command

--version prints the version; --traceback shows where an error arose.
"""

import contextlib
import errno
import hashlib
import importlib
import inspect
import os
import pathlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_collections
import rich.console
import rich.markup
import rich.table
from absl import flags

from jaxlab import errors, version
from jaxlab.harness import (
  configs,
  listing,
  outcome,
  ownership,
  processes,
  slurm,
  startup,
  sweep,
)
from jaxlab.harness import workdir as workdirs

_RUNS = pathlib.Path('runs')
_CURABLE = (
  errno.ENOENT,
  errno.EACCES,
  errno.EPERM,
  errno.EROFS,
  errno.ENOSPC,
  errno.EDQUOT,
  errno.EEXIST,
  errno.EISDIR,
  errno.ENOTDIR,
)


class _TerminatedError(BaseException):
  """SIGTERM arrived; not an Exception, so that no experiment swallows it."""


def main(argv: Sequence[str] | None = None) -> int:
  """Runs one command.

  Args:
    argv: the arguments after the program's name; `sys.argv` by default.

  Returns:
    The exit code: 0 done, 1 some runs of a sweep failed, 2 a mistake that the
    user can cure, 130 and 143 interrupted.
  """
  arguments = list(sys.argv[1:] if argv is None else argv)
  traceback = '--traceback' in arguments
  arguments = [a for a in arguments if a != '--traceback']
  try:
    with _sigterm_raises():
      return _dispatch(arguments)
  except (KeyboardInterrupt, _TerminatedError) as stop:
    resumable = arguments[:1] in (['run'], ['sweep'])
    cure = '; run the same command again to resume' if resumable else ''
    print(f'interrupted{cure}', file=sys.stderr)
    return 130 if isinstance(stop, KeyboardInterrupt) else 143
  except BrokenPipeError:
    # The reader of our output has gone; the interpreter must not flush to it.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
  except (ValueError, OSError) as error:
    known = not isinstance(error, OSError) or error.errno in _CURABLE
    if traceback or not known:
      raise
    hint = (
      '' if isinstance(error, errors.UserError) else ' (--traceback: where)'
    )
    print(f'error: {" ".join(str(error).split())}{hint}', file=sys.stderr)
    return 2


def _dispatch(arguments: list[str]) -> int:
  command, *rest = arguments or ['help']
  if command == '--version':
    print(version.__version__)
    return 0
  if command in ('help', '--help', '-h'):
    command, rest = (rest or ['help'])[0], ['--help']
  if command == 'help':
    print(__doc__)
    return 0
  if command not in _COMMANDS:
    raise errors.UserError(
      f'unknown command {command!r}; use one of {", ".join(_COMMANDS)}.'
    )
  if {'--help', '-h'} & set(rest):
    print(inspect.getdoc(_COMMANDS[command]))
    return 0
  return _COMMANDS[command](rest)


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
  """Makes SIGTERM unwind the stack, so that locks and files are closed."""

  def stop(*_):
    raise _TerminatedError

  if threading.current_thread() is not threading.main_thread():
    yield
    return
  previous = signal.signal(signal.SIGTERM, stop)
  try:
    yield
  finally:
    signal.signal(signal.SIGTERM, previous)


def _run(arguments: list[str]) -> int:
  """Runs an experiment: jaxlab run CONFIG[:MODE] [--config.FIELD=VALUE ...].

  CONFIG is a name from `jaxlab list` or a Python file with get_config(mode);
  --config=CONFIG does the same. MODE is full (the paper's scale) or test
  (seconds).

    --config.FIELD=VALUE  sets a field, such as --config.budget=4000
    --workdir=DIR         where the results go (runs/<config> by default)
    --device=auto|cpu|gpu|tpu

  A run that was killed resumes when the same command is given again.
  """
  values = _flag_values()
  flags.DEFINE_string('workdir', None, 'where', flag_values=values)
  loaded = _load(arguments, values, 'run')
  path = pathlib.Path(values.workdir or _default_workdir(loaded))
  page = path / 'report.html'
  if ownership.is_finished(path, loaded.config):
    print(
      f'finished already: {path} (delete it or choose another --workdir to run'
      ' again)'
    )
    print(f'report: {page if page.exists() else _report([path], page)}')
    return 0
  startup.start_jax(
    values.device, fast_compile=loaded.config.get('fast_compile', False)
  )
  # Only now, for a module may use JAX when it is imported.
  run = _experiment(loaded.config.experiment)
  with workdirs.Workdir.open(
    path,
    config=loaded.config,
    name=loaded.name,
    title=configs.listing(loaded.path).summary,
    mode=loaded.mode,
    argv=['jaxlab', 'run', *arguments],
  ) as workdir:
    if not workdir.is_done:
      run(loaded.config, workdir)
      workdir.finish()
    if processes.is_first():
      outcome.print_outcome(workdir.summary)
      print(f'report: {_report([path], page)}')
  return 0


def _list(arguments: list[str]) -> int:
  """Lists the experiments: jaxlab list [FAMILY].

  Times are those of the default mode on two CPU cores.
  """
  chosen = _parse(arguments, flags.FlagValues(), most=1)
  names = configs.names()
  families = dict.fromkeys(name.partition('/')[0] for name in names)
  if chosen:
    names = [name for name in names if name.partition('/')[0] == chosen[0]]
  if not names:
    raise errors.UserError(
      f'no family {chosen[0]!r}; choose one of {", ".join(families)}.'
      if chosen
      else 'there are no experiments here.'
    )
  root = configs.configs_root()
  listing.show(
    {name: configs.listing(root / f'{name}.py') for name in names},
    rich.console.Console(),
  )
  return 0


def _sweep(arguments: list[str]) -> int:
  """Runs many settings: jaxlab sweep CONFIG[:MODE] [--vary FIELD=V1,V2 ...].

  The settings are those of get_sweep() in the config file, crossed with each
  --vary. Finished runs are skipped; one that fails does not stop the others.

    --vary=config.FIELD=V1,V2,...  a grid; may be given several times
    --config.FIELD=VALUE           sets a field in all runs
    --parallel=N                   runs at a time (1)
    --launcher=local|slurm         processes here, or jobs of the cluster
    --slurm=KEY=VALUE              partition, time (minutes), nodes, mem,
                                   gpus_per_node ...; may be given several times
    --device=auto|cpu|gpu|tpu
    --out=DIR                      runs/sweep_<config> by default; gets one
                                   workdir per setting and sweep.csv
  """
  values = _flag_values()
  flags.DEFINE_integer('parallel', 1, 'n', 1, flag_values=values)
  flags.DEFINE_string('out', None, 'where', flag_values=values)
  flags.DEFINE_enum(
    'launcher', 'local', ['local', 'slurm'], 'how', flag_values=values
  )
  flags.DEFINE_multi_string('slurm', [], 'of the jobs', flag_values=values)
  flags.DEFINE_multi_string('vary', [], 'grid', flag_values=values)
  loaded = _load(arguments, values, 'sweep')
  out = values.out or _RUNS / f'sweep_{_default_workdir(loaded).name}'
  return sweep.run(
    loaded,
    values.vary,
    pathlib.Path(out),
    flags=[f'--device={values.device}'],
    launch=_launcher(values),
  )


def _launcher(values: flags.FlagValues) -> sweep.Launcher:
  if values.launcher == 'local':
    return sweep.local_launcher(values.parallel)
  options = dict(option.partition('=')[::2] for option in values.slurm)
  return slurm.launcher(values.parallel, options)


def _report_command(arguments: list[str]) -> int:
  """Makes an HTML page: jaxlab report [WORKDIR ...] [--out=DIR|FILE].

  Without WORKDIR it is about all runs under runs/.

    --out=DIR|FILE.html  where the page goes (runs/report.html by default)
    --results=FILE.md    also writes the claims as a Markdown table; rows that
                         it has of other experiments stay
  """
  values = flags.FlagValues()
  flags.DEFINE_string('out', str(_RUNS), 'where', flag_values=values)
  flags.DEFINE_string('results', None, 'where', flag_values=values)
  given = _parse(arguments, values)
  paths = _find_runs([pathlib.Path(p) for p in given] or [_RUNS])
  out = pathlib.Path(values.out)
  out = out if out.suffix == '.html' else out / 'report.html'
  print(f'report: {_report(paths, out)}')
  if values.results:
    # Needs the templates, which the other commands can do without.
    from jaxlab.harness import report_results  # noqa: PLC0415

    table = pathlib.Path(values.results)
    print(f'results: {report_results.write_results(paths, table)}')
  return 0


def _data(arguments: list[str]) -> int:
  """Shows and prepares data: jaxlab data list|prepare NAME|inspect NAME.

  list                  the data sets
  prepare NAME          converts the raw files for reading
    --manual_dir=DIR      folder that holds them
  inspect NAME [SPLIT]  what is in a data set
  """
  # Reading data sets takes libraries that no other command needs.
  from jaxlab import data  # noqa: PLC0415

  values = flags.FlagValues()
  flags.DEFINE_string('manual_dir', None, 'where', flag_values=values)
  action, *rest = _parse(arguments, values, most=3) or ['list']
  table = rich.table.Table(box=None, show_header=False, pad_edge=False)
  if action == 'list' and not rest:
    rows = list(data.datasets().items())
  elif action == 'prepare' and len(rest) == 1:
    print(data.prepare(rest[0], manual_dir=values.manual_dir))
    return 0
  elif action == 'inspect' and rest:
    rows = data.describe(*rest)
  else:
    raise errors.UserError(
      'data takes list, prepare NAME or inspect NAME [SPLIT]; names: '
      f'{", ".join(data.datasets())}.'
    )
  for row in rows:
    table.add_row(*map(rich.markup.escape, row))
  rich.console.Console().print(table)
  return 0


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
  'run': _run,
  'list': _list,
  'sweep': _sweep,
  'report': _report_command,
  'data': _data,
}


def _flag_values() -> flags.FlagValues:
  values = flags.FlagValues()
  flags.DEFINE_enum(
    'device',
    'auto',
    ['auto', 'cpu', 'gpu', 'tpu'],
    'device',
    flag_values=values,
  )
  return values


def _parse(
  arguments: Sequence[str], values: flags.FlagValues, most: int | None = None
) -> list[str]:
  """Parses flags and returns the other arguments, `most` at most."""
  values.set_gnu_getopt()
  try:
    rest = values(['jaxlab', *arguments])[1:]
  except flags.Error as error:
    raise errors.UserError(f'{error}; --help shows what there is.') from error
  if most is not None and len(rest) > most:
    raise errors.UserError(f'unexpected argument {rest[most]!r}.')
  return rest


def _load(
  arguments: Sequence[str], values: flags.FlagValues, command: str
) -> configs.Loaded:
  """Parses a command line that names a config, by position or --config."""
  rest = list(arguments)
  reference = None
  for index, argument in enumerate(rest):
    key, equals, value = argument.partition('=')
    if key in ('--config', '-config'):
      reference = value if equals else ''.join(rest[index + 1 : index + 2])
      del rest[index : index + (1 if equals else 2)]
      break
  else:
    if rest and not rest[0].startswith('-'):
      reference = rest.pop(0)
  if not reference:
    raise errors.UserError(
      f'{command} needs a config first, such as `jaxlab {command}'
      ' bandits/model_selection`; `jaxlab list` shows them.'
    )
  values.set_gnu_getopt()
  loaded = configs.load(reference, rest, values)
  if loaded.rest:
    raise errors.UserError(
      f'unexpected argument {loaded.rest[0]!r}; fields are set by'
      ' --config.FIELD=VALUE.'
    )
  return loaded


def _default_workdir(loaded: configs.Loaded) -> pathlib.Path:
  parts = [loaded.name.replace('/', '_'), loaded.mode]
  if loaded.overrides:
    text = repr(sorted(loaded.overrides.items()))
    parts.append(hashlib.sha256(text.encode()).hexdigest()[:8])
  return _RUNS / '_'.join(filter(None, parts))


def _experiment(
  name: str,
) -> Callable[[ml_collections.ConfigDict, workdirs.Workdir], Any]:
  """Finds `run` of an experiment; a dotted name is a module of one's own."""
  module_name = name if '.' in name else f'jaxlab.{name}.experiment'
  try:
    module = importlib.import_module(module_name)
  except ModuleNotFoundError as error:
    if not f'{module_name}.'.startswith(f'{error.name}.'):
      raise
    raise errors.UserError(
      f'config.experiment is {name!r}, but there is no module {module_name}.'
    ) from error
  if not hasattr(module, 'run'):
    raise errors.UserError(
      f'config.experiment is {name!r}, but {module_name} has no run().'
    )
  return module.run


def _report(
  paths: Sequence[pathlib.Path], out: pathlib.Path, kind: str = 'write_report'
) -> pathlib.Path:
  # Needs the templates, which the other commands can do without.
  from jaxlab.harness import report  # noqa: PLC0415

  return getattr(report, kind)(paths, out)


def _find_runs(places: Sequence[pathlib.Path]) -> list[pathlib.Path]:
  """Returns the workdirs in or under each place."""
  found: list[pathlib.Path] = []
  for place in places:
    inside = sorted(p.parent for p in place.glob('**/config.json'))
    if not inside:
      raise errors.UserError(
        f'there is no run in {place}; make one with `jaxlab run CONFIG`.'
      )
    found += inside
  return list(dict.fromkeys(found))


if __name__ == '__main__':
  sys.exit(main())
