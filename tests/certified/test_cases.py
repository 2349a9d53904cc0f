"""Golden cases of the family; KINDS holds a check for each kind."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.certified import bounds, losses, pareto
from jaxlab.certified.branch_and_bound import Limits, minimum_margin, verify
from tests.certified import nets
from tests.golden import Golden

GOLDEN = Golden('certified_pareto')
_LIMITS = Limits(batch=8, nodes=5000)


def case_margin_bounds(case):
  params, tolerance = nets.case_params(case), case['tolerance']
  x, label = jnp.asarray(case['x']), case['label']
  expected = {
    name: np.array(list(values.values()))
    for name, values in case['expect'].items()
    if name != 'robust'
  }
  box = bounds.input_box(x[None], case['eps'], tuple(case['clip']))
  C = bounds.margin_matrix(jnp.array([label]), len(params[-1][1]))

  @jax.jit
  def bounded(params, box):
    names = ('ibp', 'crown_ibp', 'crown', 'alpha_crown')
    return {
      name: getattr(bounds, name)(nets.dense_net, params, box, C).lower[0]
      for name in names
    }

  lower = bounded(params, box)
  for name in ('ibp', 'crown_ibp', 'crown'):
    np.testing.assert_allclose(lower[name], expected[name], atol=tolerance)
  for values in lower.values():
    assert np.all(values <= expected['exact'] + tolerance)
  assert np.all(lower['alpha_crown'] >= expected['crown'] - tolerance)

  problem = (nets.dense_net, params, x, label, case['eps'])
  clip = tuple(case['clip'])
  found = verify(*problem, clip=clip, limits=_LIMITS)
  robust = case['expect']['robust']
  assert found.status == ('verified' if robust else 'falsified')
  tight = minimum_margin(*problem, clip=clip, limits=_LIMITS)
  exact = verify(*problem, clip=clip, milp=True)
  for margins in (tight.lower, tight.upper, exact.lower):
    np.testing.assert_allclose(margins, expected['exact'], atol=tolerance)
  assert found.status == exact.status


def _input_box(args):
  x = jnp.asarray([args['x']])
  bounds.input_box(x, float(args['eps']), tuple(args['clip']))


def _ibp(args):
  params = nets.case_params(args)
  box = bounds.Interval(
    jnp.asarray([args['lower']]), jnp.asarray([args['upper']])
  )
  if 'C' in args:
    C = jnp.asarray(args['C'])
  else:
    C = bounds.margin_matrix(jnp.array([args['label']]), len(params[-1][1]))
  bounds.ibp(nets.dense_net, params, box, C)


def _training_loss(case, transform=lambda loss: loss):
  """The loss of a batch of one, and its terms."""
  loss = functools.partial(
    losses.LOSSES[case['method']].loss, nets.dense_net, clip=tuple(case['clip'])
  )
  return transform(loss)(
    nets.case_params(case),
    jnp.asarray([case['x']]),
    jnp.array([case['label']]),
    float(case['eps']),
    {'kappa': case['kappa'], 'beta': case.get('beta', 1)},
    jax.random.key(0),
  )


def case_training_loss(case):
  loss, terms = _training_loss(case, jax.jit)
  found = {**terms, 'loss': loss}
  for name, value in case['expect'].items():
    np.testing.assert_allclose(
      found[name], value, atol=case['tolerance'], err_msg=name
    )


def case_pareto_front(case):
  found = pareto.front(case['points'])
  want = np.unique(np.array(case['expect']['front'], float), axis=0)
  np.testing.assert_allclose(found, want, atol=case['tolerance'])
  volume = pareto.hypervolume(case['points'], case['reference'])
  np.testing.assert_allclose(
    volume, case['expect']['hypervolume'], atol=case['tolerance']
  )


def case_complementarity(case):
  found = pareto.complementarity(case['methods'], case['reference'])._asdict()
  for name, value in case['expect'].items():
    if not isinstance(value, dict):
      value = {'': value}  # noqa: PLW2901
      found[name] = {'': found[name]}
    assert found[name].keys() == value.keys()
    for method, want in value.items():
      np.testing.assert_allclose(
        found[name][method], want, atol=case['tolerance'], err_msg=name
      )


BAD_INPUT = {
  'input_box': _input_box,
  'ibp': _ibp,
  'training_loss': _training_loss,
  'front': lambda args: pareto.front(args['points']),
  'hypervolume': lambda args: pareto.hypervolume(
    args['points'], args['reference']
  ),
  'complementarity': lambda args: pareto.complementarity(
    args['methods'], args['reference']
  ),
}


def case_bad_input(case):
  with pytest.raises(ValueError) as error:
    BAD_INPUT[case['function']](case['args'])
  assert case['raises'] == 'ValueError'
  for words in case['match']:
    assert words in str(error.value)


KINDS = {
  'margin_bounds': case_margin_bounds,
  'bad_input': case_bad_input,
  'training_loss': case_training_loss,
  'pareto_front': case_pareto_front,
  'complementarity': case_complementarity,
}


@pytest.mark.parametrize('case', GOLDEN.parameters())
def test_case(case):
  with jax.enable_x64(True):
    KINDS[case['kind']](case)
