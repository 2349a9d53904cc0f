"""Adaptive tests and their rules: python -m benchmarks.adaptive_testing.

In CPU time on one core, beside catsim's Simulator and mirt's batch engine,
which draw answers of their own: errors of ability are compared, not items.
"""

import functools
import importlib
import importlib.metadata
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import cpu_time, timing
from benchmarks.quantized_matmul_programs import program
from benchmarks.timing import Row
from jaxlab.adaptive_testing import (
  gpm,
  gpm_states,
  live,
  simulate,
  state,
  synthetic,
  types,
)
from jaxlab.adaptive_testing.selectors import selector
from jaxlab.dendrites import experiment_timing as timed
from jaxlab.dendrites.experiment_timing import Program

_UNIT = 'us CPU'
_LENGTH = 20
_NODES = 81  # of the posterior, here and there
_CURE = "pip install 'jaxlab[bench]'"
_MOST_ERRORS = 5  # standard errors of the difference, at most
_GPM = 'gpm'
_TRAINED = 256  # examinees that GPM learns from


class _Bank(NamedTuple):
  """A random 2PL bank and examinees.

  Attributes:
    bank: of n items.
    a: `[n]` slopes.
    b: `[n]` difficulties.
    theta: `[E]` true abilities.
  """

  bank: types.ItemBank
  a: np.ndarray
  b: np.ndarray
  theta: np.ndarray


def rows(quick: bool) -> Iterator[Row]:
  """Yields the rows, with fewer and smaller instances if `quick`."""
  repeats = 3 if quick else 7
  with cpu_time.one_core():
    yield beside_catsim(5 if quick else 20, repeats)
    yield beside_mirt(repeats)
    yield sessions(1000 if quick else 10_000)
    yield from pools(quick)
    yield answered_items(repeats)
    yield beside_becat(repeats)
    yield training_step(repeats)
    yield from memory()
  yield next_item('mepv', 'MEPV')
  yield next_item(_GPM, 'GPM with residual correlations')
  yield compile_time()
  yield training_compile_time()


def beside_catsim(examinees: int, repeats: int) -> Row:
  """MFI and maximum likelihood; catsim tests fewer examinees."""
  work = f'An item of a test, 1_000 x {_LENGTH} from 500: MFI and MLE'
  goal = timing.faster(100)
  if not _installed('catsim'):
    return _absent(work, 'catsim', goal)
  given = _random_bank(500, 1000)
  ours = _tests(given, 'mfi', 'mle')
  estimation = importlib.import_module('catsim.estimation')
  initial = importlib.import_module('catsim.initialization')
  selection = importlib.import_module('catsim.selection')
  simulation = importlib.import_module('catsim.simulation')
  stopping = importlib.import_module('catsim.stopping')
  bank = importlib.import_module('catsim.item_bank').ItemBank(
    np.column_stack([given.a, given.b, 0 * given.a, 1 + 0 * given.a])
  )
  theta = given.theta[:examinees]

  def run():
    tests = simulation.Simulator(
      bank,
      theta,
      initial.FixedPointInitializer(0),
      selection.MaxInfoSelector(),
      estimation.NumericalSearchEstimator(),
      stopping.TestLengthStopper(max_items=_LENGTH),
    )
    tests.simulate()
    return np.array([path[-1] for path in tests.estimations])

  return _compare(
    work,
    ours,
    Program(run, examinees * _LENGTH),
    f'{_version("catsim")}, {examinees} examinees',
    _errors_agree(given.theta, theta),
    goal=goal,
    repeats=repeats,
  )


def beside_mirt(repeats: int) -> Row:
  """MFI and posterior means; mirt's engine runs in Rust."""
  work = f'An item of a test, 1_000 x {_LENGTH} from 500: MFI and EAP'
  goal = timing.faster(2)
  if not _installed('mirt'):
    return _absent(work, 'mirt', goal)
  given = _random_bank(500, 1000)
  ours = _tests(given, 'mfi', 'eap')
  model = importlib.import_module('mirt.models').TwoParameterLogistic(
    n_items=len(given.a)
  )
  model.set_parameters(discrimination=given.a, difficulty=given.b)
  model._is_fitted = True  # the engine takes no model that was not fitted
  engine = importlib.import_module('mirt.cat').CATEngine(
    model,
    'MFI',
    stopping_rule='SE',
    se_threshold=1e-6,
    scoring_method='EAP',
    n_quadpts=_NODES,
    max_items=_LENGTH,
    seed=1,
  )

  def run():
    found = engine.run_batch_simulation(given.theta)
    return np.array([test.theta for test in found])

  return _compare(
    work,
    ours,
    Program(run, len(given.theta) * _LENGTH),
    f'{_version("mirt")}, batch engine',
    _errors_agree(given.theta, given.theta),
    goal=goal,
    repeats=repeats,
  )


def sessions(examinees: int) -> Row:
  """Whole tests from a bank of 1,000 items."""
  run = _tests(_random_bank(1000, examinees), 'mfi', 'map')
  taken = float(timed.cpu_ns([run], 2).min()) * _LENGTH / 1e3
  return timing.measured(
    f'A test of {_LENGTH} items, {examinees:_} examinees x 1_000 items: MFI '
    'and MAP',
    *(taken, _UNIT),
    note=f'{1e6 / taken:,.0f} tests per second of CPU',
  )


def pools(quick: bool) -> Iterator[Row]:
  """Time of a choice, with the estimate that follows, by size of the bank."""
  small: tuple[int, ...] = (200, 400) if quick else (200, 400, 800)
  large: tuple[int, ...] = (3000, 10_000) if quick else (3000, 10_000, 30_000)
  at_most = timing.Goal('<= 1.2', lambda ours, _: ours <= 1.2)
  for name, sizes in (
    ('mfi', large),
    ('mepv', large),
    (_GPM, large),
    ('becat_point', small),
    ('becat_full', small),
  ):
    taken = [_choice_us(name, size) for size in sizes]
    yield timing.measured(
      f'{name}: log-log slope of the time of a choice over n = {sizes[0]:_} '
      f'to {sizes[-1]:_}',
      float(np.polyfit(np.log(sizes), np.log(taken), 1)[0]),
      '',
      goal=at_most if sizes is large else None,
      note=', '.join(
        f'n={size:_} {us:,.1f} us'
        for size, us in zip(sizes, taken, strict=True)
      )
      + ('; without residual correlations' if name == _GPM else ''),
    )


def answered_items(repeats: int) -> Row:
  """A step early and late in a test of 100 items."""
  given, room, examinees = _random_bank(1000, 64), 100, 64
  rule = selector('mfi')

  def step(bank, cat):
    item, _ = simulate.choose_items(rule, (), bank, cat, jax.random.key(0))
    return simulate.update(bank, cat, item, jnp.ones(examinees, jnp.int8))

  runs = []
  for count in (2, 98):
    cat = _answered(given.bank, examinees, count, room)
    runs.append(program(step, given.bank, cat)._replace(units=examinees))
  early, late = timed.cpu_ns(runs, repeats).min(axis=1) / 1e3
  return cpu_time.against(
    'A step of MFI and MAP after 98 answers, n = 1_000',
    *(late, early, 'jaxlab, after 2 answers'),
    unit=_UNIT,
    goal=cpu_time.at_most(1.2),
  )


def beside_becat(repeats: int) -> Row:
  """Nothing but choices, of eight examinees at once."""
  given, examinees = _random_bank(1000, 8), 8
  cat = _answered(given.bank, examinees, 10, _LENGTH)
  runs = []
  for name in (_GPM, 'becat_point'):
    rule, params = _rule(name, given.bank, residuals=True)

    def choose(params, bank, cat, rule=rule):
      return simulate.choose_items(rule, params, bank, cat, jax.random.key(0))

    compiled = program(choose, params, given.bank, cat)
    runs.append(compiled._replace(units=examinees))
  ours, peer = timed.cpu_ns(runs, repeats).min(axis=1) / 1e3
  return cpu_time.against(
    'A choice of GPM after 10 answers, n = 1_000',
    *(ours, peer, 'jaxlab, becat_point'),
    unit=_UNIT,
    goal=timing.faster(10),
    note='with residual correlations',
  )


def training_step(repeats: int) -> Row:
  """Loss, gradient and Adam, on states of a rollout."""
  cfg = gpm.GPMConfig(batch=64, pool_size=40, steps=5)
  bank = _random_bank(500, 1).bank
  rule, training, responses = _begun(bank, cfg)
  rollout = gpm_states.record(
    *(rule, training.params, bank, responses, jnp.ones(responses.shape, bool)),
    key=jax.random.key(0),
    noise=0.1,
    test_length=cfg.test_length,
    pool_size=cfg.pool_size,
  )

  def steps(training, bank, rollout, key):
    return gpm._candidate_steps(
      *(rule, cfg, training.params, training.optimizer, bank, rollout),
      *(rollout, rollout.error, training.done, key),
    )

  run = program(steps, training, bank, rollout, jax.random.key(0))
  taken = timed.cpu_ns([run._replace(units=cfg.steps)], repeats).min()
  return timing.measured(
    f'A step of training GPM, batch of {cfg.batch}, any {cfg.pool_size} of '
    f'500 items to choose from, T = {cfg.test_length}, K = {cfg.num_points}',
    *(float(taken) / 1e6, 'ms CPU'),
    goal=cpu_time.up_to(60, 'ms CPU'),
  )


def memory() -> Iterator[Row]:
  """Temporary buffers of compiled tests, in chunks of examinees."""
  for n, examinees, length in ((100_000, 1000, 20), (1000, 1_000_000, 20)):
    bank = jax.tree.map(
      lambda x, n=n: jax.ShapeDtypeStruct((n,), x.dtype),
      types.item_bank(np.ones(1), np.zeros(1)),
    )
    theta = jax.ShapeDtypeStruct((examinees,), jnp.float32)

    def run(bank, theta, length=length):
      return simulate.run_cat(
        *(selector('mfi'), (), bank),
        true_theta=theta,
        test_length=length,
        key=jax.random.key(0),
        chunk=100_000_000 // bank.num_items // 100,
      )

    needs: Any = jax.jit(run).lower(bank, theta).compile().memory_analysis()
    result = needs.output_size_in_bytes / 2**20
    yield timing.measured(
      f'Memory of tests of {length} items, {examinees:_} examinees x {n:_} '
      'items, in chunks',
      needs.temp_size_in_bytes / 2**20,
      'MiB',
      goal=timing.below(8192, 'MiB'),
      note=f'temporary buffers; {result:,.0f} MiB of results besides',
    )


def next_item(name: str, label: str) -> Row:
  """One examinee in front of a screen, on the clock."""
  bank, repeats = _random_bank(1000, 1).bank, 300
  rule, params = _rule(name, bank, residuals=True)
  items, answers = list(range(20)), [0, 1] * 10
  ask = functools.partial(
    live.next_item, params, bank, items, answers, selector=rule
  )
  ask()
  taken = []
  for _ in range(repeats):
    start = time.perf_counter()
    ask()
    taken.append(time.perf_counter() - start)
  return timing.measured(
    f'next_item of {label} after 20 answers, n = 1_000',
    *(1e3 * statistics.median(taken), 'ms'),
    goal=timing.below(1, 'ms'),
    note=f'on the clock; slowest of {repeats}: {1e3 * max(taken):.2f} ms',
  )


def compile_time() -> Row:
  """The first call, less a second one."""
  given = _random_bank(500, 1000)

  def run(seed):
    trace = simulate.run_cat(
      *(selector('mfi'), (), given.bank),
      true_theta=given.theta,
      test_length=_LENGTH,
      key=jax.random.key(seed),
    )
    jax.block_until_ready(trace)

  return timing.measured(
    f'Compilation of run_cat, 1_000 x {_LENGTH} from 500: MFI and MAP',
    *(timing.first_call_seconds(run), 's'),
    goal=timing.below(20, 's'),
  )


def training_compile_time() -> Row:
  """The same of a round of training: a rollout and two steps."""
  cfg = gpm.GPMConfig(steps=2)
  bank = _random_bank(500, 1).bank
  rule, training, responses = _begun(bank, cfg)

  def run(seed):
    found, _ = gpm.train_round(
      *(jax.random.key(seed), training, bank, responses, cfg), selector=rule
    )
    jax.block_until_ready(found)

  return timing.measured(
    f'Compilation of a round of training GPM, {_TRAINED} x {cfg.test_length} '
    'from 500',
    *(timing.first_call_seconds(run), 's'),
    goal=cpu_time.up_to(20, 's'),
  )


def _random_bank(n: int, examinees: int) -> _Bank:
  rng = np.random.default_rng(n)
  a, b = rng.lognormal(0, 0.35, n), rng.normal(size=n)
  return _Bank(types.item_bank(a, b), a, b, rng.normal(size=examinees))


def _rule(
  name: str, bank: types.ItemBank, *, residuals: bool = False
) -> tuple[types.Selector, Any]:
  """A rule and its parameters; GPM untrained, with or without correlations."""
  if name == _GPM and residuals:
    rule, training, _ = _begun(bank, gpm.GPMConfig())
    return rule, training.params
  rule = gpm.gpm_selector(gpm.GPMConfig()) if name == _GPM else selector(name)
  return rule, rule.init(jax.random.key(0), bank)


def _begun(
  bank: types.ItemBank, cfg: gpm.GPMConfig
) -> tuple[types.Selector, gpm.Training, jax.Array]:
  """GPM before its first round, and `[E, n]` answers to learn from."""
  keys = jax.random.split(jax.random.key(0), 3)
  theta = synthetic.random_abilities(keys[0], bank, _TRAINED)
  responses = synthetic.random_responses(keys[1], bank, theta)
  rule = gpm.gpm_selector(cfg)
  training = gpm.start(keys[2], bank, responses, cfg, selector=rule)
  return rule, training, responses


def _answered(
  bank: types.ItemBank, examinees: int, count: int, room: int
) -> types.CatState:
  """Examinees after answers, every other one right, to the first items."""
  items = np.full((examinees, room), -1)
  items[:, :count] = np.arange(count)
  answers = np.arange(room) % 2 + np.zeros((examinees, 1))
  return jax.jit(state.recorded_state)(bank, items, answers)


def _tests(given: _Bank, name: str, estimator: str) -> Program:
  """Tests of all examinees; gives their last estimates."""
  rule, params = _rule(name, given.bank)

  def run(params, bank, theta):
    trace = simulate.run_cat(
      *(rule, params, bank),
      true_theta=theta,
      test_length=_LENGTH,
      key=jax.random.key(0),
      estimator=estimator,
    )
    return trace.theta[-1]

  compiled = program(run, params, given.bank, jnp.asarray(given.theta))
  return compiled._replace(units=len(given.theta) * _LENGTH)


def _choice_us(name: str, size: int) -> float:
  run = _tests(_random_bank(size, 32), name, 'map')
  return float(timed.cpu_ns([run], 3).min()) / 1e3


def _compare(
  work: str,
  ours: Program,
  peer: Program,
  version: str,
  agree: Callable[[Any, Any], str],
  *,
  goal: timing.Goal,
  repeats: int,
) -> Row:
  """As `cpu_time.compare`, in microseconds, with rates in the note."""
  row = cpu_time.compare(
    *(work, ours, peer, version, agree), goal=goal, repeats=repeats
  )
  if row.ours is None or row.peer is None:
    return row._replace(unit=_UNIT)
  rates = ' and '.join(f'{1e9 / ns:,.0f}' for ns in (row.ours, row.peer))
  return row._replace(
    ours=row.ours / 1e3,
    peer=row.peer / 1e3,
    unit=_UNIT,
    note=f'{row.note}; {rates} items per second of CPU',
  )


def _errors_agree(
  theta: np.ndarray, their_theta: np.ndarray
) -> Callable[[Any, Any], str]:
  """A check that mean squared errors differ no more than by chance."""

  def agree(found: Any, expected: Any) -> str:
    ours = (np.asarray(found) - theta) ** 2
    theirs = (np.asarray(expected) - their_theta) ** 2
    margin = _MOST_ERRORS * np.hypot(
      *(x.std() / np.sqrt(len(x)) for x in (ours, theirs))
    )
    text = f'mean squared errors {ours.mean():.4f} and {theirs.mean():.4f}'
    if not abs(ours.mean() - theirs.mean()) <= margin:
      raise timing.DisagreementError(text)
    return text

  return agree


def _installed(package: str) -> bool:
  return importlib.util.find_spec(package) is not None


def _version(package: str) -> str:
  return f'{package} {importlib.metadata.version(package)}'


def _absent(work: str, package: str, goal: timing.Goal) -> Row:
  return timing.unmeasured(
    work, f'{package}: not installed', _UNIT, goal=goal, note=_CURE
  )


if __name__ == '__main__':
  from benchmarks.__main__ import main

  sys.exit(main(['adaptive_testing', *sys.argv[1:]]))
