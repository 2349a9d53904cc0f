"""Post-training quantization of a whole network."""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab import errors
from jaxlab.quantization import (
  compensation,
  dfsc,
  export,
  fisher,
  fit,
  har,
  losses,
  methods,
  network,
  operators,
  sites,
)
from jaxlab.quantization.baselines import METHODS
from jaxlab.quantization.methods import PTQMethod
from jaxlab.quantization.network import Plan
from jaxlab.quantization.reports import BlockReport, PTQReport, SiteReport
from jaxlab.quantization.types import Linear, QuantSpec, States

_FEWEST, _FEW = 16, 64
_COMPOSES = 1e-4


def quantize_model(
  apply_blocks: Sequence[sites.Block],
  params: Any,
  calib: jax.Array,
  spec: QuantSpec,
  method: str | PTQMethod = 'sharp',
  key: jax.Array | None = None,
  *,
  model_fn: Callable[[Any, jax.Array], jax.Array] | None = None,
  audit: jax.Array | None = None,
  progress: Callable[[int, int], None] | None = None,
) -> tuple[export.QuantModel, PTQReport]:
  """Quantizes a trained network without labels.

  Args:
    apply_blocks: functions `(params, x) -> y` whose chain is the network, such
      as `Chain.blocks()`; flax layers in them are found by themselves.
    params: of all blocks. Batch norms are to be folded.
    calib: `[n, ...]` inputs, 128 to 1,024 as a rule.
    spec: bit-widths.
    method: a name of `METHODS`, or a recipe.
    key: of batches, drops, probes and signs; by default that of seed 0.
    model_fn: `(params, x) -> logits` of the whole network, to check that the
      blocks compose to it.
    audit: further inputs, only to report the divergence of the output on what
      was not used.
    progress: called with (blocks done, blocks).

  Returns:
    The packed network and a report of plain numbers.

  Raises:
    UserError: what does not fit, by the name of the argument.
  """
  recipe = methods.resolve(method, METHODS)
  key = jax.random.key(0) if key is None else key
  calib, notes = _checked_inputs(calib)
  _check_folded(params)
  plan, owned = network.make_plan(apply_blocks, params, calib[:2], spec)
  floats = network.outputs(plan, owned, calib)
  _check_logits(floats[-1], recipe, params, calib, model_fn)
  work = _Work(plan, owned, recipe, calib, floats, audit, key)
  states, site_reports = work.start()
  states, block_reports = work.learn(states, progress)
  model = export.pack_model(plan, owned, states)
  report = work.report(model, states, site_reports, block_reports, notes)
  return model, report


def _checked_inputs(calib: Any) -> tuple[jax.Array, list[str]]:
  calib = jnp.asarray(calib)
  if calib.ndim < 2 or len(calib) < _FEWEST:
    raise errors.UserError(
      f'calib has the shape {calib.shape}; give at least {_FEWEST} inputs '
      '[n, ...], better 256.'
    )
  if not bool(jnp.all(jnp.isfinite(calib))):
    raise errors.UserError(
      'calib holds numbers that are not finite; remove those inputs.'
    )
  few = f'calib has only {len(calib)} inputs; 128 or more are better'
  return calib, [few] * (len(calib) < _FEW)


def _check_folded(params: Any) -> None:
  if isinstance(params, dict) and 'batch_stats' in params:
    raise errors.UserError(
      'params hold batch_stats: fold batch norms into convolutions first, as '
      'nets.fold_batch_norm does.'
    )


def _check_logits(logits, recipe, params, calib, model_fn) -> None:
  if logits.ndim != 2:
    raise errors.UserError(
      f'the last of apply_blocks gives the shape {logits.shape}, not '
      '[n, classes].'
    )
  fisher_loss = recipe.learn == 'block' and recipe.loss != 'mse'
  if logits.shape[1] == 1 and fisher_loss:
    raise errors.UserError(
      'the network has one output, whose Fisher information is 0; take a '
      "method with loss='mse', such as 'qdrop'."
    )
  if model_fn is None:
    return
  whole = model_fn(params, calib[:_FEWEST])
  gap = float(jnp.max(jnp.abs(whole - logits[:_FEWEST])))
  if not gap <= _COMPOSES * max(1.0, float(jnp.max(jnp.abs(whole)))):
    raise errors.UserError(
      f'apply_blocks do not compose to model_fn: logits differ by {gap:.3g}; '
      'give the blocks in order, in evaluation mode.'
    )


@dataclasses.dataclass(frozen=True)
class SiteRun:
  """A block with its sites replaced; equal for blocks of equal shape."""

  block: sites.Block
  sites: tuple[Any, ...]
  soft: bool = False

  def __call__(self, params, states: States, x: jax.Array) -> jax.Array:
    return sites.run(self.block, params, x, self.sites, states, soft=self.soft)


def low(site) -> bool:
  """Whether a site has fewer than 8 bits."""
  return site.a_bits < 8 or (site.linear and site.w_bits < 8)


@dataclasses.dataclass
class _Work:
  """One quantization on its way."""

  plan: Plan
  params: tuple[Any, ...]
  recipe: PTQMethod
  calib: jax.Array
  floats: list[jax.Array]
  audit: jax.Array | None
  key: jax.Array

  def key_of(self, *numbers: int) -> jax.Array:
    key = self.key
    for number in numbers:
      key = jax.random.fold_in(key, number)
    return key

  def start(self) -> tuple[list[States], dict[str, SiteReport]]:
    """Grids, transforms and nearest rounding of all sites."""
    recipe, plan = self.recipe, self.plan
    chooses = recipe.transform == 'har'
    half = len(self.calib) // 2 if chooses else len(self.calib)
    key = self.key_of(0)
    data = network.collect(plan, self.params, self.calib[:half], key)
    weighted = 'hessian' in recipe.rule.weights or recipe.rule.acts in (
      'weighted',
      'twin',
    )
    if weighted:
      found = network.energies(
        plan, self.params, self.calib[:half], key, probes=recipe.probes
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
        tried[path] = har.fit_candidates(
          site, known, recipe.rule, self.key_of(1, i)
        )
        states[i][site.name] = har.untouched(tried[path][1])
      else:
        states[i][site.name] = self._fitted(site, known)
    judged = self.calib[half:], self.floats[-1][half:]
    audit = self._audit()
    chosen = [dict(group) for group in states]
    for i, site, path in plan.named():
      if path not in tried:
        continue
      chosen[i][site.name], choice = har.choose(
        plan,
        self.params,
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
    states = chosen
    return network.activated(states, None), reports

  def _audit(self):
    if self.audit is None:
      return None
    logits = network.outputs(self.plan, self.params, self.audit)[-1]
    return self.audit, logits

  def _fitted(self, site, data: network.SiteData):
    rule = self.recipe.rule
    if not site.linear:
      return fit.fit_operand(site.shape, rule, data.values)
    transform = operators.identity(site, data.values.dtype)
    if low(site):
      transform = self._fixed_transform(site, data, transform)
    return fit.fit_linear(site.shape, rule, fit.Seen(*data), transform)

  def _fixed_transform(self, site, data, identity):
    kind = self.recipe.transform
    rows = data.values
    if kind == 'smooth':
      scale = har.channel_scales(site, rows, data.weights, 0.5, 'max')
      return identity._replace(scale=scale)
    if kind == 'hadamard' and site.groups == 1 and not site.channels % 2:
      signs = jax.random.rademacher(
        self.key_of(2), (site.channels,), rows.dtype
      )
      return identity._replace(signs=signs, rotate=jnp.ones((), bool))
    if kind == 'range' and site.kind == 'dense':
      high, low_end = jnp.max(rows, axis=(0, 1)), jnp.min(rows, axis=(0, 1))
      spread = jnp.maximum(high - low_end, operators.TINY)
      return identity._replace(
        shift=(high + low_end) / 2, scale=spread / jnp.mean(spread)
      )
    return identity

  def learn(self, states, progress):
    """Reconstruction, block by block, inputs from the quantized prefix."""
    x_q = x_float = self.calib
    reports = []
    states = list(states)
    for i, group in enumerate(self.plan.sites):
      run = SiteRun(self.plan.blocks[i], group)
      data = (x_q, x_float, self.floats[i])
      before = dfsc.outputs(run, self.params[i], states[i], x_q)
      report = BlockReport(error_before=_relative(before, self.floats[i]))
      if any(map(low, group)) and self.recipe.learn != 'none':
        states[i], report = self._learned(i, run, states[i], data, report)
      if self.recipe.comp_rank:
        states[i] = self._compensated(i, run, states[i], data)
      x_q = dfsc.outputs(run, self.params[i], states[i], x_q)
      x_float = self.floats[i]
      report = dataclasses.replace(
        report, error_after=_relative(x_q, self.floats[i])
      )
      reports.append(report)
      if progress is not None:
        progress(i + 1, len(self.plan.sites))
    return states, reports

  def _learned(self, i, run, states, data, report):
    recipe = self.recipe
    if recipe.learn == 'layer':
      states, history = self._layers(i, run, states, data)
      return states, report.with_history(history, 'mse')
    chosen = recipe
    if recipe.loss == 'select':
      chosen = losses.selected(self, i, run, states, data)
    states, history = self.reconstruct(i, run, states, data, chosen)
    return states, report.with_history(history, chosen.loss, chosen.ridge)

  def reconstruct(self, i, run, states, data, recipe, steps=None):
    """Learns one block by a recipe."""
    soft = dataclasses.replace(run, soft=True)
    objective_fn = losses.objective_fn(
      self.plan, self.params, i, run, states, data, recipe, self.key_of(3, i)
    )
    learn = functools.partial(
      dfsc.reconstruct_block,
      run,
      self.params[i],
      data=data,
      objective_fn=objective_fn,
      steps=steps or recipe.steps,
      batch=recipe.batch,
      soft_fn=soft,
    )
    key = self.key_of(4, i)
    if not recipe.acts_after:
      return learn(
        states, key=key, hyper=recipe.rates, refreshes=recipe.refreshes
      )
    weights, history = learn(
      _acts(states, False), key=key, hyper=recipe.rates._replace(steps=0.0)
    )
    only_steps = recipe.rates._replace(rounding=0.0, penalty=0.0)
    states, _ = learn(
      _acts(weights, True), key=self.key_of(5, i), hyper=only_steps
    )
    return states, history

  def _layers(self, i, run, states, data):
    """Learns the rounding of each layer from its own inputs in float."""
    _, seen = _recorded(run, self.params[i], data[1])
    states, history = dict(states), None
    for j, site in enumerate(run.sites):
      if not (site.linear and low(site)) or site.groups > 1:
        continue
      index = sites.sample_places(
        site,
        seen[site.name]['input'].shape,
        network.MOST_ROWS,
        self.key_of(6, i, j),
      )
      rows = operators.patches(site, seen[site.name]['input'], index)
      rows = rows.reshape(len(rows), -1)
      weights, bias = seen[site.name]['weights'], seen[site.name]['bias']
      target = rows @ weights + bias
      layer = LayerRun(site.rows, site.columns, site.w_bits)
      alone = _acts({'': states[site.name]}, False)
      alone[''] = alone['']._replace(
        transform=operators.identity(layer.site, rows.dtype)
      )
      learned, history = dfsc.reconstruct_block(
        layer,
        (),
        alone,
        (rows, rows, target),
        lambda _, z=target: losses.objectives.squared_error(z),
        self.key_of(7, i, j),
        hyper=self.recipe.rates._replace(steps=0.0, drop=0.0),
        steps=self.recipe.steps,
        batch=8 * self.recipe.batch,
        soft_fn=dataclasses.replace(layer, soft=True),
      )
      states[site.name] = states[site.name]._replace(
        soft=learned[''].soft, bias=learned[''].bias
      )
    return states, history

  def _compensated(self, i, run, states, data):
    """Adds the low-rank correction of each low-bit layer, in turn."""
    states = dict(states)
    rank = self.recipe.comp_rank
    for j, site in enumerate(run.sites):
      if not (site.linear and low(site)) or site.groups > 1:
        continue
      if rank > min(site.rows, site.columns):
        raise errors.UserError(
          f'comp_rank = {rank} is more than min(K, N) of site {site.name!r}, '
          f'{min(site.rows, site.columns)}; give less.'
        )
      x, y, size = _site_error(
        run, self.params[i], states, data, site, self.key_of(8, i, j)
      )
      gamma = jnp.ones(site.columns, x.dtype)
      first, second = compensation.compensate_low_rank(
        x, y, size**2, gamma, rank
      )
      states[site.name] = states[site.name]._replace(first=first, second=second)
    return states

  def report(self, model, states, site_reports, block_reports, notes):
    """Everything of the report that needs the whole network."""
    audit = self._audit()
    states = network.activated(states, True)
    half = len(self.calib) // 2
    parts = (self.calib, self.floats[-1])
    # The same shapes as while transforms are chosen: one program.
    seen = np.mean(
      [
        float(network.mean_kl(self.plan, self.params, states, *pair))
        for pair in zip(*((x[:half], x[-half:]) for x in parts), strict=True)
      ]
    )
    unseen = math.nan
    if audit is not None:
      unseen = float(network.mean_kl(self.plan, self.params, states, *audit))
    for report in block_reports:
      if report.diverged:
        notes = [*notes, 'a block diverged and was left as it started']
    return PTQReport.of(
      self.recipe.name,
      model,
      self.params,
      site_reports,
      block_reports,
      (float(seen), unseen),
      notes,
    )


@dataclasses.dataclass(frozen=True)
class LayerRun:
  """A layer on rows of its input, `[M, K] -> [M, N]`."""

  rows: int
  columns: int
  bits: int
  soft: bool = False

  @property
  def site(self):
    """A dense site of this shape."""
    return operators.Site(
      '', 'dense', self.rows, self.columns, w_bits=self.bits
    )

  def __call__(self, _, states: States, x: jax.Array) -> jax.Array:
    return operators.quantized(self.site, states[''], x, soft=self.soft)


def _acts(states: States, on: bool) -> States:
  """States whose activations are rounded or not."""
  return {
    name: s._replace(act=s.act._replace(on=jnp.asarray(on)))
    for name, s in states.items()
  }


@functools.partial(jax.jit, static_argnames='run')
def _recorded(run: SiteRun, params, x):
  return sites.record(run.block, params, x, run.sites)


def _site_error(run, params, states, data, site, key):
  """Coded inputs `[M, K]` of a site, error of its output over r, and r."""
  x_q, x_float, _ = data
  _, seen = _recorded(run, params, x_float)
  given = _input_of(run, params, states, x_q, site)
  index = sites.sample_places(site, given.shape, network.MOST_ROWS, key)
  state: Linear = states[site.name]
  rows = operators.patches(site, given, index)
  moved, size = operators.transformed(site, state.transform, rows)
  codes = operators.coded(state.act, moved, site.a_bits)
  codes = codes.reshape(len(rows), -1)
  size = jnp.broadcast_to(size, (len(rows), 1, 1))[:, 0, 0]
  exact = operators.patches(site, seen[site.name]['input'], index)
  y = exact.reshape(len(rows), -1) @ seen[site.name]['weights']
  y += seen[site.name]['bias'] - state.bias
  y_hat = codes @ operators.weights_of(state)
  return codes, y / size[:, None] - y_hat, size


def _input_of(run, params, states, x, site):
  """What a site takes in the quantized block."""
  found = {}
  by_name = {s.name: s for s in run.sites}

  def replace(module, name, value, original):
    if name == site.name:
      found['x'] = value
    return sites.replaced(module, by_name[name], states[name], value)

  sites.intercepted(run.block, params, x, replace)
  return found['x']


def _relative(y: jax.Array, exact: jax.Array) -> float:
  """|y - exact|^2 / |exact|^2."""
  return float(_relative_error(y, exact))


@jax.jit
def _relative_error(y, exact):
  tiny = jnp.finfo(y.dtype).tiny
  return jnp.sum((y - exact) ** 2) / jnp.maximum(jnp.sum(exact**2), tiny)
