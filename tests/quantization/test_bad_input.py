"""Mistakes of a person: one line that names the thing and the cure."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab import errors, nets
from jaxlab.quantization import export, network, ptq, rounding
from jaxlab.quantization.baselines import METHODS
from jaxlab.quantization.methods import PTQMethod, with_hyper
from jaxlab.quantization.types import QuantSpec
from tests.quantization import small


def quantize(method='rtn_mse', **changed):
  net = small.dense()
  given = {
    'apply_blocks': net.blocks,
    'params': net.params,
    'calib': net.calib,
    'spec': small.W2A2,
  } | changed
  return ptq.quantize_model(**given, method=method)


def refused(match, *args, **changed):
  with pytest.raises(errors.UserError, match=match) as caught:
    quantize(*args, **changed)
  assert '\n' not in str(caught.value)


@pytest.mark.parametrize('bits', [0, 9, 2.0, True, '2'])
@pytest.mark.parametrize('field', ['w_bits', 'a_bits', 'first_last_bits'])
def test_bits(field, bits):
  with pytest.raises(errors.UserError, match=f'{field} = .*1 to 8'):
    QuantSpec(**{field: bits})


def test_bits_of_overrides():
  with pytest.raises(errors.UserError, match="overrides\\['fc1'\\] = 16"):
    QuantSpec(overrides=(('fc1', (4, 16)),))


@pytest.mark.parametrize('count', [0, 1, 15])
def test_few_inputs(count):
  refused('calib has the shape .*at least 16', calib=jnp.zeros((count, 6)))


@pytest.mark.parametrize('value', [np.nan, np.inf])
def test_inputs_that_are_not_finite(value):
  calib = small.dense().calib.at[3, 2].set(value)
  refused('calib .*not finite', calib=calib)


@pytest.mark.parametrize('method', ['sharpq', ''])
def test_unknown_method(method):
  refused('unknown; choose one of rtn_minmax, .*sharp', method)


@pytest.mark.parametrize(
  ('field', 'value'),
  [
    ('transform', 'rotate'),
    ('loss', 'kl'),
    ('learn', 'all'),
    ('score', 'mse'),
    ('steps', 0),
    ('batch', 0),
    ('probes', -1),
    ('comp_rank', -1),
    ('refreshes', -1),
  ],
)
def test_recipe(field, value):
  with pytest.raises(errors.UserError, match=field):
    PTQMethod('own', **{field: value})


def test_unknown_rate():
  with pytest.raises(ValueError, match='gain'):
    _ = with_hyper(METHODS['qdrop'], gain=1.0).rates


def test_group_size():
  with pytest.raises(errors.UserError, match='group_size = 3'):
    rounding.gptq_round(
      jnp.ones(8), jnp.eye(8), jnp.ones(2), jnp.ones(2), 2, group_size=3
    )


def test_nothing_to_quantize():
  refused('no quantizable layer', apply_blocks=[lambda p, x: jnp.tanh(x)])


def test_compensation_of_too_high_a_rank():
  recipe = dataclasses.replace(METHODS['rtn_mse'], comp_rank=9)
  refused('comp_rank = 9 .*min\\(K, N\\)', recipe)


def test_blocks_that_are_not_the_model():
  net = small.dense()
  wrong = (net.blocks[0], net.blocks[2], net.blocks[1], net.blocks[3])
  refused(
    'do not compose to model_fn',
    apply_blocks=wrong,
    model_fn=lambda p, x: net.logits(x),
  )


def test_blocks_that_do_not_fit():
  blocks = small.dense().blocks
  refused('block 1 of apply_blocks', apply_blocks=(blocks[0], blocks[0]))


def test_batch_norms_that_are_not_folded():
  net = nets.resnet((1,), (4,))
  x = jnp.zeros((16, 4, 4, 1))
  variables = small.drawn.variables(net, 2, 4, 4, 1)
  options = {'apply_blocks': net.blocks(), 'calib': x}
  refused('fold', params=variables, **options)
  refused('fold', params=variables['params'], **options)


def test_single_class():
  net = nets.Chain((('one', small.Layer(3)), ('two', small.Layer(1))))
  params = small.drawn.variables(net, 2, 6)['params']
  refused(
    "Fisher information is 0.*loss='mse'",
    'sharp',
    apply_blocks=net.blocks(),
    params=params,
  )


def test_outputs_that_are_no_logits():
  module = nn.Dense(3)
  x = small.inputs(16, 4, 6)
  params = {'params': {'kernel': jnp.ones((6, 3)), 'bias': jnp.zeros(3)}}
  refused(
    'gives the shape', apply_blocks=[module.apply], params=params, calib=x
  )


def test_mode():
  net = small.dense()
  model = export.QuantModel((), (), network.Plan((), ()))
  with pytest.raises(errors.UserError, match='fake, integer'):
    export.apply(model, net.calib, 'float')


def test_a_layer_that_cannot_be_quantized():
  module = nn.Conv(2, (3, 3), padding='CIRCULAR')
  x = jnp.zeros((16, 4, 4, 1))
  shapes = jax.eval_shape(module.init, jax.random.key(0), x)
  params = jax.tree.map(lambda s: jnp.ones(s.shape), shapes)
  refused('CIRCULAR', apply_blocks=[module.apply], params=params, calib=x)


def test_an_unknown_rate_is_named():
  with pytest.raises(errors.UserError, match="hyper names 'speed'"):
    with_hyper(METHODS['sharp'], speed=1.0)


def test_layers_that_stay_in_float_are_noted():
  class Attention(nn.Module):
    @nn.compact
    def __call__(self, x):
      x = nn.DenseGeneral((2, 4), name='heads')(x)
      return nn.Dense(3, name='out')(x.reshape(len(x), -1))

  module, x = Attention(), jnp.ones((32, 8))
  params = module.init(jax.random.key(0), x)['params']

  def block(params, x):
    return module.apply({'params': params}, x)

  _, report = ptq.quantize_model([block], params, x, QuantSpec(4, 4), 'rtn_mse')
  assert any('0/heads stays in float' in note for note in report.notes)
