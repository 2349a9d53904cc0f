"""Post-training quantization of a whole network."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab import errors
from jaxlab.quantization import (
  export,
  learning,
  methods,
  network,
  rectification,
  sites,
)
from jaxlab.quantization.baselines import METHODS
from jaxlab.quantization.methods import PTQMethod
from jaxlab.quantization.reports import PTQReport
from jaxlab.quantization.types import Linear, QuantSpec, bare
from jaxlab.quantization.work import Work

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
  notes += _left_out(plan, owned, [calib, *floats])
  _check_logits(floats[-1], recipe, params, calib, model_fn)
  work = Work(plan, owned, recipe, calib, floats, audit, key)
  states, site_reports = rectification.rectified(work)
  plain = [{n: bare(s) for n, s in group.items()} for group in states]
  plain, block_reports = learning.learned(work, plain, progress)
  model = export.pack_model(plan, owned, _with_levels(plain, states))
  report = _report(work, model, plain, site_reports, block_reports, notes)
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


def _left_out(plan, owned, inputs) -> list[str]:
  """A note for each layer that stays in float."""
  return [
    f'{i}/{name} stays in float: only Dense, Conv and Operand are quantized'
    for i, (block, own) in enumerate(zip(plan.blocks, owned, strict=True))
    for name in sites.left_out(block, own, inputs[i])
  ]


def _with_levels(states, started):
  """States with the codebooks that their weights started with."""
  return [
    {
      name: s._replace(levels=old[name].levels) if isinstance(s, Linear) else s
      for name, s in group.items()
    }
    for group, old in zip(states, started, strict=True)
  ]


def _report(work: Work, model, states, site_reports, block_reports, notes):
  """Everything of the report that needs the whole network."""
  audit = work.audited
  states = network.activated(states, True)
  half = len(work.calib) // 2
  parts = (work.calib, work.floats[-1])
  # The same shapes as while transforms are chosen: one program.
  seen = np.mean(
    [
      float(network.mean_kl(work.plan, work.params, states, *pair))
      for pair in zip(*((x[:half], x[-half:]) for x in parts), strict=True)
    ]
  )
  unseen = math.nan
  if audit is not None:
    unseen = float(network.mean_kl(work.plan, work.params, states, *audit))
  for report in block_reports:
    if report.diverged:
      notes = [*notes, 'a block diverged and was left as it started']
  return PTQReport.of(
    work.recipe.name,
    model,
    work.params,
    site_reports,
    block_reports,
    (float(seen), unseen),
    notes,
  )
