"""The start of a quantization: transforms, grids and nearest rounding."""

import jax
import jax.numpy as jnp

from jaxlab.quantization import fit, har, network, operators
from jaxlab.quantization.blocks import SiteRun, low, recorded
from jaxlab.quantization.reports import SiteReport
from jaxlab.quantization.types import States
from jaxlab.quantization.work import Work


def rectified(work: Work) -> tuple[list[States], dict[str, SiteReport]]:
  """Grids, transforms and nearest rounding of all sites."""
  recipe, plan = work.recipe, work.plan
  chooses = recipe.transform == 'har'
  half = len(work.calib) // 2 if chooses else len(work.calib)
  key = work.key_of(0)
  data = network.collect(plan, work.params, work.calib[:half], key)
  weighted = 'hessian' in recipe.rule.weights or recipe.rule.acts in (
    'weighted',
    'twin',
  )
  if weighted:
    found = network.energies(
      plan, work.params, work.calib[:half], key, probes=recipe.probes
    )
    for group, energy in zip(data, found, strict=True):
      for name, (omega, gamma) in energy.items():
        group[name] = group[name]._replace(omega=omega, gamma=gamma)
  states: list[States] = [{} for _ in plan.sites]
  tried = {}
  reports = {}
  for i, site, path in plan.named():
    known = data[i][site.name]
    reports[path] = SiteReport.of(site)
    if chooses and site.linear and low(site):
      names = har.names_of(site, by_token=recipe.token_scale == 'dynamic')
      tried[path] = har.fit_candidates(
        site, names, known, recipe.rule, work.key_of(1, i)
      )
      states[i][site.name] = har.untouched(tried[path].states)
    else:
      states[i][site.name] = _fitted(work, site, known)
  judged = work.calib[half:], work.floats[-1][half:]
  audit = work.audited
  chosen = [dict(group) for group in states]
  for i, site, path in plan.named():
    if path not in tried:
      continue
    chosen[i][site.name], choice = har.choose(
      plan,
      work.params,
      i,
      site,
      data[i][site.name],
      tried[path],
      states,
      judged,
      audit,
      score=recipe.score,
    )
    reports[path] = reports[path].with_choice(choice, site)
  states = network.activated(chosen, None)
  if recipe.token_scale == 'static':
    states = _by_position(work, states, data)
  return states, reports


def _by_position(work: Work, states, data) -> list[States]:
  """States whose dense layers have steps for each position of a token."""
  inputs = [work.calib, *work.floats[:-1]]
  found = []
  for i, group in enumerate(work.plan.sites):
    run = SiteRun(work.plan.blocks[i], group)
    _, seen = recorded(run, work.params[i], inputs[i])
    changed = dict(states[i])
    for site in group:
      x = seen[site.name]['input']
      if site.kind == 'dense' and low(site) and x.ndim == 3:
        changed[site.name] = fit.by_position(
          site, work.recipe.rule, data[i][site.name], states[i][site.name], x
        )
    found.append(changed)
  return found


def _fitted(work: Work, site, data: network.SiteData):
  rule = work.recipe.rule
  if not site.linear:
    return fit.fit_operand(site.shape, rule, data.values)
  transform = operators.identity(site, data.values.dtype)
  if low(site):
    transform = _fixed_transform(work, site, data, transform)
  return fit.fit_linear(site.shape, rule, fit.Seen(*data), transform)


def _fixed_transform(work: Work, site, data, identity):
  kind = work.recipe.transform
  rows = data.values
  if kind == 'smooth':
    scale = har.channel_scales(site, rows, data.weights, 0.5, 'max')
    return identity._replace(scale=scale)
  if kind == 'hadamard' and site.groups == 1 and not site.channels % 2:
    signs = jax.random.rademacher(work.key_of(2), (site.channels,), rows.dtype)
    return identity._replace(signs=signs, rotate=jnp.ones((), bool))
  if kind == 'range' and site.kind == 'dense':
    high, low_end = jnp.max(rows, axis=(0, 1)), jnp.min(rows, axis=(0, 1))
    spread = jnp.maximum(high - low_end, operators.TINY)
    return identity._replace(
      shift=(high + low_end) / 2, scale=spread / jnp.mean(spread)
    )
  return identity
