"""Certified training and bounds in PyTorch: run by the peers' interpreter.

Reads jobs as JSON lines. `{kind, inputs, output}` prepares a computation with
the arrays in a file and writes its result to another; `{calls}` repeats it and
answers with the ns of CPU time of a call. Networks are chains of layers with
kernels `[in, out]` or `[side, side, in, out]` (stride 2), ReLUs between them.
"""

import functools
import importlib.metadata
import itertools
import json
import sys
import time
from typing import Any

import numpy as np
import torch
from torch.nn import functional

_FIRST_STEPS = 3


def training(arrays, eps):
  """A step of IBP training; the result are the losses of the first ones."""
  layers, x, y = _layers(arrays, train=True), arrays['x'], arrays['y']
  images = x.permute(0, 3, 1, 2).contiguous() if x.ndim == 4 else x
  weights = list(itertools.chain(*layers))
  adam = torch.optim.Adam(weights, lr=1e-3, fused=True)

  def step():
    centre, radius = _propagate(layers[:-1], *_box(images, eps))
    kernel, bias = layers[-1]
    logits = centre @ kernel + bias
    # Differences of the rows of all pairs of classes, taken once.
    pairs = (kernel[:, :, None] - kernel[:, None, :]).abs().flatten(1)
    radii = (radius @ pairs).unflatten(1, (len(bias), len(bias)))
    own = y[:, None]
    margins = logits.gather(1, own) - logits - radii[torch.arange(len(y)), y]
    loss = torch.logsumexp(-margins, 1).mean()
    adam.zero_grad()
    loss.backward()
    adam.step()
    return loss.detach()

  return step, torch.stack([step() for _ in range(_FIRST_STEPS)])


def ibp(arrays, eps):
  """Interval bounds with the rows merged into the last layer."""
  layers, C = _layers(arrays), arrays['C']

  def bound():
    centre, radius = _propagate(layers[:-1], *_box(arrays['x'], eps))
    kernel, bias = layers[-1]
    rows = C @ kernel.T
    found = (rows * centre[:, None]).sum(-1) + C @ bias
    return found - (rows.abs() * radius[:, None]).sum(-1)

  return bound, bound()


def crown_ibp(arrays, eps):
  """A backward pass with interval bounds inside."""
  layers = _layers(arrays)

  def bound():
    box = ball = _box(arrays['x'], eps)
    lines = []
    for kernel, bias in layers[:-1]:
      lower, upper = _affine(kernel, bias, *ball)
      lines.append(_relax(lower, upper))
      ball = _ball(lower.relu(), upper.relu())
    return _backward(layers, lines, arrays['C'], *box)

  return bound, bound()


def crown(arrays, eps):
  """Backward passes from each layer."""
  layers = _layers(arrays)

  def bound():
    box = _box(arrays['x'], eps)
    lines = [_relax(*_affine(*layers[0], *box))]
    for depth in range(2, len(layers)):
      one = torch.eye(len(layers[depth - 1][1]))
      both = torch.cat([one, -one]).expand(len(box[0]), -1, -1)
      lower, upper = _backward(layers[:depth], lines, both, *box).chunk(2, 1)
      lines.append(_relax(lower, -upper))
    return _backward(layers, lines, arrays['C'], *box)

  return bound, bound()


def _layers(arrays, *, train=False):
  layers: list[Any] = []
  while f'kernel_{len(layers)}' in arrays:
    kernel, bias = (arrays[f'{n}_{len(layers)}'] for n in ('kernel', 'bias'))
    if kernel.ndim == 4:
      kernel = kernel.permute(3, 2, 0, 1).contiguous()
    layers.append((kernel.requires_grad_(train), bias.requires_grad_(train)))
  return layers


def _box(x, eps):
  return _ball((x - eps).clamp(min=0), (x + eps).clamp(max=1))


def _ball(lower, upper):
  return (lower + upper) / 2, (upper - lower) / 2


def _affine(kernel, bias, centre, radius):
  """Interval bounds behind an affine layer."""
  if kernel.ndim == 4:
    conv = functools.partial(functional.conv2d, stride=2, padding=1)
    centre, radius = conv(centre, kernel, bias), conv(radius, kernel.abs())
  else:
    if centre.ndim == 4:
      centre, radius = (
        a.permute(0, 2, 3, 1).flatten(1) for a in (centre, radius)
      )
    centre, radius = centre @ kernel + bias, radius @ kernel.abs()
  return centre - radius, centre + radius


def _propagate(layers, centre, radius):
  """The ball behind the last ReLU."""
  for kernel, bias in layers:
    lower, upper = _affine(kernel, bias, centre, radius)
    centre, radius = _ball(lower.relu(), upper.relu())
  return centre, radius


def _relax(lower, upper):
  """Slopes of the lines below and above a ReLU, and the upper intercept."""
  low, high = lower.clamp(max=0), upper.clamp(min=0)
  slope = high / (high - low).clamp(min=1e-12)
  below = torch.where(low * high < 0, (high >= -low).to(slope), slope)
  return below[:, None], slope[:, None], (-low * slope)[:, None]


def _backward(layers, lines, rows, centre, radius):
  """Lower bounds of `[B, S, n]` rows of the last layer's result."""
  total = 0
  for depth in reversed(range(len(layers))):
    kernel, bias = layers[depth]
    total = total + rows @ bias
    rows = rows @ kernel.T
    if depth:
      below, above, intercept = lines[depth - 1]
      total = total + (rows.clamp(max=0) * intercept).sum(-1)
      rows = rows * torch.where(rows >= 0, below, above)
  total = total + (rows * centre[:, None]).sum(-1)
  return total - (rows.abs() * radius[:, None]).sum(-1)


_KINDS = {
  'training': training,
  'ibp': ibp,
  'crown_ibp': crown_ibp,
  'crown': crown,
}


def main() -> None:
  """Answers jobs until standard input ends."""
  torch.set_num_threads(1)
  answers, sys.stdout = sys.stdout, sys.stderr
  say = functools.partial(print, file=answers, flush=True)
  say(json.dumps({'version': f'torch {importlib.metadata.version("torch")}'}))
  call: Any = None
  for line in sys.stdin:
    job = json.loads(line)
    if 'kind' in job:
      arrays = dict(np.load(job['inputs']))
      tensors = {name: torch.from_numpy(a) for name, a in arrays.items()}
      call, result = _KINDS[job['kind']](tensors, job['eps'])
      np.save(job['output'], result.numpy())
      say(json.dumps(None))
      continue
    start = time.process_time_ns()
    for _ in range(job['calls']):
      call()
    say(json.dumps((time.process_time_ns() - start) / job['calls']))


if __name__ == '__main__':
  main()
