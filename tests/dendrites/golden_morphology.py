"""Golden cases of reading and dividing neurons; dense solves of the cable."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab import dendrites
from jaxlab.dendrites import channels, morphology, swc
from jaxlab.dendrites.discretize import discretize


def conductance_matrix(tree, g_pas, *, cm=1.0, dt=np.inf):
  """`[n, n]` matrix of an implicit step of the passive cell in uS.

  Args:
    tree: its compartments.
    g_pas: leak in S/cm2.
    cm: capacitance in uF/cm2.
    dt: step in ms; infinity is the steady state.
  """
  matrix = np.diag(tree.area * (1e-2 * g_pas + 1e-5 * cm / dt))
  child = np.flatnonzero(tree.parent >= 0)
  above, g = tree.parent[child], 1 / tree.resistance[child]
  np.add.at(matrix, (child, child), g)
  np.add.at(matrix, (above, above), g)
  matrix[child, above] = matrix[above, child] = -g
  return matrix


def input_resistance(tree, node, g_pas):
  """Steady voltage in mV at a node for a current of 1 nA into it."""
  current = np.eye(tree.n)[node]
  return np.linalg.solve(conductance_matrix(tree, g_pas), current)[node]


def case_swc_sections(case, data_dir):
  if case['text'] is None:
    morph = swc.read_swc(data_dir / case['file'])
  else:
    morph = swc.parse_swc(case['text'])
  tree = discretize(morph, max_len=case['max_len'], Ra=case['Ra'])
  assert len(morph.sections) == case['n_sections']
  assert tree.n_segments == case['n_segments']
  assert tree.n == case['n_nodes']
  root = tree.node(case['root'], 0.5)
  assert root == 0
  found = tree.area.sum(), input_resistance(tree, root, case['g_pas'])
  expected = case['total_area'], case['r_in_MOhm']
  np.testing.assert_allclose(found, expected, rtol=case['rtol'])
  if case['sections'] is None:
    return
  for section, wanted in zip(morph.sections, case['sections'], strict=True):
    parent = None
    if section.parent >= 0:
      parent = [morph.sections[section.parent].name, section.parent_x]
    nodes = tree.nodes(section.name)
    assert (section.name, section.type) == (wanted['name'], wanted['type'])
    assert (parent, len(nodes)) == (wanted['parent'], wanted['nseg'])
    np.testing.assert_allclose(
      (section.L, tree.area[nodes].sum()),
      (wanted['L'], wanted['area']),
      rtol=case['rtol'],
    )


def case_swc_error(case, data_dir=None):
  del data_dir
  with pytest.raises(getattr(morphology, case['raises'])) as caught:
    swc.parse_swc(case['text'])
  assert type(caught.value).__name__ == case['raises']
  assert '\n' not in str(caught.value)
  for word in case['match']:
    assert word in str(caught.value)


def case_cable_steady_state(case, data_dir=None):
  del data_dir
  cable = morphology.from_cylinders([('dend', case['L'], case['diam'], None)])
  tree = discretize(cable, nseg=case['nseg'], Ra=case['Ra'])
  first, last = tree.node('dend', 0), tree.node('dend', 1)
  leak = channels.Leak(g=case['g_pas'], e=0.0)
  net = dendrites.network(dendrites.cell(tree, [('all', leak)]))
  params = dendrites.init_params(net)
  state = dendrites.init_state(net, params, 0.0)
  current = jnp.zeros((tree.n, 1)).at[first].set(1.0)
  state, _ = dendrites.step(
    net, params, state, dendrites.Inputs(current), dt=1e9
  )
  v = np.asarray(state.v[:, 0])
  half = 0.01 * case['Ra'] * case['L'] / case['nseg'] / 2
  at_end = v[first] + half / (np.pi * case['diam'] ** 2 / 4)
  closed = np.sqrt(1e4 * case['diam'] / (4 * case['Ra'] * case['g_pas']))
  np.testing.assert_allclose(closed, case['lambda_um'], rtol=1e-12)
  np.testing.assert_allclose(
    (at_end, v[last] / at_end),
    (case['r_in_MOhm'], case['v_end_ratio']),
    rtol=case['rtol'],
  )
