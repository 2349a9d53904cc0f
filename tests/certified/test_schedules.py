"""Schedules against closed forms."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.certified import schedules


class Variants(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True)
  def test_progress(self):
    steps = jnp.arange(12)
    found = self.variant(schedules.progress)(steps, 2, 5)
    np.testing.assert_allclose(found, np.clip((steps - 2) / 5, 0, 1), atol=1e-6)

  @chex.variants(with_jit=True, without_jit=True)
  def test_a_ramp_without_length_is_a_jump(self):
    found = self.variant(schedules.progress)(jnp.arange(5), 3, 0)
    np.testing.assert_array_equal(found, [0, 0, 0, 1, 1])

  @chex.variants(with_jit=True, without_jit=True)
  def test_step_decay(self):
    steps = jnp.array([0, 49, 50, 59, 60, 69])
    found = self.variant(
      lambda step: schedules.step_decay(5e-4, step, [50, 60], 0.2)
    )(steps)
    want = np.array([1, 1, 0.2, 0.2, 0.04, 0.04]) * 5e-4
    np.testing.assert_allclose(found, want, rtol=1e-6)


@pytest.mark.parametrize('power', [2.0, 4.0])
@pytest.mark.parametrize('bend', [0.25, 0.6, 1.0])
def test_smooth_ramp_is_a_power_and_then_its_tangent(power, bend):
  with jax.enable_x64(True):
    share = jnp.linspace(0, 1, 101)
    value = np.asarray(schedules.smooth(share, bend=bend, power=power))
    slope = jax.vmap(
      jax.grad(lambda s: schedules.smooth(s, bend=bend, power=power))
    )(share)
  assert value[0] == 0
  np.testing.assert_allclose(value[-1], 1, rtol=1e-12)
  assert np.all(np.diff(value) > 0)
  early = np.asarray(share) < bend - 1e-9
  ratio = value[early][1:] / np.asarray(share)[early][1:] ** power
  np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)
  late = np.asarray(slope)[~early][1:]
  np.testing.assert_allclose(late, late[:1].repeat(len(late)), rtol=1e-9)


def test_quadratic_then_linear_by_hand():
  # a t^2 to 1/4, then slope a / 2: a / 16 + 3 a / 8 = 1.
  a = 16 / 7
  found = schedules.smooth(jnp.array([0.125, 0.25, 0.5]))
  np.testing.assert_allclose(found, [a / 64, a / 16, a / 16 + a / 8], rtol=1e-6)


def test_between_takes_traced_ends_for_each_lane():
  start, end = jnp.array([1.0, 0.3]), jnp.array([0.5, 0.3])
  lanes = jax.vmap(lambda a, b: schedules.between(a, b, 0.25))
  np.testing.assert_allclose(lanes(start, end), [0.875, 0.3], rtol=1e-6)
