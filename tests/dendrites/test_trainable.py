"""Which numbers are free, what they become, and their gradient."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import absltest
from scipy.special import expit

from jaxlab import dendrites, errors
from jaxlab.dendrites import channels, trainable

DT, STEPS = 0.025, 24
LOW, HIGH = 0.02, 0.3
BOUNDED = trainable.sigmoid(LOW, HIGH)
TRANSFORMS = {
  'identity': (trainable.identity, lambda x: x),
  'exp': (trainable.exp, np.exp),
  'softplus': (trainable.softplus, lambda x: np.logaddexp(0, x)),
  'sigmoid': (BOUNDED, lambda x: LOW + (HIGH - LOW) * expit(x)),
}
CYLINDERS = [
  ('soma', 20.0, 20.0, None),
  ('dend', 100.0, 2.0, ('soma', 1.0)),
  ('apic1', 90.0, 2.0, ('soma', 0.0)),
  ('apic2', 80.0, 1.0, ('apic1', 1.0)),
]
SEGMENTS = {'soma': 1, 'dend': 2, 'apic1': 2, 'apic2': 1}


def small():
  """Two equal cells, with a synapse, a weight between them and a junction."""
  tree = dendrites.discretize(
    dendrites.from_cylinders(CYLINDERS), nseg=SEGMENTS
  )
  leak = channels.Leak(g=1e-4, e=-65.0)
  cell = dendrites.cell(tree, [('all', channels.HH), ('dend', leak)])
  kind = dendrites.Exp2Syn(tau1=0.3, tau2=2.0, e=0.0)
  far = cell.node('apic2', 0.5)
  return dendrites.network(
    {cell: 2},
    [
      dendrites.synapse(kind, (0, far), 2e-3, due=[0.1]),
      dendrites.connect(kind, 0, 1, far, weight=1e-3, delay=0.1),
    ],
    [dendrites.gap_junctions([0, 1], [1, 0], 1e-3, 0, [far, 1])],
  )


NET = small()


def split(*rules, params=None):
  params = dendrites.init_params(NET) if params is None else params
  return dendrites.make_trainable(NET, params, rules)


def free_values(free):
  (values,) = free.values()
  return np.asarray(values)


@pytest.fixture
def x64():
  with jax.enable_x64(True):
    yield


class Variants(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True, with_pmap=True)
  def test_assemble(self):
    free, assemble = split(dendrites.Rule('*/soma/HH.g_na', BOUNDED, 'all'))
    (name,) = free
    params = self.variant(assemble)({name: jnp.array([-0.4])})
    values = np.asarray(params['channels']['HH']['g_na'])[:, 0]
    moved = TRANSFORMS['sigmoid'][1](-0.4)
    np.testing.assert_allclose(np.sort(values)[:10], 0.12, rtol=1e-6)
    np.testing.assert_allclose(np.sort(values)[10:], moved, rtol=1e-6)


@pytest.mark.parametrize('name', TRANSFORMS)
def test_transforms_are_as_stated_and_invert_each_other(x64, name):
  transform, expected = TRANSFORMS[name]
  x = np.array([-6.0, -1.3, 0.0, 0.7, 5.0])
  y = transform.forward(jnp.asarray(x))
  np.testing.assert_allclose(y, expected(x), rtol=1e-12)
  np.testing.assert_allclose(transform.inverse(y), x, atol=1e-10)
  again = transform.forward(transform.inverse(y))
  np.testing.assert_allclose(again, y, rtol=1e-12)


@pytest.mark.parametrize(
  'transform', [trainable.softplus, BOUNDED, trainable.sigmoid(-80.0, -40.3)]
)
def test_any_free_numbers_stay_within_the_bounds(transform):
  x = 100 * np.random.default_rng(0).standard_normal(200)
  x = np.append(x, [-1e9, -200.0, 200.0, 1e9])
  y = np.asarray(transform.forward(jnp.asarray(x, jnp.float32)))
  assert y.dtype == np.float32
  assert (y >= np.float32(transform.low)).all()
  assert (y <= np.float32(transform.high)).all()
  assert len(np.unique(y)) > 20


def test_bounds_hold_in_the_parameters_and_the_rest_stays():
  rules = [
    dendrites.Rule('*/*/HH.g_*', BOUNDED, 'segment'),
    dendrites.Rule('synapses/Exp2Syn.weight', trainable.exp),
    dendrites.Rule('gaps', trainable.softplus),
  ]
  before = dendrites.init_params(NET)
  channel = {**before['channels']['HH'], 'g_l': jnp.full((12, 1), 0.03)}
  before['channels'] = {**before['channels'], 'HH': channel}
  free, assemble = split(*rules, params=before)
  leaves, tree = jax.tree.flatten(free)
  rng = np.random.default_rng(1)
  moved = [20 * rng.standard_normal(x.shape, np.float32) for x in leaves]
  after = jax.device_get(jax.jit(assemble)(jax.tree.unflatten(tree, moved)))
  for name in ('g_na', 'g_k', 'g_l'):
    values = after['channels']['HH'][name]
    assert ((values >= np.float32(LOW)) & (values <= np.float32(HIGH))).all()
    assert not np.allclose(values, before['channels']['HH'][name])
  assert (after['synapses']['Exp2Syn']['weight'] > 0).all()
  assert (after['gaps'] >= 0).all()
  for part in (before, after):
    for name in ('g_na', 'g_k', 'g_l'):
      del part['channels']['HH'][name]
    del part['synapses']['Exp2Syn']['weight'], part['gaps']
  chex.assert_trees_all_equal(after, jax.device_get(before))


def test_the_start_makes_the_parameters_again(x64):
  params = dendrites.init_params(NET)
  free, assemble = split(
    dendrites.Rule('*/*/HH.g_na', BOUNDED),
    dendrites.Rule('*/apical/HH.g_k', trainable.exp, 'section'),
    dendrites.Rule('1/dend/Leak.*', trainable.identity, 'all'),
    dendrites.Rule('synapses/*.tau2', trainable.softplus),
    dendrites.Rule('gaps', trainable.exp, 'all'),
  )
  assert sum(x.size for x in free.values()) == 12 + 4 + 2 + 1 + 1
  again = jax.jit(assemble)(free)
  chex.assert_trees_all_equal_shapes_and_dtypes(again, params)
  chex.assert_trees_all_close(again, params, rtol=1e-12)


# Segments, sections, regions (soma, basal, apical) of two cells.
@pytest.mark.parametrize(
  ('share', 'expected'),
  [('segment', 12), ('section', 8), ('region', 6), ('cell', 2), ('all', 1)],
)
def test_sharing(share, expected):
  free, assemble = split(dendrites.Rule('*/*/HH.g_k', trainable.exp, share))
  (name,) = free
  values = jnp.log(jnp.arange(1.0, expected + 1))
  found = np.asarray(assemble({name: values})['channels']['HH']['g_k'])[:, 0]
  # Rows of equal cells take turns: node 0 of both, node 1 of both, ...
  by_cell = found.reshape(6, 2).T
  tree = NET.cells[0].tree
  labels = {
    'segment': list(range(6)),
    'section': tree.section.tolist(),
    'region': [tree.region[s] for s in tree.section],
  }.get(share, [''] * 6)
  groups: dict = {}
  for cell in range(2):
    for label, value in zip(labels, by_cell[cell], strict=True):
      key = '' if share == 'all' else (cell, label)
      groups.setdefault(key, set()).add(round(float(value), 4))
  assert all(len(found) == 1 for found in groups.values())
  assert len(set.union(*groups.values())) == len(groups) == expected


@pytest.mark.parametrize(
  ('pattern', 'cells', 'sections'),
  [
    ('*/soma/HH.g_na', (0, 1), ('soma',)),
    ('1/*/HH.g_na', (1,), ('soma', 'dend', 'apic1', 'apic2')),
    ('*/apical/HH.g_na', (0, 1), ('apic1', 'apic2')),
    ('0/apic2/HH.g_na', (0,), ('apic2',)),
    ('*/*c2/HH.g_n?', (0, 1), ('apic2',)),
  ],
)
def test_patterns(pattern, cells, sections):
  free, assemble = split(dendrites.Rule(pattern))
  (name,) = free
  params = assemble({name: jnp.full_like(free[name], 7.0)})
  found = np.asarray(params['channels']['HH']['g_na'])[:, 0] == 7.0
  tree = NET.cells[0].tree
  inside = [tree.names[s] in sections for s in tree.section]
  expected = np.zeros((6, 2), bool)
  for cell in cells:
    expected[:, cell] = inside
  np.testing.assert_array_equal(found, expected.ravel())


def test_what_is_shared_starts_from_its_mean():
  params = dendrites.init_params(NET)
  values = jnp.linspace(0.05, 0.2, 12)[:, None]
  channel = {**params['channels']['HH'], 'g_na': values}
  params['channels'] = {**params['channels'], 'HH': channel}
  rule = dendrites.Rule('*/*/HH.g_na', trainable.exp, 'cell')
  free, _ = split(rule, params=params)
  expected = np.asarray(values).reshape(6, 2).mean(axis=0)
  np.testing.assert_allclose(np.exp(free_values(free)), expected, rtol=1e-5)


def test_gradient_is_the_chain_rule(x64):
  rules = [
    dendrites.Rule('*/apical/HH.g_na', BOUNDED, 'region'),
    dendrites.Rule('0/*/Leak.g', trainable.exp, 'all'),
    dendrites.Rule('synapses/Exp2Syn.weight', trainable.softplus),
    dendrites.Rule('gaps', trainable.exp, 'all'),
  ]
  free, assemble = split(*rules)

  def loss(params):
    state = dendrites.init_state(NET, params, dt=DT)
    clamp = dendrites.current_clamp((0, 0), 0.0, 0.4, 3.0)
    recording, _ = dendrites.simulate(
      NET, params, state, [clamp], dt=DT, steps=STEPS
    )
    return jnp.mean(jnp.square(recording.v + 40.0))

  @jax.jit
  def gradients(free):
    params, back = jax.vjp(assemble, free)
    value, slopes = jax.value_and_grad(loss)(params)
    return value, slopes, back(slopes)[0]

  _, by_params, by_free = gradients(free)
  h = 1e-2
  for name, values in free.items():
    for i in range(values.size):
      near, far = (
        gradients({**free, name: values.at[i].add(k * h)})[0]
        - gradients({**free, name: values.at[i].add(-k * h)})[0]
        for k in (1, 2)
      )
      np.testing.assert_allclose(
        by_free[name][i], (8 * near - far) / (12 * h), rtol=1e-5, err_msg=name
      )
  share = (0.12 - LOW) / (HIGH - LOW)
  chained = (HIGH - LOW) * share * (1 - share)
  by_row = by_params['channels']['HH']['g_na'].reshape(6, 2)
  tree = NET.cells[0].tree
  apical = np.array([tree.region[s] == 'apical' for s in tree.section])
  np.testing.assert_allclose(
    by_free['*/apical/HH.g_na:HH.g_na'],
    chained * by_row[apical].sum(axis=0),
    rtol=1e-10,
  )
  np.testing.assert_allclose(
    by_free['gaps:gaps'], [1e-3 * by_params['gaps'].sum()], rtol=1e-10
  )


@pytest.mark.parametrize(
  ('rule', 'message'),
  [
    (dendrites.Rule('*/soma/Nap.g'), r"nothing matches '\*/soma/Nap.g'.*HH"),
    (dendrites.Rule('*/axon/HH.g_na'), 'nothing matches'),
    (dendrites.Rule('2/soma/HH.g_na'), 'nothing matches'),
    (dendrites.Rule('HH.g_na'), 'nothing matches'),
    (dendrites.Rule('synapses/AMPA_NMDA.weight'), 'nothing matches'),
    (
      dendrites.Rule('*/soma/HH.g_na', trainable.sigmoid(0.2, 0.3)),
      r'HH.g_na starts at 0.12, outside \(0.2, 0.3\)',
    ),
    (
      dendrites.Rule('*/soma/HH.e_k', trainable.exp),
      r'HH.e_k starts at -77, outside \(0, inf\)',
    ),
    (
      dendrites.Rule('*/soma/HH.g_na', BOUNDED, 'branch'),
      "share = 'branch' is not known; take one of segment, section, region",
    ),
  ],
)
def test_mistakes(rule, message):
  with pytest.raises(errors.UserError, match=message) as caught:
    split(rule)
  assert '\n' not in str(caught.value)


def test_bounds_in_the_wrong_order():
  with pytest.raises(errors.UserError, match=r'low = 0.3 must be below'):
    trainable.sigmoid(0.3, 0.02)


if __name__ == '__main__':
  absltest.main()


def test_sections_of_a_file_and_the_geometry_are_addressed():
  tree = dendrites.discretize(
    dendrites.from_cylinders(
      [('soma[0]', 20.0, 20.0, None), ('dend[0]', 99.0, 2.0, ('soma[0]', 1.0))]
    ),
    nseg=3,
  )
  net = dendrites.network(dendrites.cell(tree, [('all', channels.HH)]))
  params = dendrites.init_params(net)
  rules = [
    dendrites.Rule('*/dend[0]/HH.g_na', share='all'),
    dendrites.Rule('geometry/0.radius', share='all'),
  ]
  free, assemble = dendrites.make_trainable(net, params, rules)
  moved = assemble({name: x + 1 for name, x in free.items()})
  changed = moved['channels']['HH']['g_na'] - params['channels']['HH']['g_na']
  nodes = tree.nodes('dend[0]')
  expected = np.isin(np.arange(tree.n), nodes).astype(float)
  np.testing.assert_allclose(changed[:, 0], expected, atol=1e-6)
  np.testing.assert_allclose(moved['geometry']['0']['radius'], 2.0)


def test_a_parameter_has_one_rule():
  net = dendrites.network(
    dendrites.cell(
      dendrites.discretize(
        dendrites.from_cylinders([('soma', 20.0, 20.0, None)]), nseg=1
      ),
      [('all', channels.HH)],
    )
  )
  rules = [dendrites.Rule('*/soma/HH.g_na'), dendrites.Rule('0/*/HH.g_*')]
  with pytest.raises(ValueError, match='already trained'):
    dendrites.make_trainable(net, dendrites.init_params(net), rules)
