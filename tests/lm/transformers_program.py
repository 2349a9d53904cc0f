"""Models of transformers for `test_transformers`; runs among the peers.

    python transformers_program.py build FOLDER
    python transformers_program.py read MODEL_FOLDER JOB_FOLDER

`build` makes a small random model of every kind in a folder of its own, with
tokens and their logits beside it, and reads the models in `FOLDER/written`.
`read` answers `job.json`: the likeliest tokens along some texts and their lead
over the second ones, the greedy text of the first prompt, and logits of others
at some positions.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers

_LENGTH = 16
_SIZES = {
  'vocab_size': 64,
  'hidden_size': 48,
  'intermediate_size': 96,
  'num_hidden_layers': 2,
  'num_attention_heads': 4,
  'num_key_value_heads': 2,
  'head_dim': 12,
  'max_position_embeddings': 512,
  'tie_word_embeddings': True,
  'initializer_range': 0.2,
  'bos_token_id': 1,
  'eos_token_id': 2,
  'pad_token_id': 0,
}
_GEMMA = {
  'num_hidden_layers': 7,
  'sliding_window': 5,
  'query_pre_attn_scalar': 16,
}
_LLAMA3 = {
  'rope_type': 'llama3',
  'rope_theta': 10_000.0,
  'factor': 8.0,
  'low_freq_factor': 1.0,
  'high_freq_factor': 4.0,
  'original_max_position_embeddings': 64,
}
_LINEAR = {'rope_type': 'linear', 'factor': 8.0, 'rope_theta': 1e6}
KINDS = {
  'llama': ('llama', {'tie_word_embeddings': False}),
  'llama_one_key_head': (
    'llama',
    {'num_key_value_heads': 1, 'rope_parameters': _LLAMA3},
  ),
  'qwen2': ('qwen2', {'num_key_value_heads': 4}),
  'qwen2_untied': ('qwen2', {'tie_word_embeddings': False}),
  'qwen3': ('qwen3', {'num_key_value_heads': 1}),
  'qwen3_untied': (
    'qwen3',
    {'num_key_value_heads': 4, 'tie_word_embeddings': False},
  ),
  'gemma3': ('gemma3_text', _GEMMA),
  'gemma3_one_key_head': (
    'gemma3_text',
    {
      **_GEMMA,
      'num_key_value_heads': 1,
      'rope_parameters': {
        'full_attention': _LINEAR,
        'sliding_attention': {'rope_type': 'default', 'rope_theta': 1e4},
      },
    },
  ),
}


def build(folder: pathlib.Path) -> None:
  """Writes the small models, tokens and logits; logits of those written."""
  for number, (name, (kind, changes)) in enumerate(KINDS.items()):
    torch.manual_seed(number)
    sizes = {**_SIZES, **changes}
    if kind == 'qwen2':  # its heads are as wide as they must be
      sizes.pop('head_dim')
    config = transformers.AutoConfig.for_model(kind, **sizes)
    network = transformers.AutoModelForCausalLM.from_config(
      config, dtype=torch.float32, attn_implementation='eager'
    ).eval()
    with torch.no_grad():
      for parameter in network.parameters():
        if parameter.ndim == 1:  # norms and biases have not their first value
          parameter.add_(0.3 * torch.randn_like(parameter))
      tokens = torch.randint(0, sizes['vocab_size'], (2, _LENGTH))
      logits = network(tokens).logits
    network.save_pretrained(folder / name)
    np.save(folder / name / 'tokens.npy', tokens.numpy().astype(np.int32))
    np.save(folder / name / 'logits.npy', logits.numpy())
  for path in (folder / 'written').iterdir():
    tokens = torch.from_numpy(np.load(path / 'tokens.npy')).long()
    with torch.no_grad():
      logits = _loaded(path)(tokens).logits
    np.save(path / 'logits.npy', logits.numpy())


def _loaded(folder: pathlib.Path):
  network = transformers.AutoModelForCausalLM.from_pretrained(
    folder, dtype=torch.float32
  )
  return network.eval()


def read(folder: pathlib.Path, job: pathlib.Path) -> None:
  """Writes `texts.npz`, and logits to a file for each prompt."""
  todo = json.loads((job / 'job.json').read_text())
  network = _loaded(folder)
  texts, leads = [], []
  with torch.no_grad():
    for number, (ids, positions) in enumerate(todo['logits']):
      found = network(torch.tensor([ids])).logits[0]
      np.save(job / f'logits_{number}.npy', found[positions].numpy())
    for ids in todo['texts']:
      logits = network(torch.tensor([ids])).logits[0, -todo['max_new'] - 1 : -1]
      highest = torch.topk(logits, 2)
      texts.append(highest.indices[:, 0].numpy())
      leads.append((highest.values[:, 0] - highest.values[:, 1]).numpy())
    prompt = torch.tensor([todo['texts'][0][: -todo['max_new']]])
    generated = network.generate(
      prompt,
      attention_mask=torch.ones_like(prompt),
      max_new_tokens=todo['max_new'],
      do_sample=False,
      eos_token_id=None,
      pad_token_id=0,
    )[0, prompt.shape[1] :]
  np.savez(
    job / 'texts.npz',
    texts=np.array(texts),
    leads=np.array(leads),
    generated=generated.numpy(),
  )


if __name__ == '__main__':
  command = {'build': build, 'read': read}[sys.argv[1]]
  command(*map(pathlib.Path, sys.argv[2:]))
