"""Reading and writing text: prefill, decode, and what a token must cost."""

import pathlib
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import cpu_time, lm_models, peers, timing
from benchmarks.lm_models import Model
from benchmarks.timing import Goal, Row, Side
from jaxlab.harness import startup
from jaxlab.lm.tokenizer import Tokenizer

_PROMPT = 64
_UNIT = 'ms'
_TORCH = 'transformers: not installed'
_LLAMA = 'xllamacpp: not installed'
_PREFILL_GOAL = cpu_time.at_most(1.25)
_FLAT_GOAL = timing.between(1.7, 2.4)
_SLOTS = 8


def rows(quick: bool) -> Iterator[Row]:
  """Yields the rows about SmolLM2."""
  reads = ((1, 64), (8, 64), (32, 64), (1, 512))[: 1 if quick else None]
  writes = (8,) if quick else (1, 8, 32)
  new, repeats = (16, 1) if quick else (64, 5)
  found = lm_models.smollm2()
  if found is None:
    yield from _absent(reads, writes, new)
    return
  model, tokenizer = found
  with lm_models.in_torch(model, startup.cores()) as torch:
    for batch, length in reads:
      yield prefill(model, torch, batch, length, repeats + 2)
    for batch in writes:
      yield decode(model, tokenizer, torch, batch, new, repeats)
  with peers.Peer('xllamacpp', 'lm_llama.py') as llama:
    for batch in (1,) if quick else (1, _SLOTS):
      yield beside_llama(model, tokenizer, llama, batch, new, repeats)
  if not quick:
    yield from per_token(model, tokenizer, ('float32', 'bfloat16'), repeats)


def _absent(reads, writes, new) -> Iterator[Row]:
  """The rows without numbers."""
  why = lm_models.cure(lm_models.SMOLLM2)
  for batch, length in reads:
    work = _prefill_work('SmolLM2', batch, length)
    yield timing.unmeasured(work, why, _UNIT, goal=_PREFILL_GOAL)
  for batch in writes:
    work = _decode_work('SmolLM2', batch, new)
    yield timing.unmeasured(work, why, _UNIT, goal=_decode_goal(batch))
  yield timing.unmeasured('SmolLM2 beside llama.cpp', why, _UNIT)
  work = 'SmolLM2: 64 new tokens to 32'
  yield timing.unmeasured(work, why, '', goal=_FLAT_GOAL)
  yield timing.unmeasured('SmolLM2: share of the bandwidth', why, '')


def prefill(
  model: Model, torch: peers.Peer, batch: int, length: int, repeats: int
) -> Row:
  """Reads prompts into a cache; the last position's logits."""
  work = _prefill_work(model.name, batch, length)
  if torch.version is None:
    return _missing(work, _TORCH, _PREFILL_GOAL)
  tokens = lm_models.random_tokens(model, batch, length)

  @jax.jit
  def read(params, tokens):
    cache = model.fn.init_cache(batch, length)
    out = model.fn(params, tokens, cache=cache, last_only=True)
    return out.logits[:, -1], out.cache

  def ours(seed: int) -> np.ndarray:
    del seed
    logits, _ = jax.block_until_ready(read(model.params, tokens))
    return np.asarray(logits)

  def theirs(seed: int) -> np.ndarray | None:
    if seed:
      torch.run(kind='prefill', tokens=tokens.tolist(), output='')
      return None
    with tempfile.TemporaryDirectory() as folder:
      output = pathlib.Path(folder, 'logits.npy')
      torch.run(kind='prefill', tokens=tokens.tolist(), output=str(output))
      return np.load(output)

  row = timing.compare(
    work,
    Side(ours, tokens.size),
    Side(theirs, tokens.size, torch.version),
    cpu_time.within(2e-3, 'last logits'),
    goal=_PREFILL_GOAL,
    repeats=repeats,
  )
  return with_rates(row)


def decode(
  model: Model,
  tokenizer: Tokenizer,
  torch: peers.Peer,
  batch: int,
  new: int,
  repeats: int,
) -> Row:
  """Greedy answers beside `generate` of transformers."""
  work, goal = _decode_work(model.name, batch, new), _decode_goal(batch)
  if torch.version is None:
    return _missing(work, _TORCH, goal)
  prompts = lm_models.prompts(tokenizer, batch, _PROMPT)

  def theirs(seed: int) -> np.ndarray:
    del seed
    return np.array(
      torch.run(kind='generate', tokens=prompts.tolist(), new=new)
    )

  row = timing.compare(
    work,
    Side(lambda _: lm_models.greedy(model, prompts, new), batch * new),
    Side(theirs, batch * new, torch.version),
    same_tokens(model, prompts, 1e-3),
    goal=goal,
    repeats=repeats,
  )
  return with_rates(row)


def beside_llama(
  model: Model,
  tokenizer: Tokenizer,
  llama: peers.Peer,
  batch: int,
  new: int,
  repeats: int,
) -> Row:
  """Greedy answers beside llama.cpp, which multiplies the codes themselves."""
  work = _decode_work(model.name, batch, new)
  if llama.version is None:
    return _missing(work, _LLAMA, None)
  path = str(lm_models.path(lm_models.SMOLLM2))
  llama.run(path=path, slots=batch, threads=startup.cores())
  prompts = lm_models.prompts(tokenizer, batch, _PROMPT)

  def theirs(seed: int) -> np.ndarray:
    del seed
    return np.array(llama.run(prompts=prompts.tolist(), new=new))

  row = timing.compare(
    work,
    Side(lambda _: lm_models.greedy(model, prompts, new), batch * new),
    Side(theirs, batch * new, f'{llama.version}, Q4_1'),
    same_tokens(model, prompts, 1.0),
    repeats=repeats,
  )
  return with_rates(row)


def per_token(
  model: Model, tokenizer: Tokenizer, dtypes: Sequence[str], repeats: int
) -> Iterator[Row]:
  """Growth of the time with the answer, and beside the memory's limit."""
  prompts = lm_models.prompts(tokenizer, 1, _PROMPT)
  rate = bandwidth()
  for dtype in dtypes:
    half, whole = _seconds(model.astype(dtype), prompts, (32, 64), repeats)
    yield timing.measured(
      f'{model.name}, {dtype}, batch 1: time of 64 new tokens to that of 32',
      *(whole / half, ''),
      goal=_FLAT_GOAL,
      note=f'prompt of {_PROMPT}; {whole:.2f} s and {half:.2f} s',
    )
    nbytes = model.astype(dtype).nbytes
    taken, least = (whole - half) / 32, nbytes / rate
    yield timing.measured(
      f'{model.name}, {dtype}, batch 1: share of the speed at which memory can'
      ' be read',
      *(least / taken, ''),
      note=(
        f'{1 / taken:.1f} of {1 / least:.1f} tokens/s: {nbytes / 1e6:.0f} MB a'
        f' token at {rate / 1e9:.1f} GB/s, the speed of sums over 512 MiB'
      ),
    )


def bandwidth() -> float:
  """Bytes per second that sums over 512 MiB read, on all cores."""
  numbers = jnp.ones((512, 2**18), jnp.float32)
  total = jax.jit(lambda x: x.sum(axis=1))
  total(numbers).block_until_ready()
  taken = timing.alternate([lambda _: total(numbers).block_until_ready()], 9)
  return numbers.nbytes / min(taken[0])


def _seconds(
  model: Model, prompts: np.ndarray, news: Sequence[int], repeats: int
) -> list[float]:
  """Median seconds of answers of several lengths, which take turns."""
  runs = [lambda _, n=n: lm_models.greedy(model, prompts, n) for n in news]
  for run in runs:
    run(0)
  return [statistics.median(t) for t in timing.alternate(runs, repeats)]


def same_tokens(
  model: Model, prompts: np.ndarray, tie: float
) -> Callable[[np.ndarray, np.ndarray], str]:
  """A check that rows are equal, or part where two tokens are a tie.

  Args:
    model: gives the logits.
    prompts: `[B, T]` tokens before the rows.
    tie: how far apart the logits of two tokens may be.
  """

  def agree(found: np.ndarray, expected: np.ndarray) -> str:
    if found.shape != expected.shape:
      raise timing.DisagreementError(f'{found.shape} and {expected.shape}')
    apart = np.flatnonzero((found != expected).any(axis=1))
    gaps = [0.0]
    for row in apart:
      place = int(np.argmax(found[row] != expected[row]))
      tokens = np.concatenate([prompts[row], found[row]])[None]
      logits = model.fn(model.params, tokens).logits[0]
      at = np.asarray(logits[prompts.shape[1] + place - 1])
      gaps.append(float(at[found[row, place]] - at[expected[row, place]]))
    text = (
      f'{len(found) - len(apart)} of {len(found)} texts are the same; where'
      f' others part, logits are up to {max(gaps):.2g} apart'
    )
    if max(gaps) > tie:
      raise timing.DisagreementError(text)
    return text

  return agree


def with_rates(row: Row) -> Row:
  """Adds tokens per second to a row in ms per token."""
  if row.ours is None or row.peer is None:
    return row
  rates = ' and '.join(f'{1e3 / ms:,.0f}' for ms in (row.ours, row.peer))
  return row._replace(note=f'{row.note}; {rates} tokens/s')


def _missing(work: str, why: str, goal: Goal | None) -> Row:
  return timing.unmeasured(work, why, _UNIT, goal=goal, note=peers.CURE)


def _prefill_work(name: str, batch: int, length: int) -> str:
  return f'A token read, {name}, float32, {batch} x {length}'


def _decode_work(name: str, batch: int, new: int) -> str:
  return (
    f'A new token, {name}, float32, batch {batch}, prompts of {_PROMPT}, {new}'
    ' new'
  )


def _decode_goal(batch: int) -> Goal | None:
  return timing.faster(1.5) if batch == 8 else None
