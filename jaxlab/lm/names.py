"""How files name the parameters of a decoder.

One table serves both directions and both kinds of file. Files store a matrix
as `[out, in]`, the decoder as `[in, out]`; a parameter of the blocks is stacked
over them.
"""

from typing import NamedTuple

from jaxlab.lm.config import ModelConfig


class Named(NamedTuple):
  """A parameter of the decoder.

  Attributes:
    path: its place in the tree, such as `('layers', 'q', 'kernel')`.
    gguf: its name in a GGUF file; `{}` stands for the block.
    hub: its name in a checkpoint of the Hugging Face hub.
    shape: in the decoder, without the axis of the blocks.
    transposed: whether files have the transposed matrix.
  """

  path: tuple[str, ...]
  gguf: str
  hub: str
  shape: tuple[int, ...]
  transposed: bool

  @property
  def is_stacked(self) -> bool:
    """Whether there is one for each block."""
    return self.path[0] == 'layers'

  @property
  def file_shape(self) -> tuple[int, ...]:
    """Shape in a file."""
    return self.shape[::-1] if self.transposed else self.shape

  def tree_shape(self, cfg: ModelConfig) -> tuple[int, ...]:
    """Shape in the tree of parameters, with the axis of the blocks."""
    return (*((cfg.n_layers,) if self.is_stacked else ()), *self.shape)

  @property
  def is_norm(self) -> bool:
    """Whether it is the scale of a norm."""
    return self.path[-1] == 'scale'


def named(cfg: ModelConfig) -> list[Named]:
  """Returns all parameters of a decoder."""
  d, ff, h = cfg.d_model, cfg.d_ff, cfg.head_dim
  queries, keys = cfg.n_heads * h, cfg.n_kv_heads * h
  matrices = [
    ('q', 'attn_q', 'self_attn.q_proj', (d, queries)),
    ('k', 'attn_k', 'self_attn.k_proj', (d, keys)),
    ('v', 'attn_v', 'self_attn.v_proj', (d, keys)),
    ('o', 'attn_output', 'self_attn.o_proj', (queries, d)),
    ('gate', 'ffn_gate', 'mlp.gate_proj', (d, ff)),
    ('up', 'ffn_up', 'mlp.up_proj', (d, ff)),
    ('down', 'ffn_down', 'mlp.down_proj', (ff, d)),
  ]
  found = [
    Named(
      ('embedding',),
      'token_embd.weight',
      'model.embed_tokens.weight',
      (cfg.vocab_size, d),
      False,
    ),
    _norm(('final_norm',), 'output_norm', 'model.norm', d),
  ]
  if not cfg.tie_embeddings:
    shape = (d, cfg.vocab_size)
    found.append(
      Named(('head',), 'output.weight', 'lm_head.weight', shape, True)
    )
  for name, gguf, hub, shape in matrices:
    names = f'blk.{{}}.{gguf}', f'model.layers.{{}}.{hub}'
    path = ('layers', name)
    weight, bias = (
      [f'{each}.{kind}' for each in names] for kind in ('weight', 'bias')
    )
    found.append(Named((*path, 'kernel'), weight[0], weight[1], shape, True))
    if cfg.attn_bias and name in 'qkv':
      found.append(Named((*path, 'bias'), bias[0], bias[1], shape[1:], False))
  for name, (gguf, hub, width) in _norms(cfg).items():
    names = f'blk.{{}}.{gguf}', f'model.layers.{{}}.{hub}'
    found.append(_norm(('layers', name), names[0], names[1], width))
  return found


def _norms(cfg: ModelConfig) -> dict[str, tuple[str, str, int]]:
  d, h = cfg.d_model, cfg.head_dim
  after = 'post_attention_layernorm'
  norms = {
    'attn_norm': ('attn_norm', 'input_layernorm', d),
    'mlp_norm': ('ffn_norm', after, d),
  }
  if cfg.post_norms:
    norms['mlp_norm'] = ('ffn_norm', 'pre_feedforward_layernorm', d)
    norms['post_attn_norm'] = ('post_attention_norm', after, d)
    name = 'post_feedforward_layernorm'
    norms['post_mlp_norm'] = ('post_ffw_norm', name, d)
  if cfg.qk_norm:
    norms['q_norm'] = ('attn_q_norm', 'self_attn.q_norm', h)
    norms['k_norm'] = ('attn_k_norm', 'self_attn.k_norm', h)
  return norms


def _norm(path: tuple[str, ...], gguf: str, hub: str, width: int) -> Named:
  return Named(
    (*path, 'scale'), f'{gguf}.weight', f'{hub}.weight', (width,), False
  )
