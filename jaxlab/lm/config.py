"""What distinguishes one decoder from another."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxlab import errors

ARCHITECTURES = ('llama', 'qwen2', 'qwen3', 'gemma3')
ACTIVATIONS = ('silu', 'gelu_tanh')
_SHOWN = 60  # characters of a wrong value in an error


def whole(name: str, value: Any, least: int = 1) -> int:
  """Returns a size or a count.

  Args:
    name: what the error calls it.
    value: anything that a file may say.
    least: the smallest that is allowed.

  Raises:
    UserError: if it is not a whole number of at least `least`.
  """
  # Python takes truth values for numbers.
  known = isinstance(value, int | np.integer) and not isinstance(value, bool)
  if not known:
    raise errors.UserError(
      f'{name} must be a whole number, got {shown(value)}.'
    )
  if value < least:
    wanted = 'positive' if least == 1 else f'at least {least}'
    raise errors.UserError(f'{name} must be {wanted}, got {shown(value)}.')
  return int(value)


def number(name: str, value: Any, *, zero: bool = False) -> float:
  """Returns a positive number.

  Args:
    name: what the error calls it.
    value: anything that a file may say.
    zero: whether it may be 0.

  Raises:
    UserError: if it is not a finite positive number.
  """
  kinds = int | float | np.integer | np.floating
  try:
    known = isinstance(value, kinds) and not isinstance(value, bool)
    found = float(value) if known else math.nan
  except OverflowError:
    found = math.inf
  if not math.isfinite(found) or found < 0 or (found == 0 and not zero):
    least = 'at least 0' if zero else 'greater than 0'
    raise errors.UserError(
      f'{name} must be a finite number {least}, got {shown(value)}.'
    )
  return found


def shown(value: Any) -> str:
  """Returns a value on one line, shortened: a file may say anything."""
  return ' '.join(repr(value).split())[:_SHOWN]


class Keys:
  """Keys of a file, with an error that names one that is absent or wrong.

  A key without a default must be there.
  """

  def __init__(self, found: Mapping[str, Any], prefix: str | None = None):
    """Looks up `prefix.key`, or `key` where there is no prefix."""
    self._found = found
    self._prefix = '' if prefix is None else f'{prefix}.'

  def get(self, key: str, default: Any = None) -> Any:
    """Returns a value of any kind; lists of one number a block are one."""
    name = self._prefix + key
    if name not in self._found and default is None:
      raise errors.UserError(f'the model does not say {name}.')
    value = self._found.get(name, default)
    if isinstance(value, np.ndarray):
      value = value.ravel().tolist()
    if isinstance(value, list | tuple):
      # Some converters write one number a block.
      if len({repr(each) for each in value}) != 1:
        raise errors.UserError(f'{name} differs from block to block.')
      return value[0]
    return value

  def whole(self, key: str, default: int | None = None, least: int = 1) -> int:
    """Returns a whole number of at least `least`."""
    return whole(self._prefix + key, self.get(key, default), least)

  def number(
    self, key: str, default: float | None = None, *, zero: bool = False
  ) -> float:
    """Returns a positive number, or 0 where `zero` allows it."""
    return number(self._prefix + key, self.get(key, default), zero=zero)

  def flag(self, key: str, default: bool) -> bool:
    """Returns a truth value; texts such as "false" are none."""
    value = self.get(key, default)
    if not isinstance(value, bool | np.bool_):
      raise errors.UserError(
        f'{self._prefix}{key} must be a boolean, true or false, got'
        f' {shown(value)}.'
      )
    return bool(value)


@dataclasses.dataclass(frozen=True)
class ModelConfig:
  """A decoder-only language model: sizes, and what its blocks are made of.

  Attributes:
    arch: one of `ARCHITECTURES`; says only how files name its parts.
    n_layers: number L of blocks.
    d_model: width D.
    n_heads: number N of query heads.
    n_kv_heads: number K of key and value heads; divides `n_heads`.
    head_dim: width H of a head, even.
    d_ff: width of the gated MLP.
    vocab_size: number V of tokens.
    rope_theta: base of the rotary angles.
    rope_factors: `H/2` divisors of the rotary frequencies (long-context
      scaling of Llama 3.1 and linear scaling); none divides nothing. Not for
      local layers.
    rope_local_theta: base of the rotary angles of local layers.
    sliding_window: number of positions that local layers see, the own one
      included; 0 has no local layers.
    global_every: every so manyth layer is global, the others local; 0 has
      no local layers.
    qk_norm: whether queries and keys of each head are normalised.
    attn_bias: whether queries, keys and values have a bias.
    act: activation of the MLP's gate, one of `ACTIVATIONS`.
    post_norms: whether each branch is normalised before it is added.
    embed_scale: whether embeddings are multiplied by the root of D.
    tie_embeddings: whether the output head is the embedding.
    norm_eps: added to mean squares.
    query_scale: factor of the scores; None is the inverse root of H.
    max_len: length of context the model was made for.
  """

  arch: str
  n_layers: int
  d_model: int
  n_heads: int
  n_kv_heads: int
  head_dim: int
  d_ff: int
  vocab_size: int
  rope_theta: float = 10_000.0
  rope_factors: tuple[float, ...] = ()
  rope_local_theta: float = 10_000.0
  sliding_window: int = 0
  global_every: int = 0
  qk_norm: bool = False
  attn_bias: bool = False
  act: str = 'silu'
  post_norms: bool = False
  embed_scale: bool = False
  tie_embeddings: bool = True
  norm_eps: float = 1e-5
  query_scale: float | None = None
  max_len: int = 2048

  def __post_init__(self) -> None:
    """Checks that the sizes fit one another.

    Raises:
      UserError: if they do not.
    """
    sizes = (
      *('n_layers', 'd_model', 'n_heads', 'n_kv_heads', 'head_dim'),
      *('d_ff', 'vocab_size', 'max_len'),
    )
    for name in sizes:
      whole(name, getattr(self, name))
    for name in ('sliding_window', 'global_every'):
      whole(name, getattr(self, name), least=0)
    for name in ('rope_theta', 'rope_local_theta'):
      number(name, getattr(self, name))
    number('norm_eps', self.norm_eps, zero=True)
    if self.query_scale is not None:
      number('query_scale', self.query_scale)
    for factor in self.rope_factors:
      number('rope_factors', factor)
    for name, known in (('arch', ARCHITECTURES), ('act', ACTIVATIONS)):
      if getattr(self, name) not in known:
        raise errors.UserError(
          f'{name}={getattr(self, name)!r} is none of {", ".join(known)}.'
        )
    if self.n_heads % self.n_kv_heads:
      raise errors.UserError(
        f'{self.n_kv_heads} key heads do not divide {self.n_heads} query heads.'
      )
    if self.head_dim % 2:
      raise errors.UserError(
        f'head_dim must be even for rotary angles, got {self.head_dim}.'
      )
    if self.rope_factors and len(self.rope_factors) != self.head_dim // 2:
      raise errors.UserError(
        f'rope_factors has {len(self.rope_factors)} numbers, needs one for each'
        f' of the {self.head_dim // 2} frequencies.'
      )

  @property
  def has_local_layers(self) -> bool:
    """Whether some layers see only a window."""
    return self.sliding_window > 0 and self.global_every > 0

  @property
  def score_scale(self) -> float:
    """Factor of the product of a query and a key."""
    scale = self.query_scale
    return 1 / math.sqrt(self.head_dim) if scale is None else scale

  @property
  def is_global(self) -> tuple[bool, ...]:
    """Which of the layers see all positions before them."""
    if not self.has_local_layers:
      return (True,) * self.n_layers
    return tuple(
      (layer + 1) % self.global_every == 0 for layer in range(self.n_layers)
    )

  @property
  def num_params(self) -> int:
    """Number of parameters."""
    d, heads, shared = self.d_model, self.n_heads, self.n_kv_heads
    attention = self.head_dim * (2 * d * heads + 2 * d * shared)
    bias = self.head_dim * (heads + 2 * shared) * self.attn_bias
    norms = d * (4 if self.post_norms else 2) + 2 * self.head_dim * self.qk_norm
    layer = attention + bias + norms + 3 * d * self.d_ff
    embeddings = (1 if self.tie_embeddings else 2) * self.vocab_size * d
    return self.n_layers * layer + embeddings + d


def tiny(arch: str = 'llama', **changes: object) -> ModelConfig:
  """Returns a small model of an architecture, to train from scratch or test.

  Args:
    arch: one of `ARCHITECTURES`.
    **changes: fields that differ.
  """
  gemma = arch == 'gemma3'
  config = ModelConfig(
    arch=arch,
    n_layers=2,
    d_model=48,
    n_heads=4,
    n_kv_heads=2,
    head_dim=12,
    d_ff=96,
    vocab_size=64,
    sliding_window=8 if gemma else 0,
    global_every=2 if gemma else 0,
    qk_norm=arch in ('qwen3', 'gemma3'),
    attn_bias=arch == 'qwen2',
    act='gelu_tanh' if gemma else 'silu',
    post_norms=gemma,
    embed_scale=gemma,
    rope_theta=1e6 if gemma else 1e4,
    norm_eps=1e-6 if gemma else 1e-5,
  )
  return dataclasses.replace(config, **changes)  # type: ignore[arg-type]
