"""Checks of the golden cases about items and estimates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.adaptive_testing import calibrate, estimate, models, simulate
from jaxlab.adaptive_testing.selectors import selector
from jaxlab.adaptive_testing.types import item_bank

PATTERNS = np.array([[int(x) for x in f'{i:05b}'] for i in range(32)])


def bank_of(case):
  return item_bank(case['a'], case['b'], case.get('c', 0.0))


def case_information(case):
  bank, theta = bank_of(case), jnp.asarray(case['theta'])
  found = {
    'info': models.item_information(bank, theta),
    'prob': models.prob(bank, theta),
  }
  for name, value in case['expect'].items():
    np.testing.assert_allclose(found[name], value, atol=case['tolerance'])


def case_max_information_theta(case):
  found = models.max_information_theta(bank_of(case))
  np.testing.assert_allclose(
    found, case['expect']['theta_star'], atol=case['tolerance']
  )


def case_extreme_theta(case):
  with jax.enable_x64(False):
    bank, theta = bank_of(case), jnp.asarray(case['theta'], jnp.float32)
    y = jnp.asarray(case['y'], jnp.float32)
    found = {
      'nll': models.nll(bank, theta, y),
      'grad': models.nll_grad(bank, theta, y),
      'info': models.item_information(bank, theta),
    }
  for name in case['expect']['finite']:
    assert found[name].dtype == jnp.float32
    assert np.isfinite(found[name]).all(), name
  assert (np.asarray(found['info']) >= 0).all()
  np.testing.assert_allclose(
    found['info'], case['expect']['info'], atol=case['tolerance']
  )


def case_ability(case):
  bank, expect = bank_of(case), case['expect']
  tolerance = case['tolerance']
  y, mask = np.array(case['y'], float), case.get('mask')
  bounds = tuple(case.get('bounds', (-4, 4)))
  values = (0, 1, 7, np.nan) if mask is not None else (0,)
  for value in values:
    given = y if mask is None else np.where(mask, y, value)

    def found(method, given=given):
      return estimate.estimate_ability(
        bank, given, mask, method=method, bounds=bounds
      )

    mode, mean = found('map'), found('eap')
    np.testing.assert_allclose(mode.theta, expect['map'], atol=tolerance)
    if 'eap' in expect:
      np.testing.assert_allclose(mean.theta, expect['eap'], atol=tolerance)
      for each in (mode, mean):
        np.testing.assert_allclose(each.se, expect['sd'], atol=tolerance)
    if 'mle_bounded' in expect:
      likely = found('mle').theta
      np.testing.assert_allclose(likely, expect['mle_bounded'], atol=tolerance)
      assert bounds[0] <= likely <= bounds[1]


def case_ability_sequence(case):
  y = np.array(case['y'])
  first = np.tril(np.ones((len(y), len(y))))
  found = estimate.estimate_ability(
    bank_of(case), np.tile(y, (len(y), 1)), first
  )
  np.testing.assert_allclose(
    found.theta, case['expect']['map_after_k'], atol=case['tolerance']
  )


def case_fit_mml(case):
  responses = np.repeat(PATTERNS, case['pattern_counts'], axis=0)
  bank, info = calibrate.fit_mml(responses.astype(float), model=case['model'])
  found = {'a': bank.a, 'b': bank.b, 'loglik': info.loglik}
  for name, value in case['expect'].items():
    np.testing.assert_allclose(
      found[name], value, atol=case['tolerance'][name], err_msg=name
    )
  assert info.converged


def _run_cat(bank, responses=None, *, rule='mfi', **settings):
  return simulate.run_cat(
    selector(rule), None, bank, responses, key=jax.random.key(0), **settings
  )


FUNCTIONS = {
  'estimate_ability': estimate.estimate_ability,
  'fit_mml': calibrate.fit_mml,
  'run_cat': _run_cat,
}


def case_bad_input(case):
  args = dict(case['args'])
  with pytest.raises(ValueError) as error:
    items = {name: args.pop(name) for name in 'abcd' if name in args}
    given = [item_bank(**items)] if items else []
    FUNCTIONS[case['function']](*given, **args)
  assert case['raises'] == 'ValueError'
  for words in case['match']:
    assert words in str(error.value)
