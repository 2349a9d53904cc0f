"""Parameters over a mesh: rules here, eight devices in a process of its own."""

import json

import jax
import pytest
from jax.sharding import AbstractMesh, PartitionSpec

from jaxlab.lm import sharding
from tests.test_parallel import run_python

MESH = AbstractMesh((2, 4), ('data', 'model'))


@pytest.mark.parametrize(
  ('path', 'shape', 'rules', 'spec'),
  [
    ('layers/q/kernel', (3, 8, 16), sharding.FSDP, (None, 'data', None)),
    ('layers/o/kernel', (3, 16, 8), sharding.FSDP, (None, None, 'data')),
    ('embedding', (12, 8), sharding.FSDP, (None, 'data')),
    ('embedding', (12, 8), sharding.TENSOR, ('model', None)),
    ('embedding', (13, 8), sharding.FSDP_TENSOR, (None, 'data')),
    ('head', (8, 12), sharding.FSDP_TENSOR, ('data', 'model')),
    ('layers/down/kernel', (3, 16, 8), sharding.FSDP_TENSOR,
     (None, 'model', 'data')),
    ('layers/k/bias', (3, 16), sharding.TENSOR, (None, 'model')),
    ('layers/attn_norm/scale', (3, 8), sharding.FSDP_TENSOR, (None, None)),
    ('params.layers.up.kernel', (3, 8, 16), sharding.TENSOR,
     (None, None, 'model')),
    ('opt_state.0.mu.layers.q.kernel', (3, 8, 16), sharding.FSDP,
     (None, 'data', None)),
    ('opt_state.0.count', (), sharding.FSDP_TENSOR, ()),
    ('q/kernel', (3,), sharding.FSDP, (None,)),
    # No parameter whose name merely ends so.
    ('layers/seq/kernel', (3, 8, 16), sharding.FSDP, (None, None, None)),
  ],
)  # fmt: skip
def test_rules(path, shape, rules, spec):
  found = sharding.partition_spec(path, shape, MESH, rules)
  assert tuple(found) + (None,) * (len(shape) - len(found)) == spec


def test_rules_of_another_mesh():
  mesh = AbstractMesh((8,), ('data',))
  message = "the mesh axis 'model'; the mesh has data"
  with pytest.raises(ValueError, match=message):
    sharding.partition_spec('embedding', (8, 8), mesh, sharding.TENSOR)


def test_shardings_of_a_tree():
  shape = jax.ShapeDtypeStruct((2, 8, 16), 'float32')
  tree = {'layers': {'q': {'kernel': shape}}}
  found = sharding.shardings(tree, MESH, sharding.FSDP_TENSOR)
  spec = found['layers']['q']['kernel'].spec
  assert spec == PartitionSpec(None, 'data', 'model')


_DEVICES = """
import json
import jax, jax.numpy as jnp, numpy as np, optax
from jax.sharding import NamedSharding, PartitionSpec
from jaxlab import parallel
from jaxlab.harness import learners, training
from jaxlab.lm import config, model, sampling, sft, sharding

cfg = config.tiny(
  'qwen2', d_model=64, n_heads=8, n_kv_heads=4, head_dim=16, d_ff=64)
apply = model.apply_fn(model.Decoder(cfg))
tx = optax.adam(0.01)
step = sft.make_sft_step(apply, tx)

def init(key, hyper):
  params = apply.model.init(key, jnp.zeros((1, 1), jnp.int32))['params']
  return params, tx.init(params), None

learner = learners.Learner(init, lambda state, batch, *_: step(state, batch))
rng = np.random.default_rng(0)
tokens = rng.integers(1, 64, (16, 8)).tolist()
rows = sft.batch([t[:3] for t in tokens], [t[3:] for t in tokens], 8)
one = parallel.mesh(devices=jax.devices()[:1])
line = parallel.mesh()
grid = parallel.mesh(('data', 'model'), (2, 4))
assert line.size == grid.size == 8

def shares(params):
  held = {device.id: 0 for device in jax.devices()}
  total = 0
  for leaf in jax.tree.leaves(params):
    total += leaf.nbytes
    for shard in leaf.addressable_shards:
      held[shard.device.id] += shard.data.nbytes
  return max(held.values()) / total

result = {}
loss = jax.jit(lambda params: sft.sft_loss(apply, params, rows)[0])
for name, mesh, rule in (
  ('one', one, False),
  ('largest axis', line, True),
  ('fsdp', line, sharding.for_path(line)),
  ('tensor', grid, sharding.for_path(grid, sharding.TENSOR)),
):
  state = training.fit(
    None, learner, rows, batch_size=8, num_steps=3, key=0, mesh=mesh,
    shard_params=rule)
  params = jax.tree.map(np.asarray, state.params)
  wanted = params if name == 'one' else wanted
  result[name] = {
    'share': shares(state.params),
    'moments': shares(state.opt_state[0].mu),
    'loss': float(loss(params)),
  }

sp = sampling.SamplingParams(temperature=0.9, top_p=0.9, max_new=6)
prompts, mask = np.array(tokens, np.int32)[:8, :5], np.ones((8, 5), bool)
mask[0, 3:] = False
key = jax.random.key(1)
draw = jax.jit(
  lambda params, *given: sampling.generate(apply, params, *given, key, sp))
texts = np.asarray(
  sampling.generate(apply, wanted, prompts, mask, key, sp).tokens)
result['texts'] = texts.tolist()
spread = jax.device_put(
  (prompts, mask), NamedSharding(grid, PartitionSpec('data')))
rules = sharding.shardings(wanted, grid, sharding.FSDP_TENSOR)
out = draw(jax.device_put(wanted, rules), *spread)
assert len(out.tokens.sharding.device_set) == 8
result['tensor']['texts'] = np.asarray(out.tokens).tolist()

each = jax.pmap(
  lambda params, tokens, mask, row: sampling.generate(
    apply, params, tokens, mask, key, sp, row_ids=row),
  in_axes=(None, 0, 0, 0))
out = each(wanted, prompts[:, None], mask[:, None], jnp.arange(8)[:, None])
result['pmap_texts'] = np.asarray(out.tokens)[:, 0].tolist()
print(json.dumps(result))
"""


@pytest.mark.slow
def test_eight_devices_train_and_write_as_one():
  [printed] = run_python(_DEVICES, devices=8)
  result = json.loads(printed)
  texts, one = result.pop('texts'), result.pop('one')
  assert result.pop('pmap_texts') == texts
  assert one['share'] == 1
  for name, found in result.items():
    assert found['loss'] == pytest.approx(one['loss'], abs=1e-5), name
    # Heads, hidden units and tokens lie on four devices; norms on each.
    most = 0.27 if name == 'tensor' else 0.2
    assert found['share'] <= most, (name, found)
    assert found['moments'] <= most, (name, found)
  assert len({tuple(text) for text in texts}) > 4
  assert result['tensor']['texts'] == texts
