"""Do verifiable rewards mend what noisy demonstrations have taught?"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxlab.harness import evidence, learners, settings, training
from jaxlab.lm import experiment_addition as tasks
from jaxlab.lm import plots, policy, rlvr

ARMS = ('verifier', 'random')
_SOURCE = 'spec of the stack: GRPO from a noisy start'


def run(config, workdir) -> None:
  """Trains some seeds under each arm and tests before and after."""
  _check(config)
  found = tasks.task(config)
  rows = []
  for seed in range(config.seeds):
    start = tasks.fine_tuned(config, workdir, found, seed, config.corrupt)
    measure = functools.partial(_measured, config, found, seed)
    unit = functools.partial(measure, start)
    rows.append(_row('start', seed, workdir.cached(f'start_{seed}', unit)))
    for arm in config.arms:
      params = _reinforced(config, workdir, found, seed, arm, start)
      unit = functools.partial(measure, params)
      name = f'{arm}_{seed}'
      rows.append(_row(arm, seed, workdir.cached(name, unit)))
  workdir.save_table(
    'accuracy',
    rows,
    f'Share of {config.test} problems, none of them seen, answered exactly.',
  )
  by_arm = {
    arm: {
      kind: np.array([row[kind] for row in rows if row['arm'] == arm])
      for kind in ('sampled', 'greedy')
    }
    for arm in ('start', *config.arms)
  }
  _claims(by_arm, workdir)
  workdir.save_figure(
    'accuracy',
    plots.before_and_after(
      {arm: values['sampled'] for arm, values in by_arm.items()},
      'exact answers, sampled',
    ),
    'Sampled answers that are right: each point is a seed.',
  )


def _check(config) -> None:
  tasks.check(config)
  settings.check_positive(
    config, 'prompts', 'rl_steps', 'rl_learning_rate', 'clip', 'warmup'
  )
  settings.check(config, 'group', config.group >= 2, 'at least 2')
  settings.check(config, 'corrupt', 0 <= config.corrupt <= 1, 'from 0 to 1')
  settings.check(config, 'beta', 0 <= config.beta < math.inf, 'a number from 0')
  settings.check(
    config,
    'prompts',
    config.prompts <= config.train,
    f'at most the {config.train} problems to learn from',
  )
  for field, known in (
    ('adv', policy.ADVANTAGES),
    ('aggregation', policy.AGGREGATIONS),
  ):
    settings.check(
      config, field, config[field] in known, f'one of {", ".join(known)}'
    )
  settings.check_names(config, 'arms', ARMS)
  settings.check(
    config, 'arms', 'verifier' in config.arms, "with 'verifier' among them"
  )


def _row(arm: str, seed: int, found) -> dict[str, Any]:
  values = {name: value.item() for name, value in found.items()}
  return {'arm': arm, 'seed': seed, **values}


def _measured(config, found, seed, params) -> dict[str, float]:
  key = settings.key_of(config.seed, 'test', seed)
  return {
    'sampled': tasks.accuracy(found, params, key, 1.0),
    'greedy': tasks.accuracy(found, params, key, 0.0),
  }


@functools.cache
def _optimizer(rate: float, warmup: int, clip: float):
  schedule = optax.warmup_constant_schedule(0, rate, warmup)
  return optax.chain(
    optax.clip_by_global_norm(clip),
    optax.adamw(schedule, b1=0.9, b2=0.95, weight_decay=0),
  )


@functools.cache
def _learner(apply_fn, tx, **options):
  step = rlvr.make_grpo_step(apply_fn, tx, **options)

  def init(key, hyper):
    del key
    # A copy: updates give their state's memory away.
    params = jax.tree.map(jnp.copy, hyper)
    return params, tx.init(params), None

  return learners.Learner(init, lambda state, batch, *_: step(state, batch))


def _reinforced(config, workdir, found, seed, arm, start) -> Any:
  """Returns the parameters after reinforcement learning."""
  learner = _learner(
    found.apply_fn,
    _optimizer(config.rl_learning_rate, config.warmup, config.clip),
    beta=config.beta,
    adv=config.adv,
    aggregation=config.aggregation,
    max_new=found.max_new,
  )
  sp = tasks.sampling_params(found)

  def collect(state, given, key):
    draw, chance = jax.random.split(key)

    def reward(completions, numbers):
      right = tasks.judged(completions, numbers, found)
      if arm == 'verifier':
        return right
      # The same number of rewards, given to whomever.
      return np.asarray(jax.random.permutation(chance, jnp.array(right)))

    return rlvr.rollout(
      *(found.apply_fn, state.params, given, draw, sp, reward),
      group_size=config.group,
      ref_params=start,
    )

  state = training.fit(
    workdir,
    learner,
    tasks.prompts(found.train),
    batch_size=config.prompts,
    num_steps=config.rl_steps,
    key=settings.key_of(config.seed, 'rl', seed),
    hyper=start,
    collect=collect,
    log_every=10,
    name=f'{arm}_{seed}',
  )
  return state.params


def _claims(by_arm, workdir) -> None:
  before, after = by_arm['start'], by_arm['verifier']
  gain = after['sampled'] - before['sampled']
  workdir.add_claim(
    evidence.mean_claim(
      'rewards by a verifier raise the share of sampled answers that are right',
      gain,
      threshold=0.0,
      sense='>',
      unit='share',
      source=_SOURCE,
    )
  )
  workdir.add_claim(
    evidence.mean_claim(
      'and greedy answers lose less than 5 points',
      after['greedy'] - before['greedy'],
      threshold=-0.05,
      sense='>',
      unit='share',
      source=_SOURCE,
    )
  )
  if 'random' in by_arm:
    workdir.add_claim(
      evidence.mean_claim(
        'rewards by the verifier do better than as many given at random',
        after['sampled'] - by_arm['random']['sampled'],
        threshold=0.0,
        sense='>',
        unit='share',
        source=_SOURCE,
        note='same start, problems and keys',
      )
    )
  for arm, values in by_arm.items():
    for kind, exact in values.items():
      workdir.headline(f'{arm}, {kind}', float(exact.mean()), unit='share')
