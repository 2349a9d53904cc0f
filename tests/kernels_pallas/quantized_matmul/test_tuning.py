"""The search for tiles."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kernels_pallas.quantized_matmul import (
  ActQuant,
  quantized_matmul,
  tune,
  tuning,
)

BLOCKS = [(16, 16), (16, 32), (32, 16)]


def test_the_fastest_tile_is_found(make_weights, monkeypatch):
  made = make_weights(2, 32, 20)
  act = ActQuant(0.5, 1, 2)
  seconds = iter([3.0, 1.0, 2.0])
  monkeypatch.setattr(tuning, '_median_seconds', lambda *_: next(seconds))
  (found,) = json.loads(
    json.dumps(
      tune(
        made.packed,
        [3],
        act_quant=act,
        implementation='interpret',
        blocks=BLOCKS,
      )
    )
  )
  assert found['block'] == [16, 32]
  assert [row[2] for row in found['seconds']] == [1, 2, 3]
  sizes = [found[name] for name in ('m', 'k', 'n', 'group_size', 'bits')]
  assert sizes == [3, 32, 20, 32, 2]
  x = jnp.ones((3, 32))
  y = quantized_matmul(
    x,
    made.packed,
    act_quant=act,
    implementation='interpret',
    block=found['block'],
  )
  np.testing.assert_allclose(y, x @ made.values, rtol=1e-5, atol=1e-5)


def test_tiles_that_do_not_compile_are_left_out(make_weights, monkeypatch):
  w = make_weights(2, 32, 20).packed

  def refuse_wide(x, w, *, block, **options):
    if block[1] > 16:
      raise jax.errors.JaxRuntimeError('out of shared memory')
    return x

  monkeypatch.setattr(tuning, 'quantized_matmul', refuse_wide)
  (found,) = tune(w, [2], blocks=BLOCKS, repeats=1)
  assert sorted(row[:2] for row in found['seconds']) == [[16, 16], [32, 16]]
  with pytest.raises(ValueError, match='none of them compiles'):
    tune(w, [2], blocks=[(16, 32)])


def test_implementations_without_tiles(make_weights):
  w = make_weights(2, 32, 20).packed
  with pytest.raises(ValueError, match=r"'xla' has no tiles; take 'pallas'"):
    tune(w, [2], implementation='xla')
