"""Memory and time of a gradient, by what the way there stores."""

import functools

import matplotlib
import numpy as np

from jaxlab import data, dendrites, plots
from jaxlab.dendrites import experiment_timing as timed
from jaxlab.harness.claims import Claim
from jaxlab.harness.progress import Progress
from jaxlab.harness.settings import check, check_positive

_SOURCE = 'HelioX (ICML 2026), abstract: scalable training'
_NEEDED = 'none', 'sqrt'


def run(config, workdir) -> None:
  """Compiles and times gradients of shorter and longer runs."""
  _check(config)
  found = {}
  with Progress('lengths of runs', len(config.steps)) as progress:
    for steps in config.steps:
      found[steps] = workdir.cached(
        f'steps-{steps}', functools.partial(_unit, config, steps)
      )
      progress.advance()
  _record(config, workdir, found)


def _check(config) -> None:
  check_positive(config, 'max_len', 'cells', 'steps')
  check(config, 'repeats', config.repeats > 1, 'at least 2')
  check(config, 'steps', len(set(config.steps)) > 1, 'two lengths or more')
  good = all(name in config.remat for name in _NEEDED)
  check(config, 'remat', good, f'rules with {" and ".join(_NEEDED)} among them')


def _unit(config, steps: int) -> dict:
  """Bytes and ns of the gradient under each rule, for one length."""
  morph = dendrites.parse_swc(data.load('neurons', config.cell).swc)
  tree = dendrites.discretize(morph, max_len=config.max_len)
  net = timed.equipped(tree)
  programs = [
    timed.program(
      timed.work(net, steps, config.cells, remat=_rule(name)).gradient()
    )
    for name in config.remat
  ]
  return {
    'ns': timed.cpu_ns(programs, config.repeats),
    'bytes': [each.temporary for each in programs],
    'compile': [each.compile_seconds for each in programs],
  }


def _rule(name: str) -> str | int:
  """'20' is a number of steps."""
  return int(name) if name.isdigit() else name


def _record(config, workdir, found: dict) -> None:
  sizes = np.array(config.steps)
  taken = np.stack([found[steps]['ns'] for steps in config.steps])
  needed = np.stack([found[steps]['bytes'] for steps in config.steps])
  rows = []
  for j, name in enumerate(config.remat):
    for i, steps in enumerate(config.steps):
      mean, low, high = timed.interval(taken[i, j])
      rows.append(
        {
          'remat': name,
          'steps': steps,
          'MiB': needed[i, j] / 2**20,
          'ns': mean,
          'ns low': low,
          'ns high': high,
          'compile s': found[steps]['compile'][j],
        }
      )
  workdir.save_table(
    'remat',
    rows,
    f'Gradient of {config.cells} cells: temporary buffers of the compiled '
    'program, and CPU time of one compartment in one step.',
  )
  exponents = timed.slope(config.steps, needed)
  workdir.save_figure(
    'remat',
    _figure(config, sizes, needed, taken, exponents),
    'Memory and CPU time of a gradient by what the way there stores.',
  )
  exponent = dict(zip(config.remat, exponents, strict=True))
  ratio = np.concatenate(
    taken[:, config.remat.index('sqrt')] / taken[:, config.remat.index('none')]
  )
  for claim in _claims(exponent, ratio, sizes):
    workdir.add_claim(claim)
  workdir.headline('memory of sqrt: exponent in steps', exponent['sqrt'])
  workdir.headline('price of sqrt', *timed.interval(ratio), unit='x none')


def _claims(
  exponent: dict[str, float], ratio: np.ndarray, sizes: np.ndarray
) -> list[Claim]:
  note = (
    f'least squares over {len(sizes)} lengths from {sizes[0]} to {sizes[-1]} '
    'steps; bytes of the compiled program, which do not vary'
  )
  own, full = (float(exponent[name]) for name in ('sqrt', 'none'))
  return [
    Claim(
      "With remat='sqrt' memory grows with an exponent of at most 0.6 in the "
      'number of steps',
      *(_SOURCE, own, own, own, 0.6, '<'),
      note=note,
    ),
    Claim(
      'Without checkpoints it grows in proportion (exponent above 0.85)',
      *(_SOURCE, full, full, full, 0.85, '>'),
      note=note,
    ),
    Claim(
      "remat='sqrt' takes at most twice the CPU time of none",
      *(_SOURCE, *timed.interval(ratio), 2.0, '<', 'x'),
      note='95 % t interval over turns and lengths',
    ),
  ]


def _figure(config, sizes, needed, taken, exponents):
  with matplotlib.rc_context(plots.STYLE):
    fig, axes = plots.figure(8.5, 3.4, ncols=2)
    memory, clock = axes[0]
    for j, name in enumerate(config.remat):
      look = {'color': plots.PALETTE[j % len(plots.PALETTE)], 'marker': 'o'}
      label = f'{name}, exponent {exponents[j]:.2f}'
      memory.plot(sizes, needed[:, j] / 2**20, label=label, **look)
      clock.plot(sizes, taken[:, j].min(axis=1), **look)
    memory.set(xscale='log', yscale='log', ylabel='temporary buffers (MiB)')
    clock.set(
      xscale='log', ylabel='ns per compartment and step', ylim=(0, None)
    )
    for axis in axes[0]:
      axis.set_xlabel('steps')
      axis.set_xticks(sizes, sizes)
      axis.minorticks_off()
    fig.legend(loc='outside right upper')
  return fig
