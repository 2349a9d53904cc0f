"""Does a model of two layers learn to add from demonstrations?"""

import functools

import numpy as np

from jaxlab.harness import evidence, settings
from jaxlab.lm import experiment_addition as tasks


def run(config, workdir) -> None:
  """Trains some seeds and tests each."""
  tasks.check(config)
  found = tasks.task(config)
  rows = []
  for seed in range(config.seeds):
    unit = functools.partial(_trained, config, workdir, found, seed)
    measured = workdir.cached(f'accuracy_{seed}', unit)
    rows.append({'seed': seed, **{k: v.item() for k, v in measured.items()}})
  workdir.save_table(
    'accuracy',
    rows,
    f'Share of {config.test} problems of {config.digits} digits, none of them'
    ' seen, that are answered exactly.',
  )
  exact = np.array([row['greedy'] for row in rows])
  claim = evidence.mean_claim(
    f'adds numbers of {config.digits} digits that it has not seen: more than'
    ' 95 % exact',
    exact,
    threshold=0.95,
    sense='>',
    unit='share',
    source='spec of the stack: supervised fine-tuning',
  )
  workdir.add_claim(claim)
  workdir.headline(
    'exact answers', claim.measured, claim.low, claim.high, 'share'
  )


def _trained(config, workdir, found, seed) -> dict[str, float]:
  params = tasks.fine_tuned(config, workdir, found, seed, corrupt=0.0)
  key = settings.key_of(config.seed, 'test', seed)
  return {
    'greedy': tasks.accuracy(found, params, key, 0.0),
    'sampled': tasks.accuracy(found, params, key, 1.0),
  }
