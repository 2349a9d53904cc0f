"""Text from a model: one pass over the prompts, then a loop over tokens.

sp = SamplingParams(temperature=0.8, max_new=64, stop_ids=tokenizer.stop_ids)
out = generate(apply_fn(model), params, prompts, prompt_mask, key, sp)
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.lm.filters import SamplingParams, filter_logits
from jaxlab.lm.model import ApplyFn

__all__ = [
  'GenerateOutput',
  'SamplingParams',
  'bucket',
  'filter_logits',
  'generate',
  'sequence_logprob',
  'stream',
  'token_logprob',
]

_SMALLEST_BUCKET = 16
LENGTH, STOP = 0, 1


class GenerateOutput(NamedTuple):
  """What was drawn.

  Attributes:
    tokens: `[B, max_new]` int32; `pad_id` after a row's end.
    mask: `[B, max_new]` bool, the drawn tokens, the stop token included.
    logprobs: `[B, max_new]` log-probability of each token in the filtered
      distribution that it was drawn from; 0 where masked.
    model_logprobs: `[B, max_new]` the same in the model's own distribution,
      of temperature 1 and without filters.
    stop_reason: `[B]` int32: `STOP` where a stop token came, else `LENGTH`.
    steps: `[]` int32, tokens drawn before all rows had stopped.
  """

  tokens: jax.Array
  mask: jax.Array
  logprobs: jax.Array
  model_logprobs: jax.Array
  stop_reason: jax.Array
  steps: jax.Array


def generate(
  apply_fn: ApplyFn,
  params: Any,
  prompts: jax.Array,
  prompt_mask: jax.Array,
  key: jax.Array,
  sp: SamplingParams,
  *,
  row_ids: jax.Array | None = None,
  max_len: int | None = None,
  cache_dtype: Any = None,
) -> GenerateOutput:
  """Draws an answer to each prompt.

  Called with concrete arrays it checks them and pads prompts to a power of
  two, so that few programs are compiled; inside `jit` it takes them as they
  are.

  Args:
    apply_fn: the model.
    params: its parameters.
    prompts: `[B, T]` int32 tokens, padded on either side.
    prompt_mask: `[B, T]` bool, which are no padding.
    key: PRNG key. A row's draw depends on the key, its row id and the number
      of the token alone, so that its text does not depend on the other rows.
    sp: how tokens are drawn.
    row_ids: `[B]` whole numbers; by default 0, 1, ...
    max_len: most tokens of a prompt and its answer; by default as many as the
      model was made for.
    cache_dtype: of keys and values; by default that in which the model
      computes.

  Returns:
    The answers.

  Raises:
    ValueError: if there is no prompt, a token is no token, a prompt is empty
      or too long, or a number of `sp` is out of range.
  """
  prompts, prompt_mask = jnp.asarray(prompts), jnp.asarray(prompt_mask)
  rows = len(prompts)
  row_ids = jnp.arange(rows) if row_ids is None else jnp.asarray(row_ids)
  if row_ids.shape != (rows,):
    raise ValueError(
      f'row_ids has shape {list(row_ids.shape)}; there are {rows} prompts.'
    )
  prompts, prompt_mask = _ready(
    apply_fn, prompts, prompt_mask, key, sp, max_len
  )
  return _generate(
    apply_fn, cache_dtype, params, prompts, prompt_mask, key, sp, row_ids
  )


def stream(
  apply_fn: ApplyFn,
  params: Any,
  prompt: Sequence[int],
  key: jax.Array,
  sp: SamplingParams,
  *,
  every: int = 8,
  max_len: int | None = None,
) -> Iterator[int]:
  """Yields the tokens of one answer while they are drawn.

  Args:
    apply_fn: the model.
    params: its parameters.
    prompt: tokens of the prompt.
    key: as for `generate`, which gives the same tokens.
    sp: as for `generate`.
    every: tokens that are drawn before they are handed over.
    max_len: as for `generate`.

  Raises:
    ValueError: as for `generate`.
  """
  if every < 1:
    raise ValueError(f'every must be positive, got {every}.')
  tokens = jnp.array([prompt], jnp.int32).reshape(1, -1)
  mask = jnp.ones(tokens.shape, bool)
  tokens, mask = _ready(apply_fn, tokens, mask, key, sp, max_len)
  row_keys = _row_keys(key, jnp.arange(1))
  state = _prefill(apply_fn, None, params, tokens, mask, row_keys, sp)
  sent = 0
  while True:
    done, stopped = int(state.step), bool(state.stopped[0])
    yield from np.asarray(state.out.tokens[0, sent:done]).tolist()
    if stopped or done == sp.max_new:
      return
    sent, until = done, min(done + every, sp.max_new)
    state = _advance(apply_fn, params, state, row_keys, sp, until)


def bucket(length: int) -> int:
  """Returns the power of two, at least 16, to which prompts are padded."""
  return max(_SMALLEST_BUCKET, 1 << (length - 1).bit_length())


def sequence_logprob(
  apply_fn: Callable[..., Any], params: Any, tokens: jax.Array, mask: jax.Array
) -> jax.Array:
  """Log-probability of each token after those before it.

  Args:
    apply_fn: the model.
    params: its parameters.
    tokens: `[B, T]` int32.
    mask: `[B, T]` bool, which are no padding.

  Returns:
    `[B, T-1]` float32, of tokens 1 to T-1.
  """
  logits = apply_fn(params, tokens, mask=mask).logits
  return token_logprob(logits[:, :-1], tokens[:, 1:])


def token_logprob(logits: jax.Array, tokens: jax.Array) -> jax.Array:
  """Log-probability `[...]` of tokens `[...]` under logits `[..., V]`."""
  chosen = jnp.take_along_axis(logits, tokens[..., None], axis=-1)[..., 0]
  return chosen - jax.nn.logsumexp(logits, axis=-1)


class _State(NamedTuple):
  """The loop's: cache, last tokens, which rows have stopped, what was drawn.

  Attributes:
    step: `[]` int32, tokens drawn of each row.
    cache: keys and values, all but those of the last token.
    token: `[B]` the last token.
    stopped: `[B]` bool.
    out: what was drawn so far.
  """

  step: jax.Array
  cache: Any
  token: jax.Array
  stopped: jax.Array
  out: GenerateOutput


@functools.partial(jax.jit, static_argnums=(0, 1))
def _generate(
  apply_fn, cache_dtype, params, prompts, prompt_mask, key, sp, row_ids
) -> GenerateOutput:
  row_keys = _row_keys(key, row_ids)
  state = _prefill(
    apply_fn, cache_dtype, params, prompts, prompt_mask, row_keys, sp
  )
  return _finished(_advance(apply_fn, params, state, row_keys, sp, sp.max_new))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _prefill(
  apply_fn, cache_dtype, params, prompts, prompt_mask, row_keys, sp
) -> _State:
  """Reads the prompts and draws the first token."""
  batch, length = prompts.shape
  # The last token is drawn and not read.
  if cache_dtype is None:
    cache_dtype = apply_fn.compute_dtype(params)
  cache = apply_fn.init_cache(batch, length + sp.max_new - 1, cache_dtype)
  start = length - jnp.sum(prompt_mask, axis=1, dtype=jnp.int32)
  cache = cache._replace(start=start)
  read = apply_fn(params, prompts, cache=cache, last_only=True)
  logits = read.logits[:, -1]
  shape = (batch, sp.max_new)
  nothing = GenerateOutput(
    tokens=jnp.full(shape, sp.pad_id, jnp.int32),
    mask=jnp.zeros(shape, bool),
    logprobs=jnp.zeros(shape, logits.dtype),
    model_logprobs=jnp.zeros(shape, logits.dtype),
    stop_reason=jnp.full(batch, LENGTH, jnp.int32),
    steps=jnp.int32(0),
  )
  token, stopped = jnp.zeros(batch, jnp.int32), jnp.zeros(batch, bool)
  state = _State(jnp.int32(0), read.cache, token, stopped, nothing)
  return _draw(state, logits, row_keys, sp)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=2)
def _advance(apply_fn, params, state, row_keys, sp, until) -> _State:
  """Draws until there are `until` tokens or all rows have stopped."""

  def more(state: _State) -> jax.Array:
    return (state.step < until) & ~jnp.all(state.stopped)

  def body(state: _State) -> _State:
    read = apply_fn(
      params, state.token[:, None], cache=state.cache, last_only=True
    )
    state = state._replace(cache=read.cache)
    return _draw(state, read.logits[:, -1], row_keys, sp)

  return jax.lax.while_loop(more, body, state)


def _draw(state: _State, logits, row_keys, sp) -> _State:
  """Adds a token to each row that has not stopped."""
  keys = jax.vmap(jax.random.fold_in, (0, None))(row_keys, state.step)
  token, logprobs = _chosen(logits, keys, sp)
  alive = ~state.stopped
  token = jnp.where(alive, token, sp.pad_id)

  def put(rows, value, otherwise=0):
    value = jnp.where(alive, value, otherwise).astype(rows.dtype)
    where = (jnp.zeros_like(state.step), state.step)
    return jax.lax.dynamic_update_slice(rows, value[:, None], where)

  stops = jnp.array(sp.stop_ids, jnp.int32)
  out = state.out
  return _State(
    step=state.step + 1,
    cache=state.cache,
    token=token,
    stopped=state.stopped | jnp.any(token[:, None] == stops, axis=1),
    out=out._replace(
      tokens=put(out.tokens, token, sp.pad_id),
      mask=put(out.mask, alive),
      logprobs=put(out.logprobs, logprobs),
      model_logprobs=put(out.model_logprobs, token_logprob(logits, token)),
    ),
  )


def _chosen(logits, keys, sp) -> tuple[jax.Array, jax.Array]:
  """Returns tokens `[B]` and their log-probabilities among those allowed."""

  def likeliest():
    token = jnp.argmax(logits, axis=-1).astype(jnp.int32)
    return token, jnp.zeros(token.shape, logits.dtype)

  def drawn():
    filtered = filter_logits(logits, sp)
    token = jax.vmap(jax.random.categorical)(keys, filtered).astype(jnp.int32)
    return token, token_logprob(filtered, token)

  # A vocabulary of random numbers takes longer than some models' blocks.
  return jax.lax.cond(
    jnp.all(jnp.asarray(sp.temperature) == 0), likeliest, drawn
  )


def _finished(state: _State) -> GenerateOutput:
  reason = jnp.where(state.stopped, STOP, LENGTH).astype(jnp.int32)
  return state.out._replace(stop_reason=reason, steps=state.step)


def _row_keys(key: jax.Array, row_ids: jax.Array) -> jax.Array:
  return jax.vmap(jax.random.fold_in, (None, 0))(key, row_ids)


def _ready(
  apply_fn, prompts, prompt_mask, key, sp, max_len
) -> tuple[jax.Array, jax.Array]:
  """Checks what is concrete, and returns prompts padded on the left."""
  sp.check()
  limit = apply_fn.model.cfg.max_len if max_len is None else max_len
  size = apply_fn.model.cfg.vocab_size
  foreign = [token for token in sp.stop_ids if not 0 <= token < size]
  if foreign:
    raise ValueError(
      f'stop_ids hold {foreign[0]}, which is outside [0, {size}).'
    )
  given = (prompts, prompt_mask, key)
  if not any(isinstance(x, jax.core.Tracer) for x in given):
    prompts, prompt_mask = _bucketed(
      np.asarray(prompts), np.asarray(prompt_mask), apply_fn, sp, limit
    )
  return _left_padded(jnp.asarray(prompts), jnp.asarray(prompt_mask, bool))


def _left_padded(
  tokens: jax.Array, mask: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """Moves each row's padding to its left."""
  order = jnp.argsort(mask, axis=1, stable=True)
  return tuple(jnp.take_along_axis(x, order, axis=1) for x in (tokens, mask))  # type: ignore[return-value]


def _bucketed(
  prompts: np.ndarray,
  mask: np.ndarray,
  apply_fn: ApplyFn,
  sp: SamplingParams,
  limit: int,
) -> tuple[np.ndarray, np.ndarray]:
  """Checks concrete prompts and pads them on the left to a power of two."""
  if prompts.ndim != 2 or not prompts.size:
    raise ValueError(
      f'prompts must be [batch, length] with rows, got {list(prompts.shape)}.'
    )
  if mask.shape != prompts.shape:
    raise ValueError(
      f'prompt_mask has shape {list(mask.shape)}, prompts have'
      f' {list(prompts.shape)}.'
    )
  mask = mask.astype(bool)
  size = apply_fn.model.cfg.vocab_size
  bad = mask & ((prompts < 0) | (prompts >= size))
  if bad.any():
    row, place = np.argwhere(bad)[0]
    raise ValueError(
      f'prompt {row} has token id {prompts[row, place]}, outside [0, {size}).'
    )
  lengths = mask.sum(axis=1)
  if not lengths.all():
    raise ValueError(
      f'prompt {int(np.argmin(lengths))} is empty; begin it with the'
      " tokenizer's bos_id."
    )
  longest = int(lengths.max())
  if longest > limit - sp.max_new:
    raise ValueError(
      f'a prompt has {longest} tokens, but max_len - max_new is {limit} -'
      f' {sp.max_new} = {limit - sp.max_new}.'
    )
  width = min(bucket(longest), limit - sp.max_new)
  order = np.argsort(mask, axis=1, kind='stable')[:, -width:]
  prompts, mask = (np.take_along_axis(x, order, 1) for x in (prompts, mask))
  missing = ((0, 0), (width - prompts.shape[1], 0))
  return np.pad(np.where(mask, prompts, 0), missing), np.pad(mask, missing)
