"""One answer of a language model, shown while it is drawn."""

import math
import time

import jax
import numpy as np

from jaxlab.harness import progress, settings
from jaxlab.lm import chat, experiment_models, sampling

# The first token and two portions of `sampling.stream`.
_WARM = 17


def run(config, workdir) -> None:
  """Answers `config.prompt`."""
  settings.check_positive(config, 'max_new')
  settings.check(
    config, 'prompt', bool(config.prompt.strip()), 'a text that is not empty'
  )
  settings.check(
    config,
    'temperature',
    0 <= config.temperature < math.inf,
    'positive, or 0 for greedy',
  )
  settings.check(config, 'top_k', config.top_k >= 0, 'a whole number from 0')
  settings.check(config, 'top_p', 0 < config.top_p <= 1, 'in (0, 1]')
  found = workdir.cached('answer', lambda: _answer(config))
  answer, tokens = str(found['answer']), int(found['tokens'])
  row = {'prompt': config.prompt, 'answer': answer}
  workdir.save_table('answer', [row], f'What {config.model} answered.')
  workdir.headline('tokens of the answer', tokens)
  workdir.headline(
    'speed after the first tokens', float(found['speed']), unit='tokens/s'
  )


def _answer(config) -> dict[str, np.ndarray]:
  progress.note(f'loading {config.model}')
  model = experiment_models.load(config)
  tokenizer = model.tokenizer
  text = _prompt(config, tokenizer)
  # Where the template writes the beginning of a text, none is added.
  given = tokenizer.encode(text, add_special=not _is_chat(config, tokenizer))
  room = model.cfg.max_len - len(given)
  settings.check(
    config,
    'max_new',
    config.max_new <= room,
    f'at most {room}, for the prompt has {len(given)} tokens and the model was'
    f' made for {model.cfg.max_len}',
  )
  sp = sampling.SamplingParams(
    temperature=config.temperature,
    top_p=config.top_p,
    top_k=config.top_k,
    max_new=config.max_new,
    stop_ids=tokenizer.stop_ids,
  )
  key = settings.key_of(config.seed, 'chat')
  drawn: list[int] = []
  times: list[float] = []

  def tokens():
    for token in sampling.stream(model.apply_fn, model.params, given, key, sp):
      times.append(time.perf_counter())
      drawn.append(token)
      if token not in tokenizer.stop_ids:
        yield token

  pieces = []
  for piece in tokenizer.stream(tokens()):
    pieces.append(piece)
    if jax.process_index() == 0:
      print(piece, end='', flush=True)
  print(flush=True)
  return {
    'answer': np.array(''.join(pieces)),
    'tokens': np.array(len(drawn)),
    'speed': np.array(_speed(times)),
  }


def _is_chat(config, tokenizer) -> bool:
  return bool(config.chat and tokenizer.chat_template)


def _prompt(config, tokenizer) -> str:
  """Returns the text that the model continues."""
  if not _is_chat(config, tokenizer):
    return config.prompt
  messages = [{'role': 'user', 'content': config.prompt}]
  if config.system:
    messages.insert(0, {'role': 'system', 'content': config.system})
  return chat.render(messages, tokenizer.chat_template)


def _speed(times: list[float]) -> float:
  """Tokens a second after the portions in which programs were compiled."""
  if len(times) < 2 * _WARM:
    return float('nan')
  return (len(times) - _WARM) / (times[-1] - times[_WARM - 1])
