"""Motifs, counted and simulated: python -m benchmarks.motifs [--quick].

Rows of networkx and igraph need those packages in the environment.
"""

import functools
import importlib
import sys
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import scipy
import scipy.integrate

from benchmarks import timing
from benchmarks.timing import Goal, Row, Side
from jaxlab import motifs, parallel
from jaxlab.motifs import dynamics, rnn, tasks, train

_SCIPY = f'SciPy {scipy.__version__}'
_MEAN_DEGREE = 10
_STARTS = dynamics.RegimeConfig().n_starts
_HORIZONS = 300.0, 600.0  # burn-in, and the end of both windows


def rows(quick: bool) -> Iterator[Row]:
  """Yields the rows, with fewer and smaller instances if `quick`."""
  for part in (
    dense_census,
    sparse_census,
    null_chains,
    regimes,
    population,
    annealing,
  ):
    yield from part(quick)


def dense_census(quick: bool) -> Iterator[Row]:
  """Exact counts of a batch of graphs."""
  count, size = (8 if quick else 32), 200
  graphs = random_graphs(count, size, 0.05)
  work = f'Census, N={size}, density 5%: a graph, {count} at once'
  ours = Side(lambda _: motifs.count_graphs(graphs), count)
  goal = timing.faster(100)
  if nx := _package('networkx'):
    graph = nx.from_numpy_array(graphs[0].astype(int), create_using=nx.DiGraph)

    def triads(seed: int) -> list[np.ndarray]:
      del seed
      found = nx.triadic_census(graph)
      return [np.array([found[name] for name in motifs.NAMES])]

    peer = Side(triads, 1, f'networkx {nx.__version__}')
    yield timing.compare(work, ours, peer, _same_counts, goal=goal, repeats=3)
  else:
    yield _absent(work, 'networkx', 'ms', goal)
  goal = timing.faster(3)
  if ig := _package('igraph'):
    listed = [ig.Graph.Adjacency(A.astype(int).tolist()) for A in graphs]

    def theirs(seed: int) -> list[np.ndarray]:
      del seed
      return [np.array(tuple(g.triad_census()))[3:] for g in listed]

    peer = Side(theirs, count, _version(ig))
    yield timing.compare(work, ours, peer, _same_counts, goal=goal)
  else:
    yield _absent(work, 'igraph', 'ms', goal)


def sparse_census(quick: bool) -> Iterator[Row]:
  """Exact counts from a list of edges."""
  size, num_edges = 100_000, 1_000_000
  work = f'Census from edges, N={size:_}, E={num_edges:_}'
  goal = Goal('<= 3x its time', lambda _, ratio: bool(ratio and ratio <= 3))
  if quick:
    yield timing.unmeasured(work, 'not in a quick run', 's', goal=goal)
    return
  if not (ig := _package('igraph')):
    yield _absent(work, 'igraph', 's', goal)
    return
  rows, cols = random_edges(size, num_edges)
  graph = ig.Graph(
    n=size, edges=np.stack([rows, cols], axis=1).tolist(), directed=True
  )
  yield timing.compare(
    work,
    Side(lambda _: [motifs.sparse_census(rows, cols, size)], 1),
    Side(
      lambda _: [np.array(tuple(graph.triad_census()))[3:]], 1, _version(ig)
    ),
    _same_counts,
    unit='s',
    goal=goal,
    repeats=1,
  )


def null_chains(quick: bool) -> Iterator[Row]:
  """Swaps of edges that keep all degrees, in a worm's size."""
  replicas, size = (16 if quick else 64), 219
  A = random_graphs(1, size, 2186 / (size * (size - 1)))[0]
  swaps = motifs.rewiring.SWAPS_PER_EDGE * int(A.sum())
  work = f'Null model `degree`, N={size}, {replicas} chains: an attempted swap'
  goal = Goal('>= 0.5x its rate', lambda _, ratio: bool(ratio and ratio <= 2))
  if not (ig := _package('igraph')):
    yield _absent(work, 'igraph', 'us', goal)
    return
  draw = parallel.sharded_vmap(
    lambda key: motifs.rewire(key, A, 'degree', swaps)
  )
  graph, chains = ig.Graph.Adjacency(A.astype(int).tolist()), 4

  def ours(seed: int) -> np.ndarray:
    return np.asarray(draw(jax.random.split(jax.random.key(seed), replicas)))

  def theirs(seed: int) -> list[Any]:
    del seed
    copies = [graph.copy() for _ in range(chains)]
    for copy in copies:
      copy.rewire(n=swaps)
    return copies

  def agree(found: np.ndarray, copies: list[Any]) -> str:
    other = np.array([g.get_adjacency().data for g in copies], bool)
    for drawn in (found, other):
      for axis in (1, 2):
        if not (drawn.sum(axis=axis) == A.sum(axis=axis - 1)).all():
          raise timing.DisagreementError('a degree is not kept')
    kept = [(drawn & A).sum() / drawn.sum() for drawn in (found, other)]
    text = f'degrees kept; {kept[0]:.3f} and {kept[1]:.3f} of the edges stay'
    if abs(kept[0] - kept[1]) > 0.02:
      raise timing.DisagreementError(text)
    return text

  row = timing.compare(
    work,
    Side(ours, replicas * swaps),
    Side(theirs, chains * swaps, _version(ig)),
    agree,
    unit='us',
    goal=goal,
    repeats=3,
  )
  if row.ours and row.peer:
    rates = f'{1e6 / row.ours:.2g} and {1e6 / row.peer:.2g} attempted swaps/s'
    row = row._replace(note=f'{row.note}; {rates}, all chains together')
  yield row


def regimes(quick: bool) -> Iterator[Row]:
  """Regimes of motif 300 under random weights, against a loop of SciPy."""
  count, looped = (128, 3) if quick else (512, 6)
  keys = jax.random.split(jax.random.key(0), count)
  edge = motifs.adjacency('300')
  W = 3 * edge * np.random.default_rng(0).normal(size=(count, 3, 3))
  W = W.astype(np.float32)
  classify = parallel.sharded_vmap(
    lambda key, W: (
      dynamics.classify_regime(key, dynamics.MotifParams(W, 0.0, 1.0)).regime
    )
  )

  def agree(found: np.ndarray, expected: np.ndarray) -> str:
    same = int((found[:looped] == expected).sum())
    text = f'{same} of the {looped} regimes that SciPy ran are the same'
    if same < looped - 1:
      raise timing.DisagreementError(text)
    return f'{text}; its time a draw is that of these'

  for method, exponents, goal in (
    ('RK45', True, timing.faster(30)),
    ('LSODA', False, None),
  ):
    loop = functools.partial(scipy_regimes, W[:looped], method, exponents)
    what = 'exponents too' if exponents else 'SciPy without exponents'
    yield timing.compare(
      f'Regime of a motif, {_STARTS} starts, {what}: a weight draw, {count} at '
      'once',
      Side(lambda _: np.asarray(classify(keys, W)), count),
      Side(loop, looped, f'solve_ivp ({method}) in {_SCIPY}'),
      agree,
      goal=goal,
      repeats=1,
    )


def scipy_regimes(
  draws: np.ndarray, method: str, exponents: bool, seed: int
) -> np.ndarray:
  """Regimes of `[n, 3, 3]` weights, one after the other."""
  del seed
  return np.array([_scipy_regime(W, method, exponents) for W in draws])


def _scipy_regime(W: np.ndarray, method: str, exponents: bool) -> int:
  """A regime by the last window's amplitude, the exponents and final states."""
  rng = np.random.default_rng(0)
  burn_in, end = _HORIZONS
  times = np.linspace(burn_in, end, 3001)
  finals: list[np.ndarray] = []
  kinds = set()
  for _ in range(_STARTS):
    start = rng.normal(scale=np.abs(W).sum(axis=1), size=3)
    path = scipy.integrate.solve_ivp(
      _with_tangent if exponents else _velocity,
      (0, end),
      np.append(start, [0.6, 0.48, 0.64, 0]) if exponents else start,
      method=method,
      t_eval=times,
      rtol=1e-6,
      atol=1e-9,
      args=(W.astype(np.float64),),
    ).y
    growth = path[-1, -1] - path[-1, 0] if exponents else 0
    swing = np.ptp(path[:3, len(times) // 2 :], axis=1).max() / 2
    if growth / (end - burn_in) > 0.02:
      kinds.add('chaotic')
    elif swing > 0.05:
      kinds.add('oscillating')
    elif all(np.abs(path[:3, -1] - x).max() > 1e-3 for x in finals):
      finals.append(path[:3, -1])
  settled = 'fixed' if len(finals) == 1 else 'multistable'
  return dynamics.REGIMES.index(min(kinds, default=settled))


def _velocity(t: float, x: np.ndarray, W: np.ndarray) -> np.ndarray:
  del t
  return W @ np.tanh(x) - x


def _with_tangent(t: float, y: np.ndarray, W: np.ndarray) -> np.ndarray:
  """Velocity of a state, of a tangent of constant length, and its growth."""
  x, v = y[:3], y[3:6]
  turned = W @ (v / np.cosh(x) ** 2) - v
  growth = v @ turned / (v @ v)
  return np.concatenate([_velocity(t, x, W), turned - growth * v, [growth]])


def population(quick: bool) -> Iterator[Row]:
  """Updates of many networks in one program, against one at a time."""
  count, size, steps, batch = 32, 64, (2 if quick else 5), 16
  task = tasks.make('perceptual_decision')
  model = rnn.MotifRNN(num_units=size, num_outputs=task.num_outputs)
  init, update = train.learner(model, task, batch=batch, learning_rate=3e-3)
  inputs = task.sample(jax.random.key(0), 1).inputs
  graphs = random_graphs(count, size, 0.15)
  keys = jax.random.split(jax.random.key(1), count)
  variables = jax.vmap(lambda key, A: model.init(key, inputs, adjacency=A))(
    keys, graphs
  )
  one_by_one = [jax.tree.map(lambda x, i=i: x[i], variables) for i in range(4)]

  @jax.jit
  def alone(variables: Any, key: jax.Array) -> jax.Array:
    return train.train(update, init(variables), key, num_steps=steps)[1]

  together = parallel.sharded_vmap(alone)

  def theirs(seed: int) -> np.ndarray:
    del seed
    pairs = zip(one_by_one, keys, strict=False)
    return np.stack([np.asarray(alone(v, key)) for v, key in pairs])

  def agree(found: np.ndarray, expected: np.ndarray) -> str:
    worst = np.abs(found[: len(expected)] - expected).max()
    text = f'losses agree to {worst:.0e}'
    if not worst <= 1e-3:
      raise timing.DisagreementError(text)
    return f'{text}; {len(expected)} of the single runs are timed'

  row = timing.compare(
    f'Training, N={size}, batch {batch}: an update of a network, {count} at '
    'once against one at a time',
    Side(lambda _: np.asarray(together(variables, keys)), count * steps),
    Side(theirs, len(one_by_one) * steps, 'jaxlab, single runs'),
    agree,
    goal=Goal(
      f'{count} cost < 8 of one', lambda _, r: bool(r and r * count < 8)
    ),
    repeats=3,
  )
  if row.ratio:
    cost = f'{count} cost {row.ratio * count:.1f} of one'
    row = row._replace(note=f'{row.note}; {cost}')
  yield row


def annealing(quick: bool) -> Iterator[Row]:
  """The time of a move against the number of nodes, at one mean degree."""
  sizes, moves = (100, 200, 400), (8192 if quick else 32_768)
  taken = {}
  for size in sizes:
    A = random_graphs(1, size, _MEAN_DEGREE / (size - 1))[0]
    target = 2.0 * motifs.count_graphs(A[None])[0]
    # The first census is no part of a move.
    short, long = (
      timing.median_seconds(functools.partial(_anneal, A, target, n), 3)
      for n in (moves, 3 * moves)
    )
    taken[size] = 1e6 * (long - short) / (2 * moves)
    yield timing.measured(
      f'Anneal, N={size}: an attempted move', taken[size], 'us'
    )
  slope = np.polyfit(np.log(sizes), np.log([*taken.values()]), 1)[0]
  yield timing.measured(
    f'Anneal: log-log slope of the time of a move over N = {sizes[0]} to '
    f'{sizes[-1]}',
    *(float(slope), ''),
    goal=Goal('<= 1.15', lambda ours, _: ours <= 1.15),
  )


def _anneal(A: np.ndarray, target: np.ndarray, moves: int, seed: int) -> None:
  jax.block_until_ready(
    motifs.anneal(jax.random.key(seed), A, target, n_iter=moves)
  )


def _same_counts(found: Any, expected: list[np.ndarray]) -> str:
  pairs = [*zip(found, expected, strict=False)]
  if not all(np.array_equal(a, b) for a, b in pairs):
    raise timing.DisagreementError('the counts are not equal')
  return f'the 13 counts of {len(pairs)} graphs are equal'


def _package(name: str) -> Any:
  """The package, or None if it is not installed."""
  try:
    return importlib.import_module(name)
  except ModuleNotFoundError:
    return None


def _version(package: Any) -> str:
  return f'{package.__name__} {package.__version__}'


def _absent(work: str, name: str, unit: str, goal: Goal) -> Row:
  return timing.unmeasured(
    *(work, f'{name}: not installed', unit),
    goal=goal,
    note=f'pip install {name}',
  )


def random_graphs(count: int, size: int, density: float) -> np.ndarray:
  """`[count, size, size]` bool graphs without loops."""
  rng = np.random.default_rng(0)
  return (rng.random((count, size, size)) < density) & ~np.eye(size, dtype=bool)


def random_edges(size: int, num_edges: int) -> tuple[np.ndarray, np.ndarray]:
  """Distinct edges without loops: where they leave, where they enter."""
  rng = np.random.default_rng(0)
  place = rng.choice(size * (size - 1), num_edges, replace=False, shuffle=False)
  source, target = np.divmod(place, size - 1)
  return source, target + (target >= source)


if __name__ == '__main__':
  from benchmarks.__main__ import main

  sys.exit(main(['motifs', *sys.argv[1:]]))
