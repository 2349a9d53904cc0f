"""What is refused, in one line that names the thing."""

import jax
import jax.numpy as jnp
import numpy as np
import optuna
import pytest

from jaxlab import errors
from jaxlab.certified import (
  attacks,
  bounds,
  branch_and_bound,
  cascade,
  lanes,
  networks,
  pareto,
)
from jaxlab.certified.interval import Interval, input_box, margin_matrix

optuna.logging.set_verbosity(optuna.logging.WARNING)

NETWORK = networks.mlp((4, 3, 3))
PARAMS = NETWORK.init(jax.random.key(0))
X = np.linspace(0.2, 0.8, 8, dtype=np.float32).reshape(2, 4)
Y = np.array([0, 2])
KEY = jax.random.key(1)
BOX = input_box(X, 0.1)
ROWS = margin_matrix(Y, 3)


def _pgd(**changes):
  options = {'x': X, 'y': Y, 'eps': 0.1, 'steps': 2} | changes
  x, y, eps = (options.pop(k) for k in ('x', 'y', 'eps'))
  return attacks.pgd(NETWORK.apply, PARAMS, x, y, eps, KEY, **options)


def _evaluate(**changes):
  options = {'x': X, 'y': Y, 'batch_size': 2, 'steps': 1} | changes
  x, y = options.pop('x'), options.pop('y')
  return cascade.evaluate(NETWORK, PARAMS, x, y, 0.1, KEY, **options)


def _verify(x=X[0], label=0, eps=0.1, **limits):
  return branch_and_bound.verify(
    NETWORK.apply,
    PARAMS,
    x,
    label,
    eps,
    limits=branch_and_bound.Limits(**limits),
  )


@pytest.mark.parametrize(
  ('call', 'words'),
  [
    (lambda: bounds.ibp(NETWORK, PARAMS, BOX, ROWS), ['Network', '.apply']),
    (lambda: networks.mlp((4, 0, 3)), ['dense_0', '0 features']),
    (lambda: networks.small_cnn((2, 2, 1)), ['conv_1', '(1, 1, 16)']),
    (lambda: pareto.front([[1, 2], [3]]), ['points', '[N, M]']),
    (
      lambda: pareto.complementarity({'a': [[1, 2]], 'b': [[1, 2, 3]]}, (0, 0)),
      ['objectives', "'b': 3"],
    ),
    (lambda: _verify(nodes=1.5), ['limits.nodes', '1.5', 'whole']),
    (lambda: _verify(learning_rate=float('nan')), ['learning_rate', 'nan']),
    (lambda: _verify(x=X), ['(2, 4)', 'without an axis']),
    (
      lambda: branch_and_bound.verify(
        NETWORK.apply, PARAMS, X[0], 0, 0.1, limits=5
      ),
      ['Limits(nodes=5)'],
    ),
    (lambda: jax.jit(_verify)(X[0]), ['outside of jit']),
    (
      lambda: bounds.alpha_crown(
        NETWORK.apply, PARAMS, BOX, ROWS, learning_rate=float('nan')
      ),
      ['learning_rate', 'nan'],
    ),
    (lambda: _pgd(restarts=0), ['restarts', '0']),
    (lambda: _pgd(steps=-1), ['steps', '-1']),
    (lambda: _pgd(y=np.array([0, 7])), ['label 7']),
    (lambda: _pgd(y=np.array([0])), ['labels', '(1,)']),
    (lambda: _pgd(eps=np.ones(3)), ['eps', '(3,)']),
    (lambda: input_box(X, 0.1, (1, 0)), ['clip', '(1, 0)']),
    (lambda: margin_matrix(np.array([0.5]), 3), ['labels', 'float']),
    (lambda: margin_matrix(np.array([0]), 1), ['num_classes', '1']),
    (lambda: _verify(label=0.5), ['labels', 'float']),
    (lambda: _verify(label=np.array([1])), ['label', '(1,)']),
    (lambda: _verify(nodes=0), ['nodes', '0']),
    (lambda: _verify(eps=(X[0] + 0.1, X[0])), ['lower', 'upper']),
    (lambda: _evaluate(batch_size=0), ['batch_size 0']),
    (lambda: _evaluate(x=X[:0], y=Y[:0]), ['0 examples']),
    (lambda: _evaluate(y=Y[:1]), ['2 examples', '1 labels']),
    (
      lambda: lanes.learner_parts(NETWORK, 'ibp', num_steps=0),
      ['num_steps', '0'],
    ),
    (
      lambda: bounds.ibp(NETWORK.apply, PARAMS, X, jnp.eye(3)),
      ['Interval'],
    ),
    (
      lambda: bounds.crown(
        NETWORK.apply, PARAMS, input_box(X, 0.1), jnp.eye(3), chunk=0
      ),
      ['chunk', '0'],
    ),
    (
      lambda: bounds.alpha_crown(
        NETWORK.apply, PARAMS, input_box(X, 0.1), jnp.eye(3), steps=-1
      ),
      ['steps', '-1'],
    ),
  ],
)
def test_is_refused(call, words):
  with pytest.raises(errors.UserError) as caught:
    call()
  assert all(word in str(caught.value) for word in words), caught.value
  assert '\n' not in str(caught.value)


def test_a_pair_of_bounds_is_a_box():
  box = (X[0] - 0.01, X[0] + 0.01)
  label = int(NETWORK.apply(PARAMS, X[:1]).argmax())
  plain, named = (
    _verify(label=label, eps=eps) for eps in (box, Interval(*box))
  )
  assert plain.status == named.status == _verify(label=label, eps=0.01).status


@pytest.mark.parametrize('name', ['ibp', 'crown_ibp', 'crown', 'alpha_crown'])
def test_no_examples_have_no_bounds(name):
  box = input_box(jnp.zeros((0, 4)), 0.1)
  found = getattr(bounds, name)(NETWORK.apply, PARAMS, box, jnp.eye(3))
  assert found.lower.shape == (0, 3)
