"""How many problems of GSM8K does a language model solve?"""

import functools
import re

import jax
import numpy as np

from jaxlab import data
from jaxlab.harness import evidence, progress, settings
from jaxlab.lm import chat, experiment_models, rewards, sampling

_ASK = (
  'Solve the problem step by step. End with a line of four number signs and'
  ' the final number, such as "#### 7".'
)


def run(config, workdir) -> None:
  """Answers the first problems of the test split."""
  settings.check_positive(config, 'problems', 'batch', 'max_new')
  settings.check(config, 'shots', 0 <= config.shots <= 8, 'from 0 to 8')
  settings.check(
    config, 'temperature', config.temperature >= 0, 'positive, or 0 for greedy'
  )
  test = data.load('gsm8k', 'test')
  count = min(config.problems, len(test.questions))
  model = functools.cache(lambda: experiment_models.load(config))
  shots = _shots(config.shots)
  answers: list[str] = []
  starts = range(0, count, config.batch)
  for start in progress.track(starts, 'batches of problems'):
    questions = test.questions[start : min(start + config.batch, count)]
    unit = functools.partial(_answers, config, model, shots, questions, start)
    answers += workdir.cached(f'answers_{start}', unit)['answers'].tolist()
  golds = test.answers[:count]
  strict = [rewards.gsm8k(a, g) for a, g in zip(answers, golds, strict=True)]
  loose = [_last_number(a, g) for a, g in zip(answers, golds, strict=True)]
  workdir.save_table(
    'answers',
    [
      {'question': q, 'gold': g, 'answer': a, 'right': s, 'last_number': w}
      for q, g, a, s, w in zip(
        test.questions[:count], golds, answers, strict, loose, strict=True
      )
    ],
    'Every problem with its answer.',
  )
  _report(config, workdir, np.array(strict), np.array(loose))


def _report(config, workdir, strict, loose) -> None:
  for name, right in (
    ('solved, marked by ####', strict),
    ('solved, last number of the text', loose),
  ):
    low, high = evidence.share_interval(int(right.sum()), right.size)
    workdir.headline(name, float(right.mean()), low, high, 'share')
  workdir.add_claim(
    evidence.share_claim(
      f'{config.model} solves fewer than one problem in ten',
      loose > 0,
      threshold=0.1,
      sense='<',
      source='spec of the stack: single-digit accuracy is expected',
      note=f'{config.shots} worked examples; the last number counts',
    )
  )


def _shots(count: int) -> list[tuple[str, str]]:
  """Returns worked examples of the training split, without their marks."""
  if not count:
    return []
  train = data.load('gsm8k', 'train', calculator_marks=False)
  pairs = zip(train.questions[:count], train.solutions[:count], strict=True)
  return list(pairs)


def _answers(config, model, shots, questions, start) -> dict[str, np.ndarray]:
  found = model()
  tokenizer = found.tokenizer
  texts = [_prompt(found, shots, question) for question in questions]
  ids, mask = tokenizer.encode_batch(
    texts, 'left', add_special=not tokenizer.chat_template
  )
  room = found.cfg.max_len - ids.shape[1]
  settings.check(
    config,
    'max_new',
    config.max_new <= room,
    f'at most {room}, for a prompt has {ids.shape[1]} tokens and the model was'
    f' made for {found.cfg.max_len}',
  )
  sp = sampling.SamplingParams(
    temperature=config.temperature,
    max_new=config.max_new,
    stop_ids=tokenizer.stop_ids,
  )
  key = settings.key_of(config.seed, 'gsm8k')
  rows = start + np.arange(len(texts))
  out = sampling.generate(
    found.apply_fn, found.params, ids, mask, key, sp, row_ids=rows
  )
  tokens, kept = jax.device_get((out.tokens, out.mask))
  answers = [
    tokenizer.decode(row[alive].tolist())
    for row, alive in zip(tokens, kept, strict=True)
  ]
  return {'answers': np.array(answers)}


def _prompt(found, shots, question: str) -> str:
  """Returns a conversation, or for a base model a text to continue."""
  template = found.tokenizer.chat_template
  if template is None:
    worked = ''.join(f'Question: {q}\nAnswer: {a}\n\n' for q, a in shots)
    return f'{_ASK}\n\n{worked}Question: {question}\nAnswer:'
  messages = []
  for asked, answer in shots:
    messages.append({'role': 'user', 'content': f'{_ASK}\n\n{asked}'})
    messages.append({'role': 'assistant', 'content': answer})
  messages.append({'role': 'user', 'content': f'{_ASK}\n\n{question}'})
  return chat.render(messages, template)


def _last_number(text: str, gold: str) -> float:
  """Compares the last number of the text, wherever it stands."""
  found = re.findall(r'-?\d[\d,]*(?:\.\d+)?', text)
  return rewards.numeric(found[-1], gold) if found else 0.0
