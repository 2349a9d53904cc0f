"""A small language model that learns from its own draws, for `collect`.

python -m tests.harness.small_collect FOLDER NUM_STEPS [KILL_AT]
"""

import functools
import os
import pathlib
import signal
import sys
import time
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax

from jaxlab.harness import learners, training
from jaxlab.lm import config, model, rlvr
from jaxlab.lm.sampling import SamplingParams
from tests.harness import small_run

APPLY = model.apply_fn(
  model.Decoder(config.tiny('llama', n_layers=1, d_model=16, vocab_size=12))
)
PROMPTS = rlvr.Prompts(
  np.random.default_rng(0).integers(1, 12, (9, 3)).astype(np.int32),
  np.ones((9, 3), bool),
  np.arange(9),
)
_SP = SamplingParams(max_new=3)


@functools.cache
def learner() -> learners.Learner:
  """GRPO with Adam."""
  tx = optax.adam(0.02)
  step = rlvr.make_grpo_step(APPLY, tx)

  def init(key, hyper):
    del hyper
    params = APPLY.model.init(key, jnp.zeros((1, 1), jnp.int32))['params']
    return params, tx.init(params), None

  return learners.Learner(init, lambda state, batch, *_: step(state, batch))


def collect(state, batch, key) -> rlvr.RolloutBatch:
  """Draws answers; those with small tokens are right."""

  def reward(completions, tasks):
    del tasks
    return [float(np.mean(tokens) < 5) for tokens in completions]

  return rlvr.rollout(
    *(APPLY, state.params, batch, key, _SP, reward),
    group_size=4,
    allow_truncated=True,
  )


def train(path: pathlib.Path, num_steps: int, **options: Any) -> Any:
  """Trains in a folder, with a checkpoint every ten steps."""
  options = {'collect': collect, 'batches': PROMPTS, 'batch_size': 4, **options}
  with small_run.open_workdir(path) as folder:
    return training.fit(
      folder,
      learner(),
      options.pop('batches'),
      num_steps=num_steps,
      key=3,
      log_every=5,
      checkpoint_every=10,
      **options,
    )


def main(folder: str, num_steps: str, death: str = '-1') -> None:
  """Trains, and dies at a step where one is given, with a checkpoint."""
  written = pathlib.Path(folder) / 'checkpoints' / 'train' / '10'

  def dying(state, batch, key):
    if int(state.step) == int(death):
      while not written.exists():  # it is written while training goes on
        time.sleep(0.05)
      os.kill(os.getpid(), signal.SIGKILL)
    return collect(state, batch, key)

  train(pathlib.Path(folder), int(num_steps), collect=dying)


if __name__ == '__main__':
  main(*sys.argv[1:])
