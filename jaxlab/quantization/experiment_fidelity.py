"""Which quadratic form foresees what an error does to the output?

A block alone is rounded to nearest. Each form predicts the loss of every
held-out picture; Spearman's coefficient compares that with the divergence of
the output.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.harness.claims import Claim
from jaxlab.harness.evidence import mean_claim, with_interval
from jaxlab.harness.progress import track
from jaxlab.harness.settings import check_names, check_positive, key_of
from jaxlab.quantization import experiment_claims as claims
from jaxlab.quantization import experiment_networks as networks
from jaxlab.quantization import (
  experiment_spectrum,
  export,
  fisher,
  losses,
  network,
  plots,
  ptq,
)
from jaxlab.quantization.blocks import low
from jaxlab.quantization.experiment_cells import Bench, check_bits, spec_of

PATH = 'path Fisher, exact'
PATH_PROBES = 'path Fisher, 6 probes'
DIAGONALS = ('squared gradient', 'Fisher diagonal')
FORMS = (
  *('squared error', *DIAGONALS, 'Fisher, 6 probes', 'Fisher, exact'),
  *(PATH_PROBES, PATH),
)
_PROBES, _ALL_CLASSES = 6, 1 << 30
_AHEAD = 0.15


def run(config, workdir) -> None:
  """Correlates predictions with divergences, block by block."""
  check_names(config, 'networks', tuple(networks.NETWORKS))
  check_bits(config)
  check_positive(config, 'calibration', 'seeds', 'test_pictures')
  bench = Bench(config, workdir)
  cells = [
    (name, bits, seed)
    for name in config.networks
    for bits in config.bits
    for seed in range(config.seeds)
  ]
  found = {
    cell: workdir.cached(
      f'{cell[0]}/{cell[1]}/fidelity-{cell[2]}',
      functools.partial(_unit, config, bench, *cell),
    )
    for cell in track(cells, 'predictions')
  }
  _record(workdir, found)
  _record_spectra(config, workdir, bench)


def _unit(config, bench: Bench, name: str, bits: str, seed: int):
  """Predictions `[blocks, forms, n]` and divergences `[blocks, n]`."""
  trained = bench.trained(name, 0)
  calibration, held_out = networks.draw(
    bench.pictures(name), seed, config.calibration
  )
  model, _ = ptq.quantize_model(
    trained.chain.blocks(),
    trained.params,
    calibration,
    spec_of(bits),
    'rtn_mse',
  )
  plan, owned = network.make_plan(
    trained.chain.blocks(), trained.params, calibration[:2], spec_of(bits)
  )
  outputs = [held_out, *network.outputs(plan, owned, held_out)]
  # Without the sites, so that all bit-widths share compiled programs.
  bare = network.Plan(plan.blocks, ((),) * len(plan.blocks))
  found: dict[str, list[Any]] = {'blocks': [], 'predicted': [], 'true': []}
  for i, group in enumerate(plan.sites):
    if not any(low(site) for site in group):
      continue
    alone = export.QuantModel(
      model.sites[i : i + 1],
      model.params[i : i + 1],
      network.Plan(plan.blocks[i : i + 1], plan.sites[i : i + 1]),
    )
    z, now = outputs[i + 1], export.apply(alone, outputs[i])
    key = key_of(config.seed, 'fidelity', seed, i)
    predicted, true = _predictions(bare, i, owned, z, now, key)
    found['blocks'].append(i)
    found['predicted'].append(predicted)
    found['true'].append(true)
  return {key: np.stack(value) for key, value in found.items()}


def _predictions(plan, index, params, z, now, key):
  """`[forms, n]` predictions for errors `now - z`, and `[n]` divergences."""
  first, second = jax.random.split(key)

  def factors(at, key, exact):
    return network.factors(
      plan, index, params, at, key, probes=_PROBES, exact=exact
    )

  exact, exact_now = (factors(at, key, _ALL_CLASSES) for at in (z, now))
  few, few_now = factors(z, first, 0), factors(now, second, 0)
  slope = losses.pseudo_label_gradient(plan, index, params, z)
  rest = network.rest_of(plan, index, params)
  return _judged(
    now - z, exact, exact_now, few, few_now, slope
  ), fisher.kl_divergence(rest(z), rest(now))


@jax.jit
def _judged(error, exact, exact_now, few, few_now, slope):
  axes = tuple(range(1, error.ndim))
  square = error**2
  form = fisher.quadratic_form
  return jnp.stack(
    [
      jnp.sum(square, axes),
      jnp.sum(square * slope**2, axes),
      jnp.sum(square * jnp.sum(exact**2, axis=1), axes),
      form(few, error),
      form(exact, error),
      form(fisher.path_fisher(few, few_now), error),
      form(fisher.path_fisher(exact, exact_now), error),
    ]
  )


def _record(workdir, found) -> None:
  ranks: dict[tuple[str, str, int], list[np.ndarray]] = {}
  for (name, bits, seed), each in found.items():
    true = each['true'][:, None]
    rank = np.asarray(
      fisher.fidelity(each['predicted'], true + 0 * each['predicted'])
    )
    for place, block in enumerate(each['blocks']):
      ranks.setdefault((name, bits, int(block)), []).append(rank[place])
      if not seed and not place:
        _save_scatter(workdir, name, bits, int(block), each, rank[place])
  rows = []
  for (name, bits, block), values in ranks.items():
    row = {'network': name, 'bits': bits, 'block': block}
    for form, column in zip(FORMS, np.transpose(values), strict=True):
      row |= with_interval(form, column)
    rows.append(row)
  workdir.save_table(
    'fidelity',
    rows,
    "Spearman's coefficient of predicted and true divergence over held-out "
    'pictures, with the error of one block rounded to nearest; mean over '
    'seeds with 95 % t interval.',
  )
  for claim in _claims(ranks):
    workdir.add_claim(claim)


def _save_scatter(workdir, name, bits, block, each, rank) -> None:
  workdir.save_figure(
    f'fidelity-{name}-{bits}',
    plots.fidelity_scatter(
      each['true'][0],
      dict(zip(FORMS, each['predicted'][0], strict=True)),
      dict(zip(FORMS, rank.tolist(), strict=True)),
      title=f'{name} {bits}, block {block}',
    ),
    "Predicted and true divergence of single pictures, with Spearman's "
    'coefficient; first seed.',
  )


def _claims(ranks):
  for bits in dict.fromkeys(key[1] for key in ranks):
    for path in (PATH, PATH_PROBES):
      parts = []
      for (name, width, block), values in ranks.items():
        if width != bits:
          continue
        by_form = dict(zip(FORMS, np.transpose(values), strict=True))
        parts += [
          mean_claim(
            f'{name} block {block} against the {diagonal}',
            by_form[path] - by_form[diagonal],
            threshold=_AHEAD,
            sense='>',
            source=claims.PAPER,
          )
          for diagonal in DIAGONALS
        ]
      yield Claim.all_of(
        f'{bits}: the {path} foresees losses better than diagonal forms on '
        f'every block, by {_AHEAD} in rank correlation',
        claims.PAPER,
        parts,
      )


def _record_spectra(config, workdir, bench: Bench) -> None:
  """The Fisher matrix of inputs before and after the chosen transforms."""
  rows, curves = [], {}
  for name in config.networks:

    def compute(name=name):
      return _spectra(config, bench, name)

    for site, pair in workdir.cached(f'{name}/spectra', compute).items():
      curves[f'{name} {site}'] = pair
      rows.append(
        {
          'network': name,
          'site': site,
          'directions': pair.shape[1],
          **{
            f'share of {count}, {when}': float(np.sum(values[:count]))
            for count in (1, 4, 16)
            for when, values in zip(('before', 'after'), pair, strict=True)
          },
        }
      )
  workdir.save_table(
    'spectra',
    rows,
    'Share of the trace of the Fisher matrix of the (unfolded) input of each '
    'site that its first directions hold, before and after the transform '
    'chosen at the least of the bit-widths. A rotation changes nothing here.',
  )
  workdir.save_figure(
    'spectra',
    plots.spectra({k: tuple(v) for k, v in curves.items()}),
    'Cumulated eigenvalues of the Fisher matrix of the input of each site.',
  )


def _spectra(config, bench: Bench, name: str):
  trained = bench.trained(name, 0)
  calibration, _ = networks.draw(bench.pictures(name), 0, config.calibration)
  model, _ = ptq.quantize_model(
    trained.chain.blocks(),
    trained.params,
    calibration,
    spec_of(min(config.bits)),
    'har_only',
    key_of(config.seed, 'spectra'),
  )
  _, owned = network.make_plan(
    trained.chain.blocks(),
    trained.params,
    calibration[:2],
    spec_of(min(config.bits)),
  )
  return experiment_spectrum.of_inputs(model, owned, calibration)
