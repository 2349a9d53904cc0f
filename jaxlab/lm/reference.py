"""The decoder in NumPy and float64, from the tensors of a GGUF file alone.

Slow and obviously right: no scan, no cache, one head at a time, queries and
keys of Llama turned in pairs as llama.cpp does. It shares no code with the
decoder and its loader, which are compared with it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


def logits(
  metadata: Mapping[str, Any],
  tensor: Callable[[str], np.ndarray | None],
  tokens: Sequence[int],
) -> np.ndarray:
  """Returns the logits `[T, V]` of a sequence in float64.

  Args:
    metadata: keys of the file.
    tensor: from a name in the file to its numbers `[out, in]`, or None.
    tokens: T token ids.
  """
  model = _Model(metadata, tensor)
  table = np.asarray(tensor('token_embd.weight'))
  x = table[np.asarray(tokens)].astype(np.float64)
  if model.gemma:
    x = x * np.float64(np.float32(x.shape[1] ** 0.5))
  for layer in range(int(model.key('block_count'))):
    x = model.block(layer, x)
  x = model.norm(x, 'output_norm')
  head = tensor('output.weight')
  head = model.weight('token_embd.weight') if head is None else head
  return x @ np.asarray(head, np.float64).T


class _Model:
  """Names and numbers of one file."""

  def __init__(self, metadata, tensor):
    self._metadata, self._tensor = metadata, tensor
    self._arch = metadata['general.architecture']
    self.gemma = self._arch == 'gemma3'

  def key(self, name: str, default: Any = None) -> Any:
    return self._metadata.get(f'{self._arch}.{name}', default)

  def weight(self, name: str) -> np.ndarray:
    return np.asarray(self._tensor(name), np.float64)

  def norm(self, x: np.ndarray, name: str) -> np.ndarray:
    eps = self.key('attention.layer_norm_rms_epsilon')
    mean = np.mean(x**2, axis=-1, keepdims=True)
    return x / np.sqrt(mean + eps) * self.weight(f'{name}.weight')

  def block(self, layer: int, x: np.ndarray) -> np.ndarray:
    at = f'blk.{layer}.'
    y = self.attention(layer, self.norm(x, f'{at}attn_norm'))
    if self.gemma:
      y = self.norm(y, f'{at}post_attention_norm')
    x = x + y
    y = self.norm(x, f'{at}ffn_norm')
    gate = y @ self.weight(f'{at}ffn_gate.weight').T
    up = y @ self.weight(f'{at}ffn_up.weight').T
    y = self.activation(gate) * up @ self.weight(f'{at}ffn_down.weight').T
    if self.gemma:
      y = self.norm(y, f'{at}post_ffw_norm')
    return x + y

  def activation(self, x: np.ndarray) -> np.ndarray:
    if self.gemma:
      inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
      return x * (1 + np.tanh(inner)) / 2
    return x / (1 + np.exp(-x))

  def attention(self, layer: int, x: np.ndarray) -> np.ndarray:
    at = f'blk.{layer}.'
    queries = int(self.key('attention.head_count'))
    keys = int(self.key('attention.head_count_kv', queries))
    width = int(self.key('attention.key_length', x.shape[1] // queries))
    local = self.gemma and (layer + 1) % 6 != 0
    mixed = []
    q, k, v = (self.projected(f'{at}attn_{name}', x) for name in 'qkv')
    for head in range(queries):
      own = slice(head * width, (head + 1) * width)
      shared = head // (queries // keys)
      other = slice(shared * width, (shared + 1) * width)
      turned = [
        self.turned(self.head_norm(part, f'{at}attn_{name}_norm'), local)
        for name, part in (('q', q[:, own]), ('k', k[:, other]))
      ]
      scores = turned[0] @ turned[1].T / np.sqrt(width)
      weights = self.softmax(scores, local)
      mixed.append(weights @ v[:, other])
    output = self.weight(f'{at}attn_output.weight')
    return np.concatenate(mixed, axis=1) @ output.T

  def projected(self, name: str, x: np.ndarray) -> np.ndarray:
    y = x @ self.weight(f'{name}.weight').T
    return (
      y
      if self._tensor(f'{name}.bias') is None
      else (y + self.weight(f'{name}.bias'))
    )

  def head_norm(self, x: np.ndarray, name: str) -> np.ndarray:
    absent = self._tensor(f'{name}.weight') is None
    return x if absent else self.norm(x, name)

  def turned(self, x: np.ndarray, local: bool) -> np.ndarray:
    """Turns pairs: neighbours in files of Llama, halves in the others."""
    width = x.shape[1]
    base = 10_000.0 if local else self.key('rope.freq_base', 10_000.0)
    speeds = base ** (-np.arange(0, width, 2) / width)
    if not local:
      factors = self._tensor('rope_freqs.weight')
      speeds = speeds if factors is None else speeds / factors.ravel()
      if self.key('rope.scaling.type', 'linear') == 'linear':
        speeds = speeds / self.key('rope.scaling.factor', 1.0)
    angle = np.arange(len(x))[:, None] * speeds
    pairs = self._arch == 'llama'
    first = slice(0, None, 2) if pairs else slice(0, width // 2)
    second = slice(1, None, 2) if pairs else slice(width // 2, None)
    y = np.empty_like(x)
    y[:, first] = x[:, first] * np.cos(angle) - x[:, second] * np.sin(angle)
    y[:, second] = x[:, second] * np.cos(angle) + x[:, first] * np.sin(angle)
    return y

  def softmax(self, scores: np.ndarray, local: bool) -> np.ndarray:
    places = np.arange(len(scores))
    back = places[:, None] - places[None, :]
    seen = back >= 0
    if local:
      seen &= back < self.key('attention.sliding_window')
    scores = np.where(seen, scores, -np.inf)
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)
