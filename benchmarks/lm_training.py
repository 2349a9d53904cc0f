"""Updates of language models, beside PyTorch, and of adapters alone."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks import cpu_time, lm_generation, lm_models, peers, timing
from benchmarks.lm_models import Model
from benchmarks.timing import Row, Side
from jaxlab.harness import startup
from jaxlab.lm import lora, sft, updates

_RATE = 1e-4
_DECAY = 0.01
_FIRST_STEPS = 3
_RANK = 16
_BATCH, _LENGTH = 2, 128

Step = Callable[[], float]


def rows() -> Iterator[Row]:
  """Yields the rows of a small Llama and of SmolLM2."""
  yield beside_torch(lm_models.tiny(), 8, 64, 5)
  found = lm_models.smollm2()
  if found is None:
    why = lm_models.cure(lm_models.SMOLLM2)
    for kind in ('a step', 'a step of LoRA', 'optimizer state of LoRA'):
      yield timing.unmeasured(f'SmolLM2: {kind}', why, 'ms')
    return
  model, _ = found
  yield beside_torch(model, _BATCH, _LENGTH, 3)
  yield from adapters(model, 3)


def beside_torch(model: Model, batch: int, length: int, repeats: int) -> Row:
  """A step of AdamW on all parameters."""
  work = (
    f'A token in a step of SFT by AdamW, {model.name}, float32, {batch} x'
    f' {length}'
  )
  with lm_models.in_torch(model, startup.cores()) as torch:
    if torch.version is None:
      why = 'transformers: not installed'
      return timing.unmeasured(work, why, 'ms', note=peers.CURE)
    tokens = lm_models.random_tokens(model, batch, length)
    step, _ = full(model, tokens)

    def ours(seed: int) -> Any:
      return step() if seed else [step() for _ in range(_FIRST_STEPS)]

    def theirs(seed: int) -> Any:
      if seed:
        return torch.run(kind='step')
      start = {'tokens': tokens.tolist(), 'rate': _RATE, 'decay': _DECAY}
      return torch.run(kind='train', **start)

    row = timing.compare(
      work,
      Side(ours, tokens.size),
      Side(theirs, tokens.size, torch.version),
      cpu_time.within(1e-3, 'first losses'),
      repeats=repeats,
    )
  return lm_generation.with_rates(row)


def adapters(model: Model, repeats: int) -> Iterator[Row]:
  """LoRA beside training of all parameters."""
  tokens = lm_models.random_tokens(model, _BATCH, _LENGTH)
  whole, state = full(model, tokens)
  few, small_state = low_rank(model, tokens)
  losses = cpu_time.within(1e-3, 'first losses')
  name = f'{model.name}, float32, {_BATCH} x {_LENGTH}'
  row = timing.compare(
    f'A token in a step of LoRA, rank {_RANK}, {name}',
    Side(lambda _: few(), tokens.size),
    Side(lambda _: whole(), tokens.size, 'jaxlab, all parameters'),
    losses,
    repeats=repeats,
  )
  yield lm_generation.with_rates(row)
  yield cpu_time.against(
    f'Optimizer state of LoRA, rank {_RANK}, {model.name}',
    *(_mib(small_state), _mib(state), 'jaxlab, all parameters'),
    unit='MiB',
    note='two moments of AdamW in float32',
  )


def full(model: Model, tokens: np.ndarray) -> tuple[Step, int]:
  """A step on all parameters, and the bytes of the optimizer's state."""
  tx = optax.adamw(_RATE, weight_decay=_DECAY)
  update = jax.jit(sft.make_sft_step(model.fn, tx), donate_argnums=0)
  # Donated by the first step: the model's own stay.
  state = updates.init_state(jax.tree.map(jnp.copy, model.params), tx)
  return _repeated(update, state, tokens), _nbytes(state.opt_state)


def low_rank(model: Model, tokens: np.ndarray) -> tuple[Step, int]:
  """A step on adapters, and the bytes of the optimizer's state."""
  cfg = lora.LoRAConfig(r=_RANK)
  base, adapter = lora.init(jax.random.key(0), model.params, cfg)
  fn = lora.lora_apply_fn(model.fn.model, cfg)
  tx = optax.adamw(_RATE, weight_decay=_DECAY)

  def update(state, given):
    base, batch = given
    step = sft.make_sft_step(lora.bind(fn, base), tx)
    return step(state, batch)

  compiled = jax.jit(update, donate_argnums=0)
  state = updates.init_state(adapter, tx)
  run = _repeated(
    lambda state, batch: compiled(state, (base, batch)), state, tokens
  )
  return run, _nbytes(state.opt_state)


def _repeated(update: Callable[..., Any], state: Any, tokens) -> Step:
  """A step on the same batch each time; gives the loss before it."""
  rows = tokens.tolist()
  batch = sft.batch(
    [row[:1] for row in rows], [row[1:] for row in rows], tokens.shape[1]
  )
  held = [state]

  def step() -> float:
    held[0], metrics = update(held[0], batch)
    jax.block_until_ready(held[0])
    return float(metrics['loss'])

  return step


def _nbytes(tree: Any) -> int:
  return sum(x.nbytes for x in jax.tree.leaves(tree))


def _mib(nbytes: int) -> float:
  return nbytes / 2**20
