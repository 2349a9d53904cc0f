"""The optimum against grids, linear programs, invariances and gradients."""

import functools
import json
import os
import pathlib
import subprocess
import sys
import textwrap

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.errors import UserError
from jaxlab.fairness import (
  INFEASIBLE,
  OK,
  GroupScores,
  make_groups,
  optimal_sufficient,
  random_groups,
  solver,
)
from tests.fairness import oracles

pytestmark = pytest.mark.usefixtures('x64')

COUNT = 200  # instances for each number of groups


def on_device(gs):
  return jax.tree.map(jnp.asarray, gs)


@functools.cache
def solved(num_groups):
  """200 random instances, on the host, and their optima."""
  gs = oracles.random_instances(num_groups, COUNT, num_groups)
  return gs, jax.tree.map(np.asarray, optimal_sufficient(on_device(gs)))


@pytest.mark.parametrize(
  'num_groups',
  [2, 5, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 3, 4))],
)
@pytest.mark.parametrize(
  'some', [slice(40), pytest.param(slice(40, None), marks=pytest.mark.slow)]
)
def test_never_loses_to_a_grid(num_groups, some):
  batch, found = solved(num_groups)
  for i in range(COUNT)[some]:
    gs = oracles.instance(batch, i)
    feasible = oracles.is_feasible(gs)
    assert (found.status[i] == OK) == feasible, i
    if not feasible:
      assert found.status[i] == INFEASIBLE
      assert np.isnan(found.loss[i]) and np.isnan(found.rho[i]).all()
      continue
    p, q = oracles.grid(gs)
    best = oracles.loss_of(gs, p, q).min(initial=np.inf)
    assert found.loss[i] <= best + 1e-12, i


@pytest.mark.parametrize(
  'num_groups',
  [2, 5, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 3, 4))],
)
def test_rule_has_the_rates_and_the_loss(num_groups):
  batch, found = solved(num_groups)
  for i in np.flatnonzero(found.status == OK):
    gs = oracles.instance(batch, i)
    ppv, for_, loss = oracles.rates_of_rule(gs, found.rho[i])
    for got, want in (ppv, found.ppv[i]), (for_, found.for_[i]):
      np.testing.assert_allclose(got[~np.isnan(got)], want, atol=1e-9)
    np.testing.assert_allclose(loss, found.loss[i], atol=1e-10)
    rate = found.selection_rate[i]
    assert found.degenerate[i] == (min(rate) == 0 or max(rate) == 1)
    gaps = oracles.gaps_of(gs, found.ppv[i], found.for_[i])
    np.testing.assert_allclose(
      [found.tpr_gap[i], found.fpr_gap[i]], gaps, atol=1e-9
    )


def check_by_linear_programs(num_groups, some):
  """FOR cannot be lower at this PPV; the loss is that of the best rule."""
  batch, found = solved(num_groups)
  for i in np.flatnonzero(found.status == OK)[:some]:
    gs = oracles.instance(batch, i)
    p, q = found.ppv[i], found.for_[i]
    if q < oracles.base_rates(gs).min() - 1e-6 and p < gs.scores[:, 0].min():
      lowest = [
        oracles.lp_lower_for(s[w > 0], w[w > 0], p)
        if p > s @ w + 1e-9
        else s.min()
        for s, w in zip(gs.scores, gs.mass, strict=True)
      ]
      np.testing.assert_allclose(q, max(lowest), atol=1e-9)
    loss = oracles.lp_loss(gs, p, q)
    np.testing.assert_allclose(loss, found.loss[i], atol=1e-9)


@pytest.mark.parametrize(
  'num_groups', [2, pytest.param(3, marks=pytest.mark.slow)]
)
def test_is_the_optimum_of_linear_programs(num_groups):
  check_by_linear_programs(num_groups, some=15)


@pytest.mark.slow
@pytest.mark.parametrize(
  'num_groups',
  [2, 5, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 3, 4))],
)
def test_all_are_the_optimum_of_linear_programs(num_groups):
  check_by_linear_programs(num_groups, some=COUNT)


def test_outside_the_boundary_no_rule_exists():
  batch, found = solved(2)
  inner = (found.status == OK) & ~found.degenerate
  for i in np.flatnonzero(inner)[:10]:
    gs = oracles.instance(batch, i)
    p, q = found.ppv[i], found.for_[i]
    assert oracles.lp_loss(gs, p, q - 1e-6) is None


def test_costs_are_an_axis():
  batch, _ = solved(2)
  costs = np.array([0.3, 1.0, 4.0])
  solve = jax.vmap(
    lambda cost: optimal_sufficient(on_device(batch), cost_fp=cost)
  )
  found = solve(jnp.asarray(costs))
  for i in range(60):
    gs = oracles.instance(batch, i)
    if found.status[0, i] != OK:
      continue
    p, q = oracles.grid(gs)
    for c, cost in enumerate(costs):
      best = oracles.loss_of(gs, p, q, cost).min(initial=np.inf)
      assert found.loss[c, i] <= best + 1e-12
      ours = oracles.loss_of(gs, found.ppv[c, i], found.for_[c, i], cost)
      np.testing.assert_allclose(found.loss[c, i], ours, atol=1e-9)


def test_stationary_points_are_stationary():
  """Inside an edge the loss on both sides is higher, by the second order."""
  batch, found = solved(2)
  inner = 0
  for i in np.flatnonzero(found.status == OK):
    gs = oracles.instance(batch, i)
    p = found.ppv[i]
    step = 1e-6
    around = np.array([p - step, p + step])
    if oracles.base_rates(gs).max() > around[0]:
      continue
    slopes = np.diff(
      [
        oracles.loss_of(gs, x, oracles.common_for(gs, np.array([x]))[0])
        for x in (around[0], p, around[1])
      ]
    )
    if abs(slopes).max() < 1e-10:
      inner += 1
      assert slopes[0] <= 1e-15 <= slopes[1] + 2e-15
  assert inner >= 5


@pytest.mark.parametrize(
  'num_groups', [1, 2, pytest.param(3, marks=pytest.mark.slow)]
)
def test_identical_groups_get_the_unconstrained_optimum(num_groups):
  batch, _ = solved(1)
  alike = GroupScores(
    *(jnp.repeat(x, num_groups, axis=1) for x in batch[:2]),
    jnp.full((COUNT, num_groups), 1 / num_groups),
    jnp.repeat(batch.n_atoms, num_groups, axis=1),
  )
  found = optimal_sufficient(alike)
  bayes = np.sum(
    batch.mass * np.minimum(batch.scores, 1 - batch.scores), axis=(1, 2)
  )
  np.testing.assert_allclose(found.loss, bayes, atol=1e-13)


def test_order_of_groups_changes_nothing():
  batch, found = solved(3)
  order = np.array([2, 0, 1])
  again = optimal_sufficient(
    on_device(GroupScores(*(x[:, order] for x in batch)))
  )
  for name in ('loss', 'ppv', 'for_'):
    np.testing.assert_allclose(
      getattr(again, name), getattr(found, name), atol=1e-11
    )
  np.testing.assert_allclose(again.rho, found.rho[:, order], atol=1e-9)


def test_split_atoms_and_padding_change_nothing():
  """Rows in any order, scores in halves, zero masses: the same instance."""
  batch, found = solved(2)
  rng = np.random.default_rng(0)
  for i in np.flatnonzero(found.status == OK)[:5]:
    gs = oracles.instance(batch, i)
    mass = np.stack([gs.mass * 0.25, gs.mass * 0.75])
    scores = np.broadcast_to(gs.scores, mass.shape)
    groups = np.broadcast_to([[0], [1]], mass.shape)
    order = rng.permutation(mass.size)
    weight = mass * gs.weight[:, None]
    rows = make_groups(
      scores.ravel()[order],
      groups.ravel()[order],
      weight.ravel()[order],
      max_atoms=14,
    )
    again = optimal_sufficient(rows)
    for name in ('loss', 'ppv', 'for_', 'selection_rate'):
      np.testing.assert_allclose(
        getattr(again, name), getattr(found, name)[i], atol=1e-11
      )
    np.testing.assert_allclose(again.rho[:, :12], found.rho[i], atol=1e-9)


def test_batch_of_ten_thousand_is_one_program():
  batch, found = solved(2)
  many = jax.tree.map(lambda x: jnp.tile(x, (50,) + (1,) * (x.ndim - 1)), batch)
  traced = []

  @jax.jit
  def solve(gs):
    traced.append(None)
    return optimal_sufficient(gs).loss

  losses = solve(many)
  assert losses.shape == (10_000,) and len(traced) == 1
  np.testing.assert_allclose(losses, np.tile(found.loss, 50), atol=1e-12)


def test_gradient_is_that_of_the_optimum():
  """Against central differences, with respect to all that it depends on."""
  batch, found = solved(3)
  chosen = np.flatnonzero(found.status == OK)[:12]
  gs = jax.tree.map(lambda x: jnp.asarray(x[chosen]), batch)
  rng = np.random.default_rng(1)
  real = gs.mass > 0
  # Directions keep masses and weights normalised and the padding as it is.
  scores, mass = jnp.asarray(rng.normal(size=(2, *gs.mass.shape))) * real
  mass = gs.mass * mass
  mass -= gs.mass * mass.sum(axis=-1, keepdims=True)
  weight = jnp.asarray(rng.normal(size=gs.weight.shape)) * gs.weight
  weight -= gs.weight * weight.sum(axis=-1, keepdims=True)
  last = jnp.take_along_axis(scores, gs.n_atoms[..., None] - 1, axis=-1)
  scores = jnp.where(real, scores, last)

  def loss(t, one, way):
    moved = GroupScores(
      one.scores + t[0] * way[0],
      one.mass + t[1] * way[1],
      one.weight + t[2] * way[2],
      one.n_atoms,
    )
    return optimal_sufficient(moved, cost_fp=1 + t[3], cost_fn=1 + t[4]).loss

  ways = scores, mass, weight
  at = jnp.concatenate([jnp.zeros((1, 5)), 1e-6 * jnp.eye(5)])
  at = jnp.concatenate([at, -at[1:]])
  values = jax.jit(jax.vmap(jax.vmap(loss, (None, 0, 0)), (0, None, None)))(
    at, gs, ways
  )
  slopes = jax.jit(jax.vmap(jax.grad(loss), (None, 0, 0)))(at[0], gs, ways)
  numeric = (values[1:6] - values[6:]).T / 2e-6
  np.testing.assert_allclose(slopes, numeric, atol=2e-6)
  assert np.abs(numeric).max(axis=0).min() > 1e-3


@pytest.mark.slow
def test_gradient_is_finite_for_hard_shapes():
  """A single atom, padding, zero masses, and equal base rates."""
  one = make_groups([0.3, 0.6], [0, 0], max_atoms=5)
  two = make_groups([0.9, 0.5, 0.1, 0.9, 0.1], [0, 0, 0, 1, 1], max_atoms=5)
  point = make_groups([0.4, 0.4], [0, 1], max_atoms=5)
  for gs in one, two, two._replace(mass=two.mass.at[0, 1].set(0)), point:
    slopes = jax.grad(lambda x: optimal_sufficient(x).loss, allow_int=True)(gs)
    for x in slopes[:3]:
      assert np.isfinite(x).all()


def test_float32_is_close():
  batch, found = solved(2)
  single = jax.tree.map(
    lambda x: jnp.asarray(x, jnp.float32 if x.dtype.kind == 'f' else None),
    batch,
  )
  again = optimal_sufficient(single)
  assert again.loss.dtype == jnp.float32
  np.testing.assert_array_equal(again.status, found.status)
  np.testing.assert_allclose(again.loss, found.loss, atol=2e-4)


class VariantTest(chex.TestCase):
  """The same numbers with and without `jit`, and mapped over devices."""

  @chex.variants(with_jit=True, without_jit=True, with_pmap=True)
  def test_variants(self):
    batch, found = solved(2)
    i = int(np.flatnonzero(found.status == OK)[0])
    gs = on_device(oracles.instance(batch, i))
    got = self.variant(optimal_sufficient)(gs)
    np.testing.assert_allclose(got.loss, found.loss[i], atol=1e-13)
    np.testing.assert_allclose(got.rho, found.rho[i], atol=1e-11)


@pytest.mark.slow
def test_same_on_eight_devices():
  program = """
    import json
    import jax
    import jax.numpy as jnp
    import numpy as np
    jax.config.update('jax_enable_x64', True)
    from jaxlab import parallel
    from jaxlab.fairness import optimal_sufficient
    from tests.fairness import oracles
    gs = jax.tree.map(jnp.asarray, oracles.random_instances(2, 200, 2))
    run = parallel.sharded_vmap(optimal_sufficient)
    loss = parallel.gather(run(gs)).loss
    print(json.dumps([len(jax.devices()), np.asarray(loss).tolist()]))
  """
  env = {k: v for k, v in os.environ.items() if 'XLA' not in k}
  env['XLA_FLAGS'] = '--xla_force_host_platform_device_count=8'
  env['JAX_PLATFORMS'] = 'cpu'
  done = subprocess.run(
    [sys.executable, '-c', textwrap.dedent(program)],
    env=env,
    cwd=pathlib.Path(__file__).parents[2],
    capture_output=True,
    text=True,
    timeout=120,
    check=False,
  )
  assert done.returncode == 0, done.stderr
  devices, loss = json.loads(done.stdout.splitlines()[-1])
  assert devices == 8
  np.testing.assert_allclose(loss, solved(2)[1].loss, atol=1e-13)


@pytest.mark.parametrize(
  ('change', 'words'),
  [
    ({'cost_fp': 0.0}, ['cost_fp', '0.0']),
    ({'cost_fn': -1.0}, ['cost_fn', '-1.0']),
    ({'cost_fp': np.array([1.0, np.nan])}, ['cost_fp', 'nan']),
    ({'cost_fp': np.inf}, ['cost_fp', 'inf']),
    ({'cost_fp': 'a'}, ['cost_fp', "'a'"]),
    ({'cost_fn': None}, ['cost_fn', 'None']),
    ({'cost_fn': np.array([1.0, 2.0])}, ['cost_fn', 'one number', '[1. 2.]']),
    ({'rate_floor': 0.5}, ['rate_floor', '0.5']),
    ({'vacuous': 'never'}, ['vacuous', 'never', 'closure']),
    ({'branch': 'all'}, ['branch', 'all', 'informative']),
    ({'realize': 'coin'}, ['realize', 'coin', 'mixture']),
    ({'branch': 'both', 'vacuous': 'forbid'}, ['branch', 'forbid']),
  ],
)
def test_names_what_is_wrong(change, words):
  gs = make_groups([0.2, 0.8], [0, 0])
  with pytest.raises(UserError) as error:
    optimal_sufficient(gs, **change)
  for word in words:
    assert word in str(error.value)


def test_traced_bad_costs_give_nan():
  batch, found = solved(2)
  i = int(np.flatnonzero(found.status == OK)[0])
  gs = on_device(oracles.instance(batch, i))
  solve = jax.vmap(lambda c: optimal_sufficient(gs, cost_fn=c))
  got = solve(jnp.array([1.0, 0.0, -2.0, jnp.inf]))
  np.testing.assert_array_equal(got.status, [OK] + 3 * [INFEASIBLE])
  np.testing.assert_array_equal(np.isnan(got.loss), [False] + 3 * [True])


@pytest.mark.slow
def test_blocks_of_intervals_change_nothing(monkeypatch):
  draw = functools.partial(
    random_groups, num_groups=3, max_atoms=20, least=3, most=20
  )
  gs = jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(3), 64))
  whole = jax.jit(functools.partial(optimal_sufficient))(gs)
  monkeypatch.setattr(solver, '_BLOCKED_FROM', 0)
  monkeypatch.setattr(solver, '_BLOCK', 7)
  blocked = jax.jit(functools.partial(optimal_sufficient))(gs)
  assert 10 < int(jnp.sum(whole.status == 0)) < 64
  chex.assert_trees_all_close(blocked, whole, rtol=1e-12)
