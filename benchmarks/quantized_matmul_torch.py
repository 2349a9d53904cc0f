"""PyTorch's products with packed weights: run by the peers' interpreter.

Reads jobs as JSON lines. `{kind, inputs, output}` prepares a product of the
arrays in a file and writes its result to another; `{calls}` repeats it and
answers with the ns of CPU time of a call.
"""

import functools
import importlib.metadata
import json
import sys
import time

import numpy as np
import torch


def int4(x, codes, scale):
  """bfloat16 rows times 4-bit codes in groups; 8 stands for 0."""
  x, scale = x.bfloat16(), scale.bfloat16()
  packed = torch._convert_weight_to_int4pack_for_cpu(codes.T.contiguous(), 2)
  pairs = torch.stack([scale, torch.zeros_like(scale)], -1).contiguous()
  group = codes.shape[0] // scale.shape[0]
  return functools.partial(
    torch._weight_int4pack_mm_for_cpu, x, packed, group, pairs
  )


def int8(x, codes, scale):
  """bfloat16 rows times int8 codes, a scale for each column."""
  x, scale = x.bfloat16(), scale.bfloat16()
  by_column = codes.to(torch.int8).T.contiguous()
  return functools.partial(torch._weight_int8pack_mm, x, by_column, scale[0])


def integers(x, codes):
  """int8 times int8 to int32."""
  return functools.partial(torch._int_mm, x, codes.to(torch.int8))


_KINDS = {'int4': int4, 'int8': int8, 'integers': integers}


def main() -> None:
  """Answers jobs until standard input ends."""
  torch.set_num_threads(1)
  answers, sys.stdout = sys.stdout, sys.stderr
  say = functools.partial(print, file=answers, flush=True)
  say(json.dumps({'version': f'torch {importlib.metadata.version("torch")}'}))
  call = None
  for line in sys.stdin:
    job = json.loads(line)
    if 'kind' in job:
      arrays = dict(np.load(job['inputs']))
      tensors = {name: torch.from_numpy(a) for name, a in arrays.items()}
      call = _KINDS[job['kind']](**tensors)
      result = call()
      floats = result.is_floating_point()
      np.save(job['output'], (result.float() if floats else result).numpy())
      say(json.dumps(None))
      continue
    start = time.process_time_ns()
    for _ in range(job['calls']):
      call()
    say(json.dumps((time.process_time_ns() - start) / job['calls']))


if __name__ == '__main__':
  main()
