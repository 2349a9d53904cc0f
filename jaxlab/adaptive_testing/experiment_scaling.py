"""Time and memory of a choice against the size of the bank.

Timings differ from run to run; a resumed run keeps the ones it has.
"""

import functools
import statistics
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab import stats
from jaxlab.adaptive_testing import experiment_rules as rules
from jaxlab.adaptive_testing import plots, synthetic
from jaxlab.adaptive_testing.experiment_claims import PAPER
from jaxlab.adaptive_testing.selectors import features, selector
from jaxlab.adaptive_testing.selectors.itemwise import for_bank, itemwise
from jaxlab.adaptive_testing.state import recorded_state
from jaxlab.harness.claims import Claim
from jaxlab.harness.evidence import mean_claim
from jaxlab.harness.progress import Progress
from jaxlab.harness.settings import (
  check,
  check_names,
  check_positive,
  check_rising,
  key_of,
)

_WITHOUT_C = 'gpm_no_residuals'
_RULES = ('mfi', 'mepv', rules.GPM, _WITHOUT_C, 'becat_point', 'becat_full')
_ASKED = 10  # answers before the choice


def run(config, workdir) -> None:
  """Measures choices in growing banks."""
  check_names(config, 'rules', _RULES)
  check_rising(config, 'num_items')
  check_positive(config, 'num_items', 'repeats', 'slope_from')
  good = all(name in _RULES and n > 0 for name, n in config.most_items.items())
  check(config, 'most_items', good, 'a positive number for some of the rules')
  sizes = {
    name: [
      n
      for n in config.num_items
      if n <= config.most_items.get(name, config.num_items[-1])
    ]
    for name in config.rules
  }
  cells = [(name, n) for name in config.rules for n in sizes[name]]
  found = {}
  with Progress('rules and banks', len(cells)) as progress:
    for name, n in cells:
      found[name, n] = workdir.cached(
        f'{name}/{n}', functools.partial(_measure, config, name, n)
      )
      progress.advance()
  _record(config, workdir, sizes, found)


def _measure(config, name: str, n: int) -> dict[str, Any]:
  key = key_of(config.seed, n)
  bank = synthetic.random_bank(key, n)
  rule = itemwise() if name in (rules.GPM, _WITHOUT_C) else selector(name)
  start = time.perf_counter()
  params = rule.init(key, bank)
  if name == rules.GPM:
    params = for_bank(params, bank, _residuals(key, n))
  jax.block_until_ready(params)
  setup = time.perf_counter() - start
  items = np.arange(_ASKED)[None] * (n // _ASKED)
  answers = (np.arange(_ASKED) % 2)[None]
  state = jax.jit(recorded_state)(bank, items, answers)

  def choose(params, bank, state):
    score = rule.score(params, key, bank, state)
    return jnp.argmax(jnp.where(state.available, score, -jnp.inf), axis=-1)

  compiled = jax.jit(choose).lower(params, bank, state).compile()
  memory: Any = compiled.memory_analysis()
  held = sum(x.nbytes for x in jax.tree.leaves(params))

  def once():
    start = time.perf_counter()
    jax.block_until_ready(compiled(params, bank, state))
    return time.perf_counter() - start

  first = once()
  repeats = max(3, min(config.repeats, int(0.5 / first)))
  # Medians of groups: a seed of a claim is a group.
  groups = [statistics.median(once() for _ in range(repeats)) for _ in range(5)]
  return {
    'ms': 1e3 * np.array(groups),
    'temporary MiB': np.float64(memory.temp_size_in_bytes / 2**20),
    'parameters MiB': np.float64(held / 2**20),
    'setup s': np.float64(setup),
  }


def _residuals(key: jax.Array, n: int) -> features.Residuals:
  """Correlations of no data: what they hold does not matter for the time."""
  draw = jax.random.normal(key, (n, n)) / 50
  factor = jax.random.normal(key, (n, 8)) / 50
  return features.Residuals(draw + draw.T, draw.sum(0), factor, factor)


def _record(config, workdir, sizes, found) -> None:
  rows = []
  for (name, n), values in found.items():
    rows.append(
      {
        'rule': name,
        'n': n,
        'ms': float(np.median(values['ms'])),
        'ms low': float(values['ms'].min()),
        'ms high': float(values['ms'].max()),
        'temporary MiB': float(values['temporary MiB']),
        'parameters MiB': float(values['parameters MiB']),
        'setup s': float(values['setup s']),
      }
    )
  workdir.save_table(
    'choices',
    rows,
    f'A choice for one examinee after {_ASKED} answers, compiled; five '
    'medians. The parameters of a rule are what it holds of the bank, its '
    'set-up with compilation.',
  )
  slopes = {name: _slopes(config, sizes[name], found, name) for name in sizes}
  workdir.save_table(
    'slopes',
    [
      {
        'rule': name,
        'sizes': ' '.join(map(str, _used(config, sizes[name]))),
        'slope': float(np.mean(values)),
        'low': float(stats.mean_interval(values, level=0.95).low),
        'high': float(stats.mean_interval(values, level=0.95).high),
      }
      for name, values in slopes.items()
      if values is not None
    ],
    'Slope of log time on log n in the largest banks.',
  )
  for label, field in (
    ('time', 'ms'),
    ('memory', 'temporary MiB'),
  ):
    curves = {
      name: [float(np.median(found[name, n][field])) for n in sizes[name]]
      for name in sizes
    }
    workdir.save_figure(
      label,
      plots.growth(
        sizes, curves, ylabel=f'{label} of a choice ({field.split()[-1]})'
      ),
      f'{label.capitalize()} of a choice for one examinee against the size of '
      'the bank.',
    )
  for name in sizes:
    n = sizes[name][-1]
    values = found[name, n]['ms']
    workdir.headline(
      f'{name}: a choice from {n} items',
      *(np.median(values), values.min(), values.max(), 'ms'),
    )
  for claim in _claims(sizes, found, slopes):
    workdir.add_claim(claim)


def _used(config, sizes):
  """The largest sizes, in which the work outweighs the call."""
  above = [n for n in sizes if n >= config.slope_from]
  return above if len(above) > 1 else sizes[-2:]


def _slopes(config, sizes, found, name):
  used = _used(config, sizes)
  if len(used) < 2:
    return None
  x = np.log(used) - np.log(used).mean()
  y = np.log(np.stack([found[name, n]['ms'] for n in used], axis=1))
  return y @ x / np.sum(x**2)


def _claims(sizes, found, slopes):
  limits = (
    *((name, 1.2, '<') for name in (rules.GPM, _WITHOUT_C)),
    *((name, 1.7, '>') for name in ('becat_point', 'becat_full')),
  )
  for name, limit, sense in limits:
    if slopes.get(name) is not None:
      yield mean_claim(
        f'{name}: time of a choice grows with the bank to a power '
        f'{"of at most" if sense == "<" else "above"} {limit:g}',
        slopes[name],
        threshold=limit,
        sense=sense,
        source=PAPER,
        note='a seed is a group of timings',
      )
  n = 1000
  if rules.GPM in sizes and n in sizes[rules.GPM]:
    yield mean_claim(
      f'GPM chooses from {n} items in 1 ms',
      found[rules.GPM, n]['ms'],
      threshold=1.0,
      sense='<',
      unit='ms',
      source=PAPER,
      note='a seed is a group of timings',
    )
    for rival in ('becat_point', 'becat_full'):
      if rival in sizes and n in sizes[rival]:
        yield _cheaper(found, rival, n)


def _cheaper(found, rival: str, n: int) -> Claim:
  return mean_claim(
    f'GPM is 10 times cheaper than {rival} in a bank of {n} items',
    found[rival, n]['ms'] / found[rules.GPM, n]['ms'],
    threshold=10.0,
    sense='>',
    unit='times',
    source=PAPER,
    note='a seed is a group of timings',
  )
