"""Can gradients find a cell's conductances from its voltage?"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxlab import dendrites
from jaxlab.dendrites import channels, plots, trainable
from jaxlab.harness import evidence
from jaxlab.harness.progress import Progress
from jaxlab.harness.settings import check, check_positive, check_seeds, key_of

_SOURCE = 'HelioX (ICML 2026), abstract: scalable training of detailed neurons'
_STICK = (('soma', 20.0, 20.0, None), ('dend', 600.0, 2.0, ('soma', 1.0)))
# Low and high bounds in S/cm2 around the truth.
_BOUNDS = {'g_na': (0.02, 0.3), 'g_k': (0.005, 0.1), 'g_l': (5e-5, 2e-3)}
_DENDRITE = {'g_na': 0.06, 'g_k': 0.02, 'g_l': 2e-4}


def run(config, workdir) -> None:
  """Fits six conductances from random starts, side by side."""
  check_seeds(config)
  check_positive(
    config,
    *('t_max', 'dt', 'updates', 'block', 'rate', 'nseg'),
    *('amplitudes', 'stimuli', 'hold'),
  )
  check(
    config,
    'block',
    config.updates % config.block == 0,
    f'a divisor of updates = {config.updates}',
  )
  fit = _Fit(config)
  free, opt = fit.start()
  losses, errors = [], []
  with Progress('updates', config.updates) as progress:
    for block in range(config.updates // config.block):
      unit = functools.partial(fit.advance, free, opt)
      found = workdir.cached(f'block-{block:03d}', unit)
      free, opt = fit.restore(found)
      losses.append(found['losses'])
      errors.append(found['errors'])
      progress.advance(config.block)
  _record(
    config,
    workdir,
    fit,
    np.concatenate(losses),
    np.concatenate(errors),
    free,
  )


class _Fit:
  """The cell, its data and the compiled block of updates."""

  def __init__(self, config):
    self.config = config
    tree = dendrites.discretize(
      dendrites.from_cylinders(_STICK), nseg={'soma': 1, 'dend': config.nseg}
    )
    cell = dendrites.cell(
      tree, [('soma', channels.HH), ('dend', channels.HH(**_DENDRITE))]
    )
    self.net = dendrites.network(cell)
    self.truth = dendrites.init_params(self.net)
    rules = [
      dendrites.Rule(
        f'*/{place}/HH.{name}', trainable.sigmoid(low, high), 'region'
      )
      for place in ('soma', 'dend')
      for name, (low, high) in _BOUNDS.items()
    ]
    self.free, self.assemble = dendrites.make_trainable(
      self.net, self.truth, rules
    )
    self.rules = dict(zip(self.free, rules, strict=True))
    self.currents = _currents(config)
    self.target = jax.jit(self.voltages)(self.truth)
    self.optimizer = optax.adam(
      optax.cosine_decay_schedule(config.rate, config.updates, 0.02), b2=0.95
    )
    self.block = jax.jit(self._updates)

  def voltages(self, params):
    """`[S, n, B]` voltages of all nodes for each stimulus."""
    state = dendrites.init_state(self.net, params, batch=self.config.stimuli)
    far = self.net.cells[0].node('dend', 0.9)
    recording, _ = dendrites.simulate(
      self.net,
      params,
      state,
      [dendrites.Injection([0, far], self.currents)],
      self.config.t_max,
      self.config.dt,
      record=range(self.net.n),
    )
    return recording.v

  def loss(self, free):
    """Mean squared difference of the voltages over 100 mV^2."""
    v = self.voltages(self.assemble(free))
    return jnp.mean(jnp.square(v - self.target)) / 100

  def start(self):
    """Free numbers of each seed, drawn over the middle of the bounds."""
    keys = jnp.stack(
      [key_of(self.config.seed, s) for s in range(self.config.seeds)]
    )
    free = {
      name: jax.vmap(
        lambda key, i=i, x=x: (
          x
          + self.config.spread
          * jax.random.uniform(jax.random.fold_in(key, i), x.shape, minval=-1.0)
        )
      )(keys)
      for i, (name, x) in enumerate(self.free.items())
    }
    return free, jax.vmap(self.optimizer.init)(free)

  def _updates(self, free, opt):
    def one(carry, _):
      free, opt = carry
      loss, slope = jax.value_and_grad(self.loss)(free)
      change, opt = self.optimizer.update(slope, opt)
      free = optax.apply_updates(free, change)
      return (free, opt), (loss, self.errors(free))

    def many(free, opt):
      return jax.lax.scan(one, (free, opt), length=self.config.block)

    return jax.vmap(many)(free, opt)

  def errors(self, free):
    """`[6]` relative errors of the conductances."""
    rows = []
    for name, rule in self.rules.items():
      value = rule.transform.forward(free[name])[0]
      truth = rule.transform.forward(self.free[name])[0]
      rows.append(value / truth - 1)
    return jnp.stack(rows)

  def advance(self, free, opt):
    """One block of updates, as arrays to keep."""
    (free, opt), (losses, errors) = self.block(free, opt)
    leaves = jax.tree.leaves((free, opt))
    return {
      'losses': np.asarray(losses).T,
      'errors': np.moveaxis(np.asarray(errors), 0, 1),
      **{f'leaf-{i:02d}': np.asarray(x) for i, x in enumerate(leaves)},
    }

  def restore(self, found):
    """The state that `advance` kept."""
    structure = jax.tree.structure(self.start())
    leaves = [found[key] for key in sorted(found) if key.startswith('leaf-')]
    return jax.tree.unflatten(structure, [jnp.asarray(x) for x in leaves])


def _currents(config) -> jax.Array:
  """`[T, 2, B]` currents into soma and dendrite that jump now and then, nA."""
  steps = round(config.t_max / config.dt)
  hold = round(config.hold / config.dt)
  shape = (-(-steps // hold), 2, config.stimuli)
  levels = jax.random.normal(key_of(config.seed, 'currents'), shape)
  series = jnp.repeat(levels, hold, axis=0)[:steps]
  return series * jnp.asarray(config.amplitudes)[:, None]


def _record(config, workdir, fit, losses, errors, free) -> None:
  names = [name.rpartition(':')[0].partition('/')[2] for name in fit.rules]
  final = errors[-1]
  workdir.save_table(
    'conductances',
    [
      {
        'conductance': name,
        'largest error at the start (%)': float(
          100 * np.abs(errors[0][:, i]).max()
        ),
        'largest error at the end (%)': float(100 * np.abs(final[:, i]).max()),
      }
      for i, name in enumerate(names)
    ],
    f'{config.seeds} random starts, {config.updates} updates.',
  )
  falls = losses[0] / losses[-1]
  workdir.save_figure(
    'loss',
    plots.slopes(
      np.arange(1, len(losses) + 1),
      {f'start {s + 1}': losses[:, s] for s in range(losses.shape[1])},
      xlabel='update',
      ylabel='mean squared error / (10 mV)^2',
    ),
    'Loss of every start.',
  )
  first = {name: x[0] for name, x in free.items()}
  found = np.asarray(jax.jit(fit.voltages)(fit.assemble(first)))
  t = np.arange(len(found)) * config.dt
  workdir.save_figure(
    'traces',
    plots.traces(
      t,
      {
        'target': np.asarray(fit.target)[:, 0, -1],
        'fitted': found[:, 0, -1],
      },
    ),
    'Soma under the last stimulus: the target, and the first fit.',
  )
  workdir.add_claim(
    evidence.mean_claim(
      'The loss falls a hundredfold',
      np.log10(falls),
      threshold=2.0,
      sense='>',
      unit='log10',
      source=_SOURCE,
    )
  )
  workdir.add_claim(
    evidence.mean_claim(
      'All six conductances end within 5 % of the truth',
      100 * np.abs(final).max(axis=1),
      threshold=5.0,
      sense='<',
      unit='%',
      source=_SOURCE,
      note='largest of the six errors',
    )
  )
  workdir.headline('median fall of the loss', float(np.median(falls)), unit='x')
  early = np.abs(errors[: min(200, len(errors))][-1]).max(axis=1)
  workdir.headline(
    'starts within 5 % after 200 updates',
    100 * float((early < 0.05).mean()),
    unit='%',
  )
