"""Grids against plain searches in NumPy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.errors import UserError
from jaxlab.quantization import grids, quantizers

RNG = np.random.default_rng(0)
W = RNG.standard_t(3, size=(12, 5))
H_DIAGONAL = RNG.uniform(0.05, 4, 12)
ROOT = RNG.normal(size=(12, 20))
FULL = ROOT @ ROOT.T / 20


@pytest.fixture
def rng():
  return np.random.default_rng(1)


def _back(w, spec):
  return np.asarray(quantizers.dequantize(quantizers.quantize(w, spec), spec))


def _searched(w, bits, h, forms, clips):
  """(loss, scale, zero) of the best candidate of one column."""
  top, found = 2**bits - 1, []
  for form, clip in itertools.product(forms, clips):
    if form == 'asymmetric':
      low, high = min(w.min(), 0), max(w.max(), 0)
      scale = clip * (high - low) / top
      zero = np.rint(-clip * low / scale)
    else:
      scale = 2 * clip * np.abs(w).max() / top
      zero = 2 ** (bits - 1) - (0.5 if form == 'half' else 0)
    levels = scale * (np.arange(top + 1) - zero)
    error = np.abs(w[:, None] - levels).min(axis=1)
    found.append((h @ error**2, scale, zero))
  return min(found)


@pytest.mark.parametrize(
  ('bits', 'symmetric', 'half'), [(2, None, True), (3, False, False)]
)
def test_the_best_clip_is_found(bits, symmetric, half):
  forms = [
    f
    for f, on in [
      ('symmetric', symmetric is not False),
      ('asymmetric', symmetric is not True),
      ('half', half),
    ]
    if on
  ]
  with jax.enable_x64(True):
    spec = grids.fit_grids(
      W,
      bits,
      rule='hessian',
      h=H_DIAGONAL,
      symmetric=symmetric,
      half_integer=half,
      scale_dtype=jnp.float64,
    )
    losses = H_DIAGONAL @ (_back(W, spec) - W) ** 2
    clips = np.linspace(0.15, 1, 35)
    for n, column in enumerate(W.T):
      loss, scale, zero = _searched(column, bits, H_DIAGONAL, forms, clips)
      np.testing.assert_allclose(losses[n], loss, rtol=1e-9)
      np.testing.assert_allclose(spec.scale[n], scale, rtol=1e-9)
      assert spec.zero[n] == zero
    one = grids.fit_grid(
      W[:, 0],
      bits,
      rule='hessian',
      h=H_DIAGONAL,
      symmetric=symmetric,
      half_integer=half,
      scale_dtype=jnp.float64,
    )
    assert one.scale == spec.scale[0] and one.zero == spec.zero[0]
    assert one.scale.dtype == jnp.float64


def test_minmax_covers_the_range_and_mse_is_no_worse():
  for symmetric in (True, False):
    wide = grids.fit_grids(W, 4, symmetric=symmetric)
    close = grids.fit_grids(W, 4, rule='mse', symmetric=symmetric)
    reach = (
      2 * np.abs(W).max(axis=0)
      if symmetric
      else np.ptp(np.vstack([W, 0 * W[:1]]), axis=0)
    )
    np.testing.assert_allclose(wide.scale, reach / 15, rtol=1e-6)
    errors = [((_back(W, s) - W) ** 2).sum(axis=0) for s in (wide, close)]
    assert (errors[1] <= errors[0] * (1 + 1e-5)).all()
    assert (errors[1] < 0.9 * errors[0]).any()


def test_refinement_lowers_the_full_form():
  def form(spec):
    error = _back(W, spec) - W
    return np.sum(error * (FULL @ error), axis=0)

  start, refined = (
    grids.fit_grids(W, 2, rule='hessian', H=FULL, refine=rounds)
    for rounds in (0, 2)
  )
  diagonal = grids.fit_grids(W, 2, rule='hessian', h=np.diag(FULL))
  np.testing.assert_array_equal(start.scale, diagonal.scale)
  assert (form(refined) <= form(start) * (1 + 1e-5)).all()
  assert form(refined).mean() < 0.9 * form(start).mean()
  assert ((refined.zero >= 0) & (refined.zero <= 3)).all()
  kept = grids.fit_grids(W, 2, rule='hessian', H=FULL, symmetric=True)
  assert (kept.zero == 2).all()


def test_dead_weights_and_dead_inputs():
  w = np.zeros(W.shape, np.float32)
  w[:, 1] = [1, -1, 3, -3, 1, -1] * 2
  w[:, 2] = 1e-6
  for options in ({}, {'rule': 'hessian', 'h': np.zeros(12)}):
    spec = grids.fit_grids(w, 2, half_integer=True, **options)
    assert spec.scale[0] == 1 and (spec.scale > 0).all()
    np.testing.assert_array_equal(
      quantizers.quantize(w, spec)[:, 0], np.broadcast_to(spec.zero[0], 12)
    )
    assert not _back(w, spec)[:, 0].any()
    np.testing.assert_allclose(_back(w, spec)[:, 1], w[:, 1], rtol=1e-6)
    assert spec.zero[1] == 1.5


def test_scales_are_rounded_unless_they_would_vanish():
  w = np.float32([[1e-9, 0.3], [-2e-9, -0.4]])
  spec = grids.fit_grids(w, 4, scale_dtype=jnp.float16)
  np.testing.assert_allclose(_back(w, spec), w, rtol=0.15, atol=0)
  assert spec.scale.dtype == jnp.float32
  assert float(jnp.float16(spec.scale[1])) == spec.scale[1]
  assert jnp.float16(spec.scale[0]) == 0 < spec.scale[0]


def test_unknown_rules_and_missing_curvature_are_named():
  with pytest.raises(UserError, match="rule = 'best' is unknown"):
    grids.fit_grids(W, 2, rule='best')
  with pytest.raises(UserError, match='needs h'):
    grids.fit_grids(W, 2, rule='hessian')
  with pytest.raises(UserError, match='bits'):
    grids.fit_activation(W, 9)


def _fitted(x, bits, **options):
  scale, offset = grids.fit_activation(x, bits, **options)
  codes = np.clip(np.rint((x - offset) / scale), 0, 2**bits - 1)
  return scale, offset, scale * codes + offset


@pytest.mark.parametrize('value', [0.0, 2.5, -0.03, 1e-6])
@pytest.mark.parametrize('offset', [False, True])
def test_constant_activations_are_met(value, offset):
  x = np.full(400, value, np.float32)
  scale, _, back = _fitted(x, 2, offset=offset)
  assert scale > 0
  np.testing.assert_allclose(back, x, rtol=1e-6)


def test_activations_on_a_grid_are_met(rng):
  codes = rng.integers(0, 4, 400)
  _, offset, back = _fitted(np.float32(0.7 * codes), 2)
  assert offset == 0
  np.testing.assert_allclose(back, 0.7 * codes, atol=1e-6)
  x = np.float32(0.7 * codes + 5.2)
  _, _, back = _fitted(x, 2, offset=True)
  np.testing.assert_allclose(back, x, atol=1e-5)


@pytest.mark.parametrize('offset', [False, True])
def test_no_other_grid_fits_activations_much_better(offset, rng):
  x = np.float32(np.where(rng.random(400) < 0.3, 0, rng.gamma(0.8, 1, 400)))
  x[::3] *= -0.4
  scale, low, back = _fitted(x, 2, offset=offset)
  reached = np.mean((back - x) ** 2)
  scales = np.linspace(0.05, 2, 150)[:, None, None]
  lows = np.linspace(-2, 0, 81)[:, None]
  if not offset:
    assert low / scale == np.rint(low / scale)
    lows = -np.arange(4)[:, None] * scales
  codes = np.clip(np.rint((x - lows) / scales), 0, 3)
  errors = np.mean((scales * codes + lows - x) ** 2, axis=-1)
  assert errors.min() * 0.8 < reached <= errors.min() * 1.03


def test_signs_and_weights_of_activations(rng):
  x = np.float32(rng.normal(size=400))
  _, low, _ = _fitted(x, 2, signed=False)
  assert low == 0
  _, _, back = _fitted(x, 2, signed=True, offset=True)
  # Lloyd and Max: the best 4 uniform levels of a Gaussian err by 0.1188.
  np.testing.assert_allclose(np.mean((back - x) ** 2), 0.1188, rtol=0.15)
  x[0] = 40
  cost = np.ones(400, np.float32)
  cost[0] = 0
  light, heavy = (_fitted(x, 2, weights=c)[2] for c in (cost, None))
  errors = [np.mean((b - x)[1:] ** 2) for b in (light, heavy)]
  assert errors[0] < 0.5 * errors[1]


def test_many_activations_give_the_grid_of_all(rng):
  x = rng.gamma(0.5, 1, 30_000)
  x[: len(x) // 2] = 0
  many = _fitted(x, 2)[2]
  scales = np.linspace(0.1, 2, 400)
  best = min(
    np.mean((s * np.clip(np.rint(x / s), 0, 3) - x) ** 2) for s in scales
  )
  assert np.mean((many - x) ** 2) <= 1.01 * best


def test_condensing_keeps_sums(rng):
  with jax.enable_x64(True):
    x, mass = rng.normal(size=500), rng.random(500)
    values, kept = grids.condense(jnp.asarray(x), jnp.asarray(mass), 64)
    np.testing.assert_allclose(kept.sum(), mass.sum())
    np.testing.assert_allclose(kept @ values, mass @ x)
    assert (np.diff(values) > 0).all()


def test_the_whole_range_is_one_step():
  x = np.float32([-1, 0.2, 3, 100])
  scale, low = grids.fit_activation(x, 8, steps=1)
  np.testing.assert_allclose(scale, 101 / 255, rtol=1e-6)
  np.testing.assert_allclose(low, -3 * scale, rtol=1e-6)
  many = np.append(x, np.zeros(3000, np.float32))
  np.testing.assert_array_equal(
    grids.fit_activation(many, 8, steps=1), (scale, low)
  )


def test_fits_map_over_leading_axes():
  stack = np.float32(np.stack([W, 3 * W[::-1]]))
  grown = jax.vmap(lambda w: grids.fit_grids(w, 2, rule='mse'))(stack)
  ranges = jax.vmap(lambda x: jnp.stack(grids.fit_activation(x, 2)))(stack)
  for i, w in enumerate(stack):
    alone = grids.fit_grids(w, 2, rule='mse')
    np.testing.assert_allclose(grown.scale[i], alone.scale, rtol=1e-6)
    np.testing.assert_array_equal(grown.zero[i], alone.zero)
    np.testing.assert_allclose(ranges[i], grids.fit_activation(w, 2), rtol=1e-6)
  assert grown.bits == 2
