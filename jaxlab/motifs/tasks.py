"""Tasks for recurrent networks, by name.

task = tasks.make('context_dependent_integration', dt_ms=20)
trials = task.sample(key, batch=64)   # inputs [T, B, I], targets, mask
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp

from jaxlab.errors import UserError
from jaxlab.motifs import tasks_memory, tasks_series, tasks_timing
from jaxlab.motifs.tasks_decision import DESIGNS, decision_sampler
from jaxlab.motifs.tasks_timeline import (
  Duration,
  Timeline,
  make_timeline,
  period_steps,
)
from jaxlab.motifs.tasks_types import Task, Trials, task_loss

__all__ = [
  'TASKS',
  'Task',
  'Trials',
  'make',
  'period_steps',
  'task_loss',
]

# Periods, and the constructor of the sampler, of tasks without a single choice.
_OTHERS: dict[str, tuple[Mapping[str, Duration], Callable[..., Any]]] = {
  'interval_production': (
    tasks_timing.INTERVAL_PERIODS,
    tasks_timing.interval_production,
  ),
  'ready_set_go': (
    tasks_timing.READY_SET_GO_PERIODS,
    tasks_timing.ready_set_go,
  ),
  'copy': (tasks_memory.COPY_PERIODS, tasks_memory.copy_memory),
  'adding': (tasks_memory.ADDING_PERIODS, tasks_memory.adding),
  'flip_flop': (tasks_memory.FLIP_FLOP_PERIODS, tasks_memory.flip_flop),
  'mackey_glass': (tasks_series.SERIES_PERIODS, tasks_series.forecast),
  'lorenz': (tasks_series.SERIES_PERIODS, tasks_series.forecast),
}
TASKS = (*DESIGNS, *_OTHERS, 'sequential_digits')
_KINDS = {
  'interval_production': 'moment',
  'ready_set_go': 'moment',
  'adding': 'value',
  'flip_flop': 'value',
  'mackey_glass': 'value',
  'lorenz': 'value',
}
_ALIASES = {
  'multi_sensory_integration': 'multisensory_integration',
  'copy_memory': 'copy',
  'adding_problem': 'adding',
  'gonogo': 'go_no_go',
}


def make(
  name: str,
  *,
  dt_ms: float = 20,
  periods_ms: Mapping[str, Duration] | None = None,
  max_steps: int | None = None,
  noise: float | None = None,
  **options: Any,
) -> Task:
  """Builds a task.

  Args:
    name: one of `TASKS`.
    dt_ms: length of a step, ms.
    periods_ms: lengths of some periods, ms: a number, or a (low, high) pair
      from which each trial draws; the others keep their defaults.
    max_steps: T; None is what the longest trial needs. Shorter trials end in
      padding, with mask 0.
    noise: standard deviation of the stimulus noise times sqrt(ms), so that a
      step has `noise / sqrt(dt_ms)`; 0 turns it off, None is the default.
    **options: what the task's own constructor takes, such as `coherences`;
      `images`, `labels` and `order` ('row' or 'pixel') for digits.

  Returns:
    The task.

  Raises:
    UserError: for an unknown name, period or option, or lengths that cannot
      be.
  """
  name = name.lower().replace('-', '_').replace(' ', '_')
  name = _ALIASES.get(name, name)
  if name not in TASKS:
    raise UserError(f'unknown task {name!r}; choose one of {", ".join(TASKS)}')
  if noise is not None and not noise >= 0:
    raise UserError(f'noise must be 0 or more, got {noise}')
  if name == 'sequential_digits':
    return _make_digits(dt_ms, periods_ms, max_steps, noise or 0.0, **options)
  if name in DESIGNS:
    _check_options(name, DESIGNS[name], options)
    design = DESIGNS[name](**options)
    timeline = make_timeline(design.periods, periods_ms, dt_ms, max_steps)
    noise = design.noise if noise is None else noise
    return _task(
      name,
      timeline,
      1 + len(design.noisy),
      1 + design.num_choices,
      decision_sampler(design, timeline, noise),
    )
  periods, constructor = _OTHERS[name]
  _check_options(name, constructor, options)
  timeline = make_timeline(periods, periods_ms, dt_ms, max_steps)
  if constructor is tasks_series.forecast:
    options = {**options, 'system': name}
  sampler = constructor(timeline, noise or 0.0, **options)
  sizes = _sizes(name, options)
  return _task(name, timeline, *sizes, sampler)


def _sizes(name: str, options: Mapping[str, Any]) -> tuple[int, int]:
  """Inputs and outputs of a task that is not a single choice."""
  symbols = options.get('num_symbols', 8)
  bits = options.get('num_bits', 3)
  return {
    'interval_production': (1 + len(options.get('intervals', (0, 0))), 2),
    'ready_set_go': (3, 2),
    'copy': (1 + symbols, 1 + symbols),
    'adding': (2, 1),
    'flip_flop': (bits, bits),
    'mackey_glass': (1, 1),
    'lorenz': (3, 3),
  }[name]


def _task(
  name: str,
  timeline: Timeline,
  num_inputs: int,
  num_outputs: int,
  sampler: Callable[..., Trials],
) -> Task:
  steps = {
    period: period_steps(high, timeline.dt_ms)
    for period, high in zip(timeline.names, timeline.high, strict=True)
  }
  return Task(
    name=name,
    num_inputs=num_inputs,
    num_outputs=num_outputs,
    num_steps=timeline.num_steps,
    steps=steps,
    kind=_KINDS.get(name, 'choice'),
    sampler=sampler,
  )


def _make_digits(
  dt_ms: float,
  periods_ms: Mapping[str, Duration] | None,
  max_steps: int | None,
  noise: float,
  *,
  images: Any = None,
  labels: Any = None,
  order: str = 'row',
) -> Task:
  """The length of a trial is that of an image."""
  tasks_series.check_digits(images, labels)
  if periods_ms is not None or max_steps is not None:
    raise UserError(
      'sequential_digits takes its length from the images; leave periods_ms '
      'and max_steps out'
    )
  if order not in ('row', 'pixel'):
    raise UserError(f"order must be 'row' or 'pixel', got {order!r}")
  _, height, width = jnp.shape(images)
  by_row = order == 'row'
  return Task(
    name='sequential_digits',
    num_inputs=width if by_row else 1,
    num_outputs=2 + int(jnp.max(jnp.asarray(labels))),
    num_steps=height if by_row else height * width,
    steps={},
    kind='choice',
    sampler=tasks_series.sequential_digits(
      images, labels, noise, dt_ms, order=order
    ),
  )


def _check_options(
  name: str, constructor: Callable[..., Any], options: Mapping[str, Any]
) -> None:
  known = [
    parameter.name
    for parameter in inspect.signature(constructor).parameters.values()
    if parameter.kind is parameter.KEYWORD_ONLY and parameter.name != 'system'
  ]
  unknown = sorted(set(options) - set(known))
  if unknown:
    raise UserError(
      f'task {name!r} has no option {unknown[0]!r}; it has '
      f'{", ".join(known) or "none"}'
    )
