"""Are trained networks of some motifs more robust, or more flexible?"""

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab import data
from jaxlab.harness.claims import Claim
from jaxlab.harness.progress import Progress
from jaxlab.motifs import experiment_records as records
from jaxlab.motifs import experiment_simplex_dynamics as simplex
from jaxlab.motifs import (
  flexibility,
  perturbations,
  plots,
  scores,
  tasks,
  train,
)
from jaxlab.motifs.rnn import MotifRNN, num_trainable

# Mixture -> shares of the layers, and the law of the signs.
MIXTURES = {
  'layer 1': simplex.Case((1.0, 0.0, 0.0), 'free'),
  'layer 2': simplex.Case((0.0, 1.0, 0.0), 'positive pairs'),
  'layer 3': simplex.Case((0.0, 0.0, 1.0), 'negative loops'),
  'mixture': simplex.Case((1 / 3, 1 / 3, 1 / 3), 'free'),
}
PERTURBATIONS = {
  'input_noise': perturbations.input_noise,
  'recurrent_noise': perturbations.recurrent_noise,
  'weight_noise': perturbations.weight_noise,
  'unit_lesions': perturbations.unit_lesions,
  'edge_lesions': perturbations.edge_lesions,
  'input_dropout': perturbations.input_dropout,
}
MEASURES = ('clean', 'robustness', 'switch', 'retention')


def run(config, workdir) -> None:
  """Trains each mixture and its controls on a task, then on another one."""
  _check(config)
  experiment = functools.cache(lambda: _experiment(config))
  found = []
  with Progress('training networks', config.seeds) as progress:
    for seed in range(config.seeds):

      def unit(seed=seed):
        return _unit(config, experiment(), seed)

      found.append(workdir.cached(f'seed-{seed}', unit))
      progress.advance()
  units = {name: np.stack([u[name] for u in found]) for name in found[0]}
  _record(config, workdir, _scored(config, units))


def _check(config) -> None:
  records.check_names(config, 'mixtures', tuple(MIXTURES))
  records.check_names(
    config, 'perturbations', (*PERTURBATIONS, 'adversarial_inputs')
  )
  records.check_positive(
    config,
    *('num_nodes', 'num_edges', 'radius', 'alpha', 'batch', 'steps'),
    *('learning_rate', 'held_out', 'draws', 'switch_updates', 'floor'),
  )
  records.check_seeds(config)


def _digit_tasks(config, split: str) -> tuple[tasks.Task, tasks.Task]:
  """The digits by rows; and by columns, under other labels."""
  digits = data.load('digits', split, train=1200)
  images = jnp.asarray(digits.images).reshape(-1, 8, 8)
  labels = jnp.asarray(digits.labels)
  renamed = jax.random.permutation(records.key_of(config.seed, 'labels'), 10)
  make = functools.partial(tasks.make, 'sequential_digits', order='row')
  return (
    make(images=images, labels=labels),
    make(images=images.swapaxes(1, 2), labels=renamed[labels]),
  )


def _experiment(config):
  """The compiled training and judging of `[P]` networks of a seed."""
  first, second = _digit_tasks(config, 'train')
  held_out = _digit_tasks(config, 'test')
  model: Any = MotifRNN(config.num_nodes, first.num_outputs, alpha=config.alpha)
  apply = perturbations.network_apply(model)
  disturb = _perturbations(config, apply)
  make = functools.partial(
    train.learner,
    model,
    batch=config.batch,
    learning_rate=config.learning_rate,
  )
  (init, learn), (_, relearn) = make(first), make(second)

  def accuracy(task, trials, variables):
    return task.accuracy(model.apply(variables, trials.inputs).outputs, trials)

  def judge(key, state):
    keys = jax.random.split(key, 4)
    old, new = (
      task.sample(k, config.held_out)
      for task, k in zip(held_out, keys[:2], strict=True)
    )
    clean, areas = scores.robustness_areas(
      apply,
      held_out[0].accuracy,
      disturb,
      keys[2],
      state.variables,
      old,
      num_draws=config.draws,
    )
    after, curve = flexibility.learning_curve(
      relearn,
      lambda s: accuracy(held_out[1], new, s.variables),
      init(state.variables),
      keys[3],
      config.switch_updates,
      every=config.switch_updates // 4,
    )
    retention = accuracy(held_out[0], old, after.variables)
    return clean, areas, curve, retention

  def whole(key, A, W):
    init_key, train_key, judge_key = jax.random.split(key, 3)
    inputs = first.sample(init_key, 1).inputs

    def start(A, W):
      return model.init(init_key, inputs, adjacency=A, weights=W)

    variables = jax.vmap(start)(A, W)
    # The same trials and the same noise for all arms of a seed.
    keys = jnp.broadcast_to(train_key, len(A))
    state, losses = train.train_population(
      init, learn, variables, keys, num_steps=config.steps
    )
    judged = jax.vmap(judge, (None, 0))(judge_key, state)
    trained = state.variables['params']['recurrent']
    return *judged, losses[:, -1], trained, jax.vmap(num_trainable)(variables)

  return jax.jit(whole)


def _perturbations(config, apply) -> dict[str, Any]:
  known: Mapping[str, Any] = {
    **PERTURBATIONS,
    'adversarial_inputs': perturbations.adversarial_inputs(apply),
  }
  return {
    name: (known[name], jnp.asarray(strengths))
    for name, strengths in config.perturbations.items()
  }


def _unit(config, experiment, seed: int) -> dict:
  """All scores of a seed, `[mixtures, arms, ...]`."""
  drawn = [
    simplex.networks(config, MIXTURES[name], seed)[0]
    for name in config.mixtures
  ]
  W = config.radius * jnp.concatenate(drawn)
  A = jnp.swapaxes(W, -1, -2) != 0
  key = records.key_of(config.seed, 'training', seed)
  clean, areas, curve, retention, loss, trained, size = experiment(key, A, W)
  facts = [records.network_facts(a, w) for a, w in zip(A, W, strict=True)]
  shape = len(config.mixtures), len(simplex.ARMS)
  values = {
    'clean': clean,
    'areas': areas,
    'curve': curve,
    'retention': retention,
    'loss': loss,
    'parameters': size,
    'off_graph': jnp.sum(jnp.abs(trained) * ~jnp.swapaxes(A, -1, -2), (-2, -1)),
    **{
      name.replace(' ', '_'): [fact[name] for fact in facts]
      for name in facts[0]
    },
  }
  return {
    name: np.asarray(value).reshape(*shape, *np.shape(value)[1:])
    for name, value in values.items()
  }


def _scored(config, units: dict) -> dict[str, np.ndarray]:
  """Scores `[seeds, mixtures, arms]`, nan where a network is untrained."""
  found = scores.make_scores(
    units['clean'],
    floor=config.floor,
    robustness=units['areas'],
    adaptation=units['curve'][..., 1:],
  )
  untrained = np.asarray(found.untrained)
  names = list(config.perturbations)
  areas = np.asarray(found.robustness)
  areas = areas[..., [scores.ROBUSTNESS.index(name) for name in names]]
  return {
    **units,
    'robustness': areas.mean(axis=-1),
    'switch': np.asarray(found.adaptation)[..., -1],
    'retention': np.where(untrained, np.nan, units['retention']),
    'untrained': untrained,
    **{name: areas[..., i] for i, name in enumerate(names)},
  }


def _record(config, workdir, units: dict) -> None:
  names = (*MEASURES, *config.perturbations)
  rows = []
  for m, mixture in enumerate(config.mixtures):
    for a, arm in enumerate(simplex.ARMS):
      row: dict = {'mixture': mixture, 'arm': arm}
      row |= {
        name: float(units[name][:, m, a].mean())
        for name in (
          *('edges', 'weight_rms', 'spectral_radius', 'parameters'),
          *('untrained', 'off_graph', 'loss'),
        )
      }
      for name in names:
        row |= records.with_interval(name, units[name][:, m, a])
      rows.append(row)
  workdir.save_table(
    'scores',
    rows,
    f'Means over {config.seeds} seeds. Robustness is the area under accuracy '
    'relative to clean; switch is the accuracy on the new task after '
    f'{config.switch_updates} updates, retention that on the old one then.',
  )
  compared = {
    (name, control): _compare(config, units[name], control)
    for name in names
    for control in simplex.ARMS[1:]
  }
  workdir.save_table(
    'differences',
    [
      {'score': name, 'mixture': mixture, 'control': control}
      | {f: float(v[m]) for f, v in result._asdict().items()}
      for (name, control), result in compared.items()
      for m, mixture in enumerate(config.mixtures)
    ],
    'Motif network - control, paired by seed: bootstrap intervals, p-values '
    'of a permutation test, and Holm-corrected over the mixtures.',
  )
  workdir.save_figure(
    'plane',
    plots.plane(
      {
        f'{mixture}, {arm}': (
          _ends(units['switch'][:, m, a]),
          _ends(units['robustness'][:, m, a]),
        )
        for m, mixture in enumerate(config.mixtures)
        for a, arm in enumerate(simplex.ARMS)
      },
      xlabel=f'accuracy after {config.switch_updates} updates on a new task',
      ylabel='robustness, area relative to clean',
    ),
    'Robustness against flexibility; 95 % t intervals over seeds.',
  )
  claims = _claims(config, units, compared)
  for claim in claims:
    workdir.add_claim(claim)
  differ = sum(
    float(result.low[m]) > 0 or float(result.high[m]) < 0
    for (name, control), result in compared.items()
    if control == 'degree' and name in ('robustness', 'switch')
    for m in range(len(config.mixtures))
  )
  workdir.headline(
    'differences of robustness or flexibility to the degree-preserving '
    'control whose interval excludes 0',
    differ,
    unit=f'of {2 * len(config.mixtures)}',
  )


def _ends(values: np.ndarray) -> np.ndarray:
  """Mean over seeds and the two ends of its interval."""
  return np.array(list(records.with_interval('x', values).values()))


def _compare(config, values: np.ndarray, control: str) -> scores.Comparison:
  """Of `[seeds, mixtures, arms]` scores, the motif arm against a control."""
  arm, other = (
    values[:, :, simplex.ARMS.index(name)].T for name in ('motifs', control)
  )
  key = records.key_of(config.seed, 'bootstrap')
  return scores.compare_arms(key, arm, other)


def _claims(config, units: dict, compared: dict) -> list[Claim]:
  claims = []
  for name, text in (('robustness', 'robust'), ('switch', 'flexible')):
    found = compared[name, 'degree']
    for m, mixture in enumerate(config.mixtures):
      ends = np.array([found.low[m], found.difference[m], found.high[m]])
      claims.append(
        Claim(
          f'{mixture}: more {text} than the degree-preserving control',
          records.PAPER,
          ends[1],
          ends.min(),
          ends.max(),
          0,
          '>',
          'accuracy' if name == 'switch' else 'relative area',
          f'{int(found.num_pairs[m])} pairs, 95 % bootstrap interval; Holm p '
          f'{float(found.p_holm[m]):.3g}; same edges, weights and radius',
        )
      )
  return [*claims, _trade_off_claim(units)]


def _trade_off_claim(units: dict) -> Claim:
  """That within a seed the flexible networks are the fragile ones."""
  correlation = [
    np.corrcoef(robust.ravel(), flexible.ravel())[0, 1]
    for robust, flexible in zip(
      units['robustness'], units['switch'], strict=True
    )
  ]
  return records.mean_claim(
    'Networks that are more robust are less flexible (correlation over the '
    'arms of a seed)',
    np.array(correlation),
    threshold=0,
    sense='<',
    unit='correlation',
  )
