"""How many tokens a second are drawn, beside other programs?"""

import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab import errors
from jaxlab.harness import progress, settings
from jaxlab.lm import (
  experiment_models,
  experiment_oracles,
  packages,
  plots,
  sampling,
)

PEERS = ('transformers', 'xllamacpp')
_ERRORS_ALONE = 1


def run(config, workdir) -> None:
  """Times all batches and writes the table and the figure."""
  settings.check_positive(config, 'batches', 'prompt', 'new', 'repeats')
  settings.check(
    config,
    'batches',
    all(isinstance(batch, int) for batch in config.batches),
    'whole numbers',
  )
  if config.peers:
    settings.check_names(config, 'peers', PEERS)
  model = experiment_models.load(config)
  settings.check(
    config,
    'new',
    config.prompt + config.new <= model.cfg.max_len,
    f'at most {model.cfg.max_len - config.prompt}, since the model was made for'
    f' {model.cfg.max_len} tokens',
  )
  prompt = _prompt(model, config.prompt)
  programs: dict[str, Callable[[int], Any]] = {
    'jaxlab': functools.partial(_ours, model, prompt, config.new)
  }
  missing = {}
  for name in config.peers:
    try:
      programs[name] = _peer(name, config, model, prompt)
    except errors.UserError as error:
      missing[name] = str(error)
      progress.note(str(error))
  rows = []
  for batch in progress.track(config.batches, 'batches'):
    for name, draw in programs.items():
      unit = functools.partial(_timed, draw, batch, config.repeats)
      found = workdir.cached(f'{name}_{batch}', unit)
      rows.append(_row(name, batch, config.new, float(found['seconds'])))
  rows += [{'program': name, 'note': text} for name, text in missing.items()]
  workdir.save_table(
    'speed',
    rows,
    f'{config.model}: prompts of {config.prompt} tokens, {config.new} new ones,'
    ' greedy; the prompt counts.',
  )
  rates: dict[str, dict[int, float]] = {}
  for row in rows:
    if 'batch' in row:
      of_program = rates.setdefault(row['program'], {})
      of_program[row['batch']] = row['tokens_per_second']
  workdir.save_figure('speed', plots.speeds(rates), 'Tokens a second.')
  for name, by_batch in rates.items():
    for batch, rate in by_batch.items():
      workdir.headline(f'{name}, batch of {batch}', rate, unit='tokens/s')


def _row(program: str, batch: int, new: int, seconds: float) -> dict[str, Any]:
  return {
    'program': program,
    'batch': batch,
    'seconds': seconds,
    'tokens_per_second': batch * new / seconds,
    'ms_per_step': seconds / new * 1e3,
  }


def _timed(
  draw: Callable[[int], Any], batch: int, repeats: int
) -> dict[str, np.ndarray]:
  draw(batch)
  seconds = []
  for _ in range(repeats):
    start = time.perf_counter()
    draw(batch)
    seconds.append(time.perf_counter() - start)
  return {'seconds': np.array(statistics.median(seconds))}


def _prompt(model, length: int) -> list[int]:
  text = 'Once upon a time there was a river that bent twice, and a mill. '
  ids = model.tokenizer.encode(text, add_special=False)
  return (ids * (length // len(ids) + 1))[:length]


def _ours(model, prompt: list[int], new: int, batch: int) -> None:
  tokens = jnp.array([prompt] * batch, jnp.int32)
  sp = sampling.SamplingParams(temperature=0.0, max_new=new)
  mask = jnp.ones(tokens.shape, bool)
  key = jax.random.key(0)
  out = sampling.generate(model.apply_fn, model.params, tokens, mask, key, sp)
  jax.block_until_ready(out)


def _peer(name, config, model, prompt) -> Callable[[int], None]:
  """Returns the function of the batch.

  Raises:
    UserError: if the program is not installed or cannot read the model.
  """
  if name == 'transformers':
    torch, network = experiment_oracles.transformers_model(
      model.cfg, model.params
    )

    def draw(batch: int) -> None:
      ids = torch.tensor([prompt] * batch)
      with torch.no_grad():
        network.generate(
          ids,
          attention_mask=torch.ones_like(ids),
          min_new_tokens=config.new,
          max_new_tokens=config.new,
          do_sample=False,
          pad_token_id=0,
        )

    return draw
  return _llama_cpp(config, model, prompt)


def _llama_cpp(config, model, prompt) -> Callable[[int], None]:
  """Returns llama.cpp's server with room for the largest batch."""
  library = experiment_oracles.peer('xllamacpp')
  if config.model not in packages.PACKAGES:
    raise errors.UserError('xllamacpp needs a model of a package.')
  slots = max(config.batches)
  options = library.CommonParams()
  options.model.path = str(packages.require(config.model))
  options.n_ctx = slots * (config.prompt + config.new)
  options.n_parallel = slots
  options.verbosity = _ERRORS_ALONE
  server = library.Server(options)
  text = model.tokenizer.decode(prompt)
  request = {
    'prompt': text,
    'n_predict': config.new,
    'temperature': 0.0,
    'ignore_eos': True,
    'cache_prompt': False,
  }

  def draw(batch: int) -> None:
    server.handle_completions({**request, 'prompt': [text] * batch})

  return draw
