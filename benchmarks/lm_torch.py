"""Language models in PyTorch, by transformers: run by the peers' interpreter.

Reads jobs as JSON lines. `{kind: "load", folder, threads}` reads a checkpoint
of the hub's layout; `prefill` reads tokens and writes the last logits to a file
where one is named; `generate` answers with the likeliest tokens; `train`
prepares updates by AdamW and answers with the first losses; `step` does one.
"""

import functools
import importlib.metadata
import json
import os
import sys

os.environ['HF_HUB_OFFLINE'] = '1'

import numpy as np
import torch
import transformers

_FIRST_STEPS = 3


class Model:
  """A checkpoint, and the step that trains it."""

  def __init__(self, folder, threads):
    torch.set_num_threads(threads)
    self.model = transformers.AutoModelForCausalLM.from_pretrained(
      folder, dtype=torch.float32
    ).eval()
    # No token ends a text, so that all are equally long.
    self.model.generation_config = transformers.GenerationConfig(pad_token_id=0)

  @torch.inference_mode()
  def prefill(self, tokens, output):
    """Reads tokens into a cache; writes the last position's logits."""
    rows = torch.tensor(tokens)
    read = self.model(input_ids=rows, use_cache=True, logits_to_keep=1)
    logits = read.logits[:, -1].numpy()
    if output:
      np.save(output, logits)

  @torch.inference_mode()
  def generate(self, tokens, new):
    """Returns the likeliest tokens `[B, new]`."""
    rows = torch.tensor(tokens)
    found = self.model.generate(
      input_ids=rows,
      attention_mask=torch.ones_like(rows),
      do_sample=False,
      max_new_tokens=new,
    )
    return found[:, rows.shape[1] :].tolist()

  def train(self, tokens, rate, decay):
    """Prepares the update on a batch; returns the first losses."""
    self.model.train()
    self.rows = torch.tensor(tokens)
    self.adam = torch.optim.AdamW(
      self.model.parameters(), lr=rate, weight_decay=decay, fused=True
    )
    return [self.step() for _ in range(_FIRST_STEPS)]

  def step(self):
    """Does one update; returns the loss before it."""
    read = self.model(input_ids=self.rows, labels=self.rows, use_cache=False)
    self.adam.zero_grad()
    read.loss.backward()
    self.adam.step()
    return read.loss.item()


def main() -> None:
  """Answers jobs until standard input ends."""
  answers, sys.stdout = sys.stdout, sys.stderr
  say = functools.partial(print, file=answers, flush=True)
  names = ('transformers', 'torch')
  version = ', '.join(f'{n} {importlib.metadata.version(n)}' for n in names)
  say(json.dumps({'version': version}))
  model = None
  for line in sys.stdin:
    job = json.loads(line)
    kind = job.pop('kind')
    if kind == 'load':
      model, answer = Model(**job), None
    else:
      answer = getattr(model, kind)(**job)
    say(json.dumps(answer))


if __name__ == '__main__':
  main()
