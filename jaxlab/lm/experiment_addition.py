"""Of the experiments: tiny models that add, and how good they are."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxlab.harness import learners, settings, training
from jaxlab.lm import addition, model, rewards, rlvr, sampling, sft
from jaxlab.lm import config as configs
from jaxlab.lm.model import ApplyFn
from jaxlab.lm.tokenizer import Tokenizer

_WIDEST = 4096
TOKENIZER = Tokenizer.from_characters(addition.ALPHABET)


class Task(NamedTuple):
  """A model without parameters, and its problems.

  Attributes:
    apply_fn: the function of (params, tokens).
    train: problems to learn from.
    test: problems without a pair of numbers in common with them.
    max_new: most tokens of an answer, the last one included.
  """

  apply_fn: ApplyFn
  train: addition.Problems
  test: addition.Problems
  max_new: int


def check(config) -> None:
  """Checks what all experiments of the task have.

  Raises:
    UserError: naming the field.
  """
  settings.check_positive(
    config,
    'layers',
    'width',
    'heads',
    'train',
    'test',
    'sft_steps',
    'sft_batch',
    'sft_learning_rate',
  )
  settings.check_seeds(config)
  settings.check(config, 'digits', config.digits in (1, 2, 3, 4), 'from 1 to 4')
  settings.check(
    config,
    'width',
    config.width % (2 * config.heads) == 0 and config.width <= _WIDEST,
    f'a multiple of twice the heads, at most {_WIDEST}',
  )
  for split in ('train', 'test'):
    most = addition.num_problems(config.digits, split)
    settings.check(config, split, config[split] <= most, f'at most {most}')
  settings.check(
    config,
    'sft_batch',
    config.sft_batch <= config.train,
    f'at most the {config.train} problems to learn from',
  )


def task(config) -> Task:
  """Returns the model and the problems of a config."""
  cfg = configs.tiny(
    'llama',
    n_layers=config.layers,
    d_model=config.width,
    n_heads=config.heads,
    n_kv_heads=config.heads,
    head_dim=config.width // config.heads,
    d_ff=4 * config.width,
    vocab_size=TOKENIZER.vocab_size,
    max_len=4 * config.digits + 8,
  )
  problems = functools.partial(addition.problems, config.digits)
  return Task(
    # Storing what a gradient needs takes longer here than computing it again.
    model.apply_fn(model.Decoder(cfg, remat=True)),
    problems('train', config.train, config.seed),
    problems('test', config.test, config.seed),
    config.digits + 2,
  )


@functools.cache
def _sft_learner(apply_fn: ApplyFn, steps: int, rate: float):
  schedule = optax.warmup_cosine_decay_schedule(
    0, rate, min(50, steps // 2), steps
  )
  tx = optax.adamw(schedule, b2=0.95)
  step = sft.make_sft_step(apply_fn, tx)

  def init(key, hyper):
    del hyper
    tokens = jnp.zeros((1, 4), jnp.int32)
    params = apply_fn.model.init(key, tokens)['params']
    return params, tx.init(params), None

  return learners.Learner(init, lambda state, batch, *_: step(state, batch))


def fine_tuned(config, workdir, found: Task, seed: int, corrupt: float) -> Any:
  """Trains a new model on demonstrations, some digits of them wrong.

  Args:
    config: steps, batch and learning rate.
    workdir: of the run.
    found: the task.
    seed: of parameters, order and wrong digits.
    corrupt: share of wrong digits.

  Returns:
    The parameters.
  """
  texts = addition.answers(found.train)
  rng = np.random.default_rng([config.seed, seed])
  texts = addition.corrupted(texts, corrupt, rng)
  rows = sft.batch(
    [TOKENIZER.encode(text) for text in addition.prompts(found.train)],
    [[*TOKENIZER.encode(text), *TOKENIZER.stop_ids] for text in texts],
    3 * config.digits + 4,
  )
  state = training.fit(
    workdir,
    _sft_learner(found.apply_fn, config.sft_steps, config.sft_learning_rate),
    rows,
    batch_size=config.sft_batch,
    num_steps=config.sft_steps,
    key=settings.key_of(config.seed, 'sft', seed),
    name=f'sft_{seed}',
  )
  return state.params


def prompts(problems: addition.Problems) -> rlvr.Prompts:
  """Returns problems as prompts."""
  tokens, mask = TOKENIZER.encode_batch(addition.prompts(problems), 'left')
  return rlvr.Prompts(tokens, mask, problems.task)


def sampling_params(found: Task, temperature: float = 1.0):
  """Returns how answers are drawn."""
  return sampling.SamplingParams(
    temperature=temperature,
    max_new=found.max_new,
    stop_ids=TOKENIZER.stop_ids,
    pad_id=TOKENIZER.pad_id or 0,
  )


def accuracy(
  found: Task, params: Any, key: jax.Array, temperature: float
) -> float:
  """Share of test problems that are answered exactly."""
  given = prompts(found.test)
  out = sampling.generate(
    found.apply_fn,
    params,
    given.tokens,
    given.mask,
    key,
    sampling_params(found, temperature),
  )
  tokens, mask = np.asarray(out.tokens), np.asarray(out.mask)
  completions = [r[k].tolist() for r, k in zip(tokens, mask, strict=True)]
  return float(np.mean(judged(completions, found.test.task, found)))


def judged(completions, tasks, found: Task) -> list[float]:
  """The verifier: 1 where the text is the sum, 0 otherwise."""
  digits = found.train.digits
  return [
    rewards.addition(TOKENIZER.decode(tokens), addition.gold(number, digits))
    for tokens, number in zip(completions, tasks, strict=True)
  ]
