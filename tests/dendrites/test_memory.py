"""The memory plan against what the compiled gradient allocates."""

import jax
import jax.numpy as jnp
import pytest

from jaxlab import dendrites, errors
from jaxlab.dendrites import channels, memory

STICK = [('soma', 20.0, 20.0, None), ('dend', 400.0, 2.0, ('soma', 1.0))]


def stick(nseg):
  tree = dendrites.discretize(
    dendrites.from_cylinders(STICK), nseg={'soma': 1, 'dend': nseg}
  )
  return dendrites.network(dendrites.cell(tree, [('all', channels.HH)]))


def measured(net, steps, batch, remat):
  params = dendrites.init_params(net)
  state = dendrites.init_state(net, params, batch=batch)

  def loss(params, state):
    rec, _ = dendrites.simulate(
      net, params, state, dt=0.1, steps=steps, remat=remat
    )
    return jnp.mean(rec.v)

  compiled = jax.jit(jax.grad(loss)).lower(params, state).compile()
  found = compiled.memory_analysis()
  return (
    found.temp_size_in_bytes
    + found.argument_size_in_bytes
    + found.output_size_in_bytes
  )


@pytest.mark.parametrize(
  ('nseg', 'steps', 'batch', 'remat'),
  [(30, 60, 1, 'sqrt'), (60, 400, 64, 'sqrt'), (60, 100, 64, 'none')],
)
def test_gradient_stays_under_the_plan(nseg, steps, batch, remat):
  net = stick(nseg)
  plan = memory.memory_plan(net, steps, 0.1, batch, remat)
  assert plan.total == sum(plan)
  found = measured(net, steps, batch, remat)
  assert found <= plan.total <= 3 * found, (found, plan)


def test_parts_grow_as_they_should():
  net = stick(10)
  plan = memory.memory_plan(net, 100, remat='sqrt')
  longer = memory.memory_plan(net, 400, remat='sqrt')
  wider = memory.memory_plan(net, 100, batch=64, remat='sqrt')
  all_steps = memory.memory_plan(net, 100, remat='none')
  assert longer.recordings == 4 * plan.recordings
  assert longer.stored == pytest.approx(2 * plan.stored, rel=0.1)
  assert longer.residuals == pytest.approx(2 * plan.residuals, rel=0.1)
  assert longer.parameters == plan.parameters
  assert wider.recordings == 64 * plan.recordings
  assert wider.residuals == pytest.approx(64 * plan.residuals, rel=0.1)
  assert all_steps.stored == 0
  assert all_steps.residuals == pytest.approx(10 * plan.residuals, rel=0.1)
  own = memory.memory_plan(net, 100, recorded=7, remat='sqrt')
  assert own.recordings == 7 * plan.recordings


def test_refuses_no_steps():
  with pytest.raises(errors.UserError, match='steps = 0'):
    memory.memory_plan(stick(3), 0)
