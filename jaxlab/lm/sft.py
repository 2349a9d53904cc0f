"""Supervised fine-tuning: the likelihood of given completions.

batch = sft.batch(prompts, completions, length=64)
step = jax.jit(sft.make_sft_step(apply_fn(model), optax.adamw(1e-4)))
state = updates.init_state(params, tx)
state, metrics = step(state, batch)
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxlab.lm import updates
from jaxlab.lm.sampling import token_logprob


class SFTBatch(NamedTuple):
  """Rows of tokens, each of one example or of several packed together.

  Attributes:
    tokens: `[B, T]` int32.
    loss_mask: `[B, T]` bool, tokens of completions, which are learned.
    segments: `[B, T]` int32, number of the example in its row from 1; 0 for
      padding.
    positions: `[B, T]` int32, from 0 in each example.
  """

  tokens: Any
  loss_mask: Any
  segments: Any
  positions: Any


def sft_loss(
  apply_fn: Callable[..., Any],
  params: Any,
  batch: SFTBatch,
  count: jax.Array | None = None,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """Mean over completion tokens of the negative log-probability, in nats.

  Args:
    apply_fn: the model.
    params: its parameters.
    batch: the rows.
    count: `[]` number of completion tokens to divide by; by default those of
      these rows.

  Returns:
    The loss, and the metrics `accuracy` (share of completion tokens that are
    the likeliest) and `tokens`.
  """
  same = batch.segments[:, :, None] == batch.segments[:, None, :]
  mask = same & (batch.segments[:, None, :] > 0)
  logits = apply_fn(
    params, batch.tokens, positions=batch.positions, mask=mask
  ).logits[:, :-1]
  targets = batch.tokens[:, 1:]
  learned = _learned(batch)
  count = jnp.sum(learned) if count is None else count
  share = learned / jnp.maximum(count, 1)
  loss = -jnp.sum(share * token_logprob(logits, targets))
  right = jnp.argmax(logits, axis=-1) == targets
  metrics = {
    'accuracy': jnp.sum(share * right),
    'tokens': jnp.sum(learned).astype(jnp.float32),
  }
  return loss, metrics


def make_sft_step(
  apply_fn: Callable[..., Any],
  tx: optax.GradientTransformation,
  *,
  accumulate: int = 1,
) -> Callable[[Any, SFTBatch], tuple[Any, dict[str, jax.Array]]]:
  """Returns the update `(state, batch) -> (state, metrics)`; pure.

  Args:
    apply_fn: the model.
    tx: the optimizer.
    accumulate: parts of a batch that are computed one after the other; the
      gradient is that of the whole batch.
  """

  def step(state, batch):
    count = jnp.sum(_learned(batch))

    def loss(params, rows):
      return sft_loss(apply_fn, params, rows, count)

    return updates.update(state, batch, loss, tx, accumulate)

  return step


def batch(
  prompts: Sequence[Sequence[int]],
  completions: Sequence[Sequence[int]],
  length: int,
  *,
  packed: bool = False,
  pad_id: int = 0,
) -> SFTBatch:
  """Lays out examples in rows, on the host.

  Args:
    prompts: tokens that are given.
    completions: tokens that are learned, with the one that ends them.
    length: number T of tokens in a row.
    packed: whether rows hold as many examples as fit, in their order.
    pad_id: token of the padding.

  Returns:
    NumPy arrays; `B` is the number of examples, or less when packed.

  Raises:
    ValueError: if an example is empty or longer than a row.
  """
  rows: list[list[tuple[list[int], int]]] = []
  room = 0
  pairs = list(zip(prompts, completions, strict=True))
  if not pairs:
    raise ValueError('there is no example; give at least one.')
  for number, (prompt, completion) in enumerate(pairs):
    tokens = [*prompt, *completion]
    if not all(isinstance(t, int | np.integer) and t >= 0 for t in tokens):
      raise ValueError(
        f'example {number} has a token that is no whole number from 0.'
      )
    if not len(prompt) or not len(completion) or len(tokens) > length:
      raise ValueError(
        f'example {number} has {len(prompt)} + {len(completion)} tokens; both'
        f' parts need one, and a row has {length}.'
      )
    if not packed or len(tokens) > room:
      rows.append([])
      room = length
    rows[-1].append((tokens, len(prompt)))
    room -= len(tokens)
  return _laid_out(rows, length, pad_id)


def _laid_out(rows, length: int, pad_id: int) -> SFTBatch:
  shape = len(rows), length
  found = SFTBatch(
    np.full(shape, pad_id, np.int32),
    np.zeros(shape, bool),
    np.zeros(shape, np.int32),
    np.zeros(shape, np.int32),
  )
  for r, examples in enumerate(rows):
    start = 0
    for number, (tokens, given) in enumerate(examples, start=1):
      where = slice(start, start + len(tokens))
      found.tokens[r, where] = tokens
      found.loss_mask[r, start + given : where.stop] = True
      found.segments[r, where] = number
      found.positions[r, where] = np.arange(len(tokens))
      start = where.stop
  return found


def _learned(batch: SFTBatch) -> jax.Array:
  """`[B, T-1]`: tokens 1 to T-1 that are learned from one of their example."""
  inside = batch.segments[:, 1:] == batch.segments[:, :-1]
  return batch.loss_mask[:, 1:] & inside & (batch.segments[:, 1:] > 0)
