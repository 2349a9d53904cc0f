"""What is written about the worm's circuit: tables, figures and claims."""

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from jaxlab import stats
from jaxlab.dendrites import celegans
from jaxlab.dendrites import experiment_celegans_figures as figures
from jaxlab.harness.claims import Claim

PAPER = 'HelioX (ICML 2026), abstract'
LOW, HIGH = -120.0, 80.0  # mV
CARD = 24.0  # GiB of one consumer GPU
LEVEL = 0.95

Run = dict[str, np.ndarray]


class Trained(NamedTuple):
  """What training left of P members.

  Attributes:
    teacher: `[P, ...]` weights that made the target.
    before: weights at the start.
    after: weights at the end.
    curve: `[P, K]` loss before each of K updates.
  """

  teacher: celegans.Weights
  before: celegans.Weights
  after: celegans.Weights
  curve: np.ndarray


class Found(NamedTuple):
  """Everything that was found.

  Attributes:
    neurons: rows of the table of neurons.
    targets: neurons whose voltage is the goal.
    long: the long run: `v` `[S, N]`, and `low` and `high` of all nodes in mV.
    trained: weights and curves.
    members: goal and seed of each of the P members.
    rows: rows of the table of training, one a member.
    runs: all runs of a window, each as `long`; the first three are those of
      the first member's teacher, before training and after it.
    memory: rows of the table of memory: this circuit, then the whole worm.
  """

  neurons: list[dict[str, Any]]
  targets: np.ndarray
  long: Run
  trained: Trained
  members: list[tuple[str, int]]
  rows: list[dict[str, Any]]
  runs: list[Run]
  memory: list[dict[str, Any]]


def record(config, workdir, found: Found) -> None:
  """Writes the tables and the figures."""
  workdir.save_table(
    'neurons',
    found.neurons,
    f'The neurons of the circuit; somatic voltage over {config.t_max:g} ms.',
  )
  workdir.save_table(
    'training',
    found.rows,
    'Losses before and after training, under the stimulus that it saw and '
    'under one in reverse order; correlation of chemical weights with those '
    'of the teacher.',
  )
  workdir.save_table(
    'losses',
    [
      {'goal': goal, 'seed': seed, 'update': k, 'loss': float(value)}
      for (goal, seed), curve in zip(
        found.members, found.trained.curve, strict=True
      )
      for k, value in enumerate(curve)
    ],
    'Loss before each update: mV2, or squared difference of correlations.',
  )
  workdir.save_table(
    'memory',
    found.memory,
    'Bytes of the gradient by part; measured is what the compiled program '
    'allocates.',
  )
  _draw(config, workdir, found)


def _draw(config, workdir, found: Found) -> None:
  names = [row['neuron'] for row in found.neurons]
  time = config.every * config.dt * np.arange(len(found.long['v']))
  workdir.save_figure(
    'voltages',
    figures.voltages(time, found.long['v'], names),
    'Somatic voltage of all neurons.',
  )
  first = f'{config.goals[0]}, seed {found.members[0][1]}'
  shown = found.targets[:4]
  workdir.save_figure(
    'traces',
    figures.traces(
      time[: len(found.runs[0]['v'])],
      [each['v'][:, shown] for each in found.runs[:3]],
      [names[i] for i in shown],
    ),
    f'Targets of the teacher, and the circuit before and after ({first}).',
  )
  curves = found.trained.curve.reshape(len(config.goals), config.seeds, -1)
  workdir.save_figure(
    'losses',
    figures.losses(dict(zip(config.goals, curves, strict=True))),
    'Loss relative to the first: median and range over seeds.',
  )
  workdir.save_figure(
    'weights',
    figures.weights(*found.trained[:3]),
    f"Weights against the teacher's ({first}).",
  )


def claims(config, found: Found) -> list[Claim]:
  """What the experiment says, each with its interval."""
  runs = [found.long, *found.runs]
  low, high = (
    np.array([each[end] for each in runs], float) for end in ('low', 'high')
  )
  margin = float(np.min([low - LOW, HIGH - high]))
  circuit, whole = found.memory
  return [
    _exact(
      f'Voltages of all nodes are finite and stay in [{LOW:g}, {HIGH:g}] mV '
      '(distance to the nearer end)',
      margin if math.isfinite(margin) else -math.inf,
      '>',
      0.0,
      'mV',
      f'{low.min():.1f} to {high.max():.1f} mV in {len(runs)} runs',
    ),
    *(_fall(config, goal, found.rows) for goal in config.goals),
    _exact(
      'The gradient of one second of the whole worm fits one consumer GPU',
      whole['planned MiB'] / 1024,
      '<',
      CARD,
      'GiB',
      'planned from shapes',
    ),
    _exact(
      'The gradient of this circuit takes no more memory than planned',
      circuit['measured MiB'] / circuit['planned MiB'],
      '<',
      1.0,
      'of the plan',
      'allocations of the compiled program',
    ),
  ]


def _exact(
  text: str,
  value: float,
  sense: Literal['>', '<'],
  threshold: float,
  unit: str,
  note: str,
) -> Claim:
  """A claim on a number that no draw enters."""
  return Claim(text, PAPER, value, value, value, threshold, sense, unit, note)


def _fall(config, goal: str, rows) -> Claim:
  halvings = np.array([r['halvings'] for r in rows if r['goal'] == goal])
  interval = stats.mean_interval(halvings, level=LEVEL)
  return Claim(
    f'{config.updates} updates through weights alone halve the loss of {goal} '
    'or better',
    PAPER,
    halvings.mean(),
    float(interval.low),
    float(interval.high),
    1,
    '>',
    'halvings',
    f'{len(halvings)} seeds, each with a teacher of its own; '
    f'{LEVEL:.0%} t interval',
  )
