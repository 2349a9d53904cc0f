"""Text from llama.cpp, through xllamacpp: run by the peers' interpreter.

Reads jobs as JSON lines. `{path, slots, threads}` starts a server that answers
so many prompts at once; `{prompts, new}` answers with the likeliest tokens
after each of the prompts `[B, T]`.
"""

import functools
import importlib.metadata
import json
import sys
import urllib.request
from typing import Any

import xllamacpp

_CONTEXT = 256


def server(path, slots, threads):
  """Starts a server with two pools of so many threads."""
  params = xllamacpp.CommonParams()
  params.model.path = path
  params.n_ctx = slots * _CONTEXT
  params.n_parallel = slots
  params.cpuparams.n_threads = threads
  params.cpuparams_batch.n_threads = threads
  return xllamacpp.Server(params)


def generate(address, prompts, new):
  """Returns tokens `[B, new]`."""
  job = {
    'prompt': prompts,
    'n_predict': new,
    'temperature': 0,
    'ignore_eos': True,
    'return_tokens': True,
    'cache_prompt': False,
  }
  request = urllib.request.Request(
    f'{address}/completion',
    json.dumps(job).encode(),
    {'Content-Type': 'application/json'},
  )
  with urllib.request.urlopen(request) as answer:
    found = json.load(answer)
  rows = found if isinstance(found, list) else [found]
  return [row['tokens'] for row in sorted(rows, key=lambda row: row['index'])]


def main() -> None:
  """Answers jobs until standard input ends."""
  answers, sys.stdout = sys.stdout, sys.stderr
  say = functools.partial(print, file=answers, flush=True)
  version = f'xllamacpp {importlib.metadata.version("xllamacpp")}'
  say(json.dumps({'version': version}))
  running: Any = None
  for line in sys.stdin:
    job = json.loads(line)
    if 'path' in job:
      running = server(job['path'], job['slots'], job['threads'])
      say(json.dumps(None))
    else:
      tokens = generate(running.listening_address, job['prompts'], job['new'])
      say(json.dumps(tokens))


if __name__ == '__main__':
  main()
