"""Golden cases of the language-model stack; a kind has one check."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.lm import (
  chat,
  gguf_io,
  loading,
  model,
  packages,
  rewards,
  rlvr,
  sampling,
)
from tests.golden import Golden

GOLDEN = Golden('lm_stack')
ABSENT = {'smollm2-135m': 'SmolLM2', 'gemma3-270m': 'Gemma 3 270M'}


def _close(found, expected, tolerance):
  found = np.asarray(found, np.float64)
  expected = np.asarray(expected, np.float64)
  assert found.shape == expected.shape
  difference = np.abs(found - expected)
  assert np.all(difference <= tolerance * np.maximum(1, np.abs(expected)))


def case_group_advantages(inputs):
  rewards_of = jnp.asarray(inputs.pop('rewards'))
  return {'advantages': rlvr.group_advantages(rewards_of, **inputs)}


def case_policy_loss(inputs):
  names = ('logp', 'logp_old', 'logp_ref', 'advantages', 'mask')
  given = [inputs.pop(name, None) for name in names]
  arrays = [None if rows is None else jnp.asarray(rows) for rows in given]
  loss, metrics = rlvr.policy_loss(*arrays, **inputs)
  return {'loss': loss, 'clip_fraction': metrics['clip_fraction']}


def case_filter_logits(inputs):
  logits = jnp.asarray(inputs.pop('logits'), jnp.float32)
  found = sampling.filter_logits(logits, sampling.SamplingParams(**inputs))
  return {
    'kept_ids': np.flatnonzero(np.isfinite(found)),
    'probs': jax.nn.softmax(found),
  }


def case_chat_render(inputs):
  return {'text': chat.render(**inputs)}


def case_dequantize(inputs):
  raw, shape = bytes.fromhex(inputs['raw_hex']), (inputs['n'],)
  found = gguf_io.dequantize(raw, inputs['qtype'], shape)
  assert found.dtype == np.float32
  return {'values': found}


def case_decoder_forward(inputs):
  tensors = {
    name: np.asarray(rows, np.float32)
    for name, rows in inputs['tensors'].items()
  }
  cfg, params = loading.from_tensors(inputs['metadata'], tensors)
  leaves = jax.tree.leaves(params)
  assert {leaf.dtype for leaf in leaves} == {np.dtype(np.float32)}
  assert sum(leaf.size for leaf in leaves) == cfg.num_params
  apply = jax.jit(model.apply_fn(model.Decoder(cfg)))
  logits = apply(params, jnp.asarray([inputs['tokens']])).logits
  assert logits.dtype == np.float32
  return {'logits': logits[0]}


@functools.cache
def _pretrained(name):
  cfg, params, tokenizer = loading.from_pretrained_package(name)
  return jax.jit(model.apply_fn(model.Decoder(cfg))), params, tokenizer


def case_encode_forward(inputs):
  apply, params, tokenizer = _pretrained(inputs['model'])
  ids = tokenizer.encode(inputs['text'], add_special=False)
  logits = np.asarray(apply(params, jnp.asarray([ids])).logits[0])
  assert logits.dtype == np.float32
  order = np.argsort(-logits[-1], kind='stable')[:5]
  return {
    'ids': ids,
    'argmax': logits.argmax(axis=1),
    'last_top5_ids': order,
    'last_top5_logits': logits[-1, order],
    'logit_mean': logits.mean(dtype=np.float64),
  }


def _case_reward(name, inputs):
  return {'reward': getattr(rewards, name)(**inputs)}


KINDS = {
  'group_advantages': case_group_advantages,
  'policy_loss': case_policy_loss,
  'filter_logits': case_filter_logits,
  'chat_render': case_chat_render,
  'dequantize': case_dequantize,
  'decoder_forward': case_decoder_forward,
  'encode_forward': case_encode_forward,
} | {
  name: functools.partial(_case_reward, name)
  for name in (
    *('exact_match', 'numeric', 'gsm8k', 'boxed_math', 'math_equiv'),
    *('multiple_choice', 'addition', 'countdown'),
  )
}


def _cases():
  """All cases; those that need real weights are marked."""
  for case in GOLDEN.parameters():
    needs = case.values[0] and case.values[0].get('requires') == 'models'
    marks = [*case.marks, *([pytest.mark.models] if needs else [])]
    yield pytest.param(*case.values, id=case.id, marks=marks)


@pytest.mark.parametrize('case', list(_cases()))
def test_case(case):
  check = KINDS[case['kind']]
  inputs = dict(case['inputs'])
  name = inputs.get('model')
  if case.get('requires') == 'models' and packages.find(name) is None:
    pytest.skip(f'{ABSENT[name]} is not installed: jaxlab data prepare {name}')
  if 'raises' in case:
    with pytest.raises(Exception) as found:
      check(inputs)
    names = {kind.__name__ for kind in type(found.value).__mro__}
    assert case['raises'] in names - {'Exception', 'BaseException', 'object'}
    assert all(words in str(found.value) for words in case.get('match', ()))
    return
  found, tolerance = check(inputs), case['tolerance']
  assert case['expected'].keys() <= found.keys()
  for key, expected in case['expected'].items():
    if isinstance(expected, str):
      assert found[key] == expected
    elif key == 'values':
      np.testing.assert_array_equal(found[key], np.float32(expected))
    else:
      _close(found[key], expected, 0 if 'ids' in key else tolerance)
