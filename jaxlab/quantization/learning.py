"""Reconstruction of a network, block by block, from the quantized prefix."""

import dataclasses
import functools
import math

import jax.numpy as jnp

from jaxlab import errors
from jaxlab.quantization import (
  compensation,
  dfsc,
  fisher,
  losses,
  network,
  objectives,
  operators,
  sites,
)
from jaxlab.quantization.blocks import (
  LayerRun,
  SiteRun,
  low,
  recorded,
  relative,
  site_error,
  with_acts,
)
from jaxlab.quantization.methods import PTQMethod
from jaxlab.quantization.reports import BlockReport
from jaxlab.quantization.work import Work

HELD_OUT = 64  # inputs that choose between losses
_PIECES = 3  # as many as SHARP-Q has with its two refreshes


def learned(work: Work, states, progress) -> tuple[list, list[BlockReport]]:
  """Reconstruction, block by block, inputs from the quantized prefix."""
  x_q = x_float = work.calib
  reports = []
  energies = _energies(work)
  states = list(states)
  for i, group in enumerate(work.plan.sites):
    run = SiteRun(work.plan.blocks[i], group)
    data = (x_q, x_float, work.floats[i])
    before = dfsc.outputs(run, work.params[i], states[i], x_q)
    report = BlockReport(error_before=relative(before, work.floats[i]))
    if any(map(low, group)) and work.recipe.learn != 'none':
      states[i], report = _learned(work, i, run, states[i], data, report)
    if work.recipe.comp_rank:
      states[i] = _compensated(work, i, run, states[i], data, energies[i])
    x_q = dfsc.outputs(run, work.params[i], states[i], x_q)
    x_float = work.floats[i]
    report = dataclasses.replace(
      report, error_after=relative(x_q, work.floats[i])
    )
    reports.append(report)
    if progress is not None:
      progress(i + 1, len(work.plan.sites))
  return states, reports


def _learned(work: Work, i, run, states, data, report):
  recipe = work.recipe
  if recipe.learn == 'layer':
    states, history = _layers(work, i, run, states, data)
    return states, report.with_history(history, 'mse')
  chosen = recipe
  if recipe.loss == 'select':
    chosen = selected(work, i, run, states, data)
  states, history = reconstruct(work, i, run, states, data, chosen)
  return states, report.with_history(history, chosen.loss, chosen.ridge)


def reconstruct(work: Work, i, run, states, data, recipe, steps=None):
  """Learns one block by a recipe."""
  soft = dataclasses.replace(run, soft=True)
  objective_fn = losses.objective_fn(
    work.plan, work.params, i, run, states, data, recipe, work.key_of(3, i)
  )
  learn = functools.partial(
    dfsc.reconstruct_block,
    run,
    work.params[i],
    data=data,
    objective_fn=objective_fn,
    steps=steps or recipe.steps,
    batch=recipe.batch,
    pieces=_PIECES,
    soft_fn=soft,
  )
  key = work.key_of(4, i)
  if not recipe.acts_after:
    return learn(
      states, key=key, hyper=recipe.rates, refreshes=recipe.refreshes
    )
  weights, history = learn(
    with_acts(states, False), key=key, hyper=recipe.rates._replace(steps=0.0)
  )
  only_steps = recipe.rates._replace(rounding=0.0, penalty=0.0)
  states, _ = learn(
    with_acts(weights, True), key=work.key_of(5, i), hyper=only_steps
  )
  return states, history


def _layers(work: Work, i, run, states, data):
  """Learns the rounding of each layer from its own inputs in float."""
  _, seen = recorded(run, work.params[i], data[1])
  states, history = dict(states), None
  for j, site in enumerate(run.sites):
    if not (site.linear and low(site)) or site.groups > 1:
      continue
    index = sites.sample_places(
      site,
      seen[site.name]['input'].shape,
      network.MOST_ROWS,
      work.key_of(6, i, j),
    )
    rows = operators.patches(site, seen[site.name]['input'], index)
    rows = rows.reshape(len(rows), -1)
    weights, bias = seen[site.name]['weights'], seen[site.name]['bias']
    target = rows @ weights + bias
    layer = LayerRun(site.rows, site.columns, site.w_bits)
    alone = with_acts({'': states[site.name]}, False)
    act = operators.at_places(alone[''].act, jnp.zeros(1, int))
    act = act._replace(
      scale=act.scale.reshape(()), offset=act.offset.reshape(())
    )
    alone[''] = alone['']._replace(
      transform=operators.identity(layer.site, rows.dtype), act=act
    )
    learned, history = dfsc.reconstruct_block(
      layer,
      (),
      alone,
      (rows, rows, target),
      functools.partial(_squared_error, target),
      work.key_of(7, i, j),
      hyper=work.recipe.rates._replace(steps=0.0, drop=0.0),
      steps=work.recipe.steps,
      batch=8 * work.recipe.batch,
      soft_fn=dataclasses.replace(layer, soft=True),
    )
    states[site.name] = states[site.name]._replace(
      soft=learned[''].soft, bias=learned[''].bias
    )
  return states, history


def _energies(work: Work):
  """What errors at places and columns cost, for the compensation."""
  if not work.recipe.comp_rank:
    return [{}] * len(work.plan.sites)
  return network.energies(
    work.plan,
    work.params,
    work.calib,
    work.key_of(8),
    probes=work.recipe.probes,
  )


def _compensated(work: Work, i, run, states, data, energies):
  """Adds the low-rank correction of each low-bit layer, in turn.

  Rows are weighted by the Fisher energy of their place and the square of what
  the layer multiplies them with, columns by their Fisher energy.
  """
  states = dict(states)
  rank = work.recipe.comp_rank
  for j, site in enumerate(run.sites):
    if not (site.linear and low(site)) or site.groups > 1:
      continue
    if rank > min(site.rows, site.columns):
      raise errors.UserError(
        f'comp_rank = {rank} is more than min(K, N) of site {site.name!r}, '
        f'{min(site.rows, site.columns)}; give less.'
      )
    # The key of the energies: it chooses the same places.
    x, y, size = site_error(
      run, work.params[i], states, data, site, work.key_of(8, i, j)
    )
    omega, gamma = energies[site.name]
    first, second = compensation.compensate_low_rank(
      x, y, omega * size**2, gamma, rank
    )
    states[site.name] = states[site.name]._replace(first=first, second=second)
  return states


def _squared_error(z, _):
  return objectives.squared_error(z)


def selected(work, index: int, run, states, data) -> PTQMethod:
  """The loss that serves inputs best that it was not learned from.

  Tries the Fisher forms with several ridges, and the squared error, with a
  quarter of the updates, on all but `HELD_OUT` inputs.
  """
  recipe = work.recipe
  count = len(data[2]) - HELD_OUT
  if count < HELD_OUT:
    return dataclasses.replace(recipe, loss='channel')
  seen = tuple(x[:count] for x in data)
  held = tuple(x[count:] for x in data)
  options = [dataclasses.replace(recipe, loss='mse', refreshes=0)]
  options += [
    dataclasses.replace(recipe, loss=loss, ridge=ridge)
    for loss in ('channel', 'sample')
    for ridge in (0.02, 0.3, 1.0, 4.0)
  ]

  def divergence(option):
    changed, _ = reconstruct(
      work, index, run, states, seen, option, steps=max(1, recipe.steps // 4)
    )
    y = dfsc.outputs(run, work.params[index], changed, held[0])
    rest = network.rest_of(work.plan, index, work.params)
    found = float(jnp.mean(fisher.kl_divergence(rest(held[2]), rest(y))))
    return found if math.isfinite(found) else math.inf

  return min(options, key=divergence)
