"""What a motif does in the long run: one point, several, a cycle, or chaos.

From each start the flow is followed for a burn-in and then through two windows
of equal length:

- it rests if it has become slow, or still swings ever less, and Newton's
  method leads to a stable fixed point near by;
- it cycles if it crosses the mean of the first window at least twice during
  the second, with an amplitude that is not small, and the largest exponent is
  0 over whole cycles; an amplitude that shrinks must do so around a fixed
  point that repels;
- it is chaotic if that exponent is positive over the first window and over
  both, and exceeds its standard error three times.

Slow decay is none of the last two: it shrinks towards a point that attracts.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlab.motifs import fixed_points, models
from jaxlab.motifs.lyapunov import NUM_BATCHES, decided_sign
from jaxlab.motifs.models import MotifParams, as_float

REGIMES = ('fixed', 'multistable', 'oscillating', 'chaotic', 'undecided')
FIXED, MULTISTABLE, OSCILLATING, CHAOTIC, UNDECIDED = range(5)
MAX_UNROLLED = 4


class RegimeConfig(NamedTuple):
  """How long and how finely to look; static.

  Attributes:
    n_starts: initial states.
    dt: step of the Runge-Kutta method, in the unit of tau.
    burn_in: time before the first window.
    window: time of each of the two windows.
    activation: name of phi.
    rest_speed: largest |dx/dt| of a state that rests.
    rest_distance: largest distance to the fixed point that it rests at.
    min_amplitude: smallest amplitude (half of maximum - minimum) of a cycle.
    max_shrinkage: share of its amplitude that a cycle may lose from the first
      window to the second.
    cycle_exponent: largest modulus of the first exponent of a cycle.
    chaos_exponent: smallest first exponent of chaos.
  """

  n_starts: int = 6
  dt: float = 0.05
  burn_in: float = 300.0
  window: float = 150.0
  activation: str = 'tanh'
  rest_speed: float = 1e-3
  rest_distance: float = 0.5
  min_amplitude: float = 0.05
  max_shrinkage: float = 0.05
  cycle_exponent: float = 0.01
  chaos_exponent: float = 0.02


DEFAULT_CONFIG = RegimeConfig()


class Regime(NamedTuple):
  """The regime of a network and what each start led to.

  Attributes:
    regime: int32 index into `REGIMES`.
    num_fixed: int32 number of distinct fixed points that starts came to rest
      at.
    kind: `[K]` int32 what each start did: `FIXED`, `OSCILLATING`, `CHAOTIC` or
      `UNDECIDED`.
    points: `[K, n]` fixed points, nan where the start did not come to rest.
    first: `[K]` bool; marks the distinct ones among `points`.
    eigenvalues: `[K, n]` complex eigenvalues there.
    period: `[K]` mean time between upward crossings of the mean, nan for all
      but cycles.
    amplitude: `[K]` half of maximum - minimum of the unit that swings most.
    exponent: `[K]` largest Lyapunov exponent over both windows; over whole
      cycles for a cycle.
    standard_error: `[K]` standard error of the largest exponent.
  """

  regime: jax.Array
  num_fixed: jax.Array
  kind: jax.Array
  points: jax.Array
  first: jax.Array
  eigenvalues: jax.Array
  period: jax.Array
  amplitude: jax.Array
  exponent: jax.Array
  standard_error: jax.Array


class _Window(NamedTuple):
  """What a window of a trajectory shows; `growth` is that of a tangent."""

  mean: Any
  low: Any
  high: Any
  growth: jax.Array  # [NUM_BATCHES // 2] log growth in each part
  crossings: jax.Array
  first_time: jax.Array
  last_time: jax.Array
  first_growth: jax.Array
  last_growth: jax.Array


def classify_regime(
  key: jax.Array, params: MotifParams, cfg: RegimeConfig = DEFAULT_CONFIG
) -> Regime:
  """The regime of one network; vmap for many.

  Args:
    key: PRNG key of the starts.
    params: the network.
    cfg: horizons and thresholds, static.

  Returns:
    The regime: chaotic or oscillating if any start is, else undecided if any
    start is, else by the number of distinct fixed points.

  Raises:
    UserError: if a `tau` is not positive or `cfg.dt` exceeds half of it.
  """
  models.check_time_constants(params.tau, cfg.dt)
  W = as_float(params.W)
  n = W.shape[0]
  params = MotifParams(
    W,
    jnp.broadcast_to(jnp.asarray(params.b, W.dtype), (n,)),
    jnp.broadcast_to(jnp.asarray(params.tau, W.dtype), (n,)),
  )
  starts = fixed_points.random_starts(key, params, cfg.n_starts)
  return settle(params, starts, cfg)


def settle(
  params: MotifParams, starts: jax.Array, cfg: RegimeConfig = DEFAULT_CONFIG
) -> Regime:
  """The regime of one network from given starts `[K, n]`."""
  states, before, after = jax.vmap(lambda x: _follow(params, x, cfg))(starts)
  amplitudes = [jnp.max(w.high - w.low, axis=-1) / 2 for w in (before, after)]
  amplitude = amplitudes[1]
  shrinks = amplitude < (1 - cfg.max_shrinkage) * amplitudes[0]
  growth = jnp.concatenate([before.growth, after.growth], axis=-1)
  rates = growth / (2 * cfg.window / growth.shape[-1])
  exponent = jnp.mean(rates, axis=-1)
  standard_error = jnp.std(rates, axis=-1, ddof=1) / rates.shape[-1] ** 0.5

  swings = (after.crossings >= 2) & (amplitude > cfg.min_amplitude)
  elapsed = after.last_time - after.first_time
  elapsed = jnp.where(swings, elapsed, 1)
  whole = (after.last_growth - after.first_growth) / elapsed
  half = jnp.sum(before.growth, axis=-1) / cfg.window
  chaotic = (half > cfg.chaos_exponent) & (exponent > cfg.chaos_exponent)
  chaotic &= decided_sign(exponent, standard_error) > 0

  near = _fixed_points_near(
    params, jnp.where(swings[:, None], after.mean, states), cfg
  )
  rests = near.stable & (shrinks | _is_slow(params, states, cfg))
  repels = near.found & (jnp.max(near.eigenvalues.real, axis=-1) > 0)
  cycles = swings & (~shrinks | repels)
  cycles &= jnp.abs(whole) < cfg.cycle_exponent
  cycles &= jnp.abs(exponent) < cfg.chaos_exponent
  kind = jnp.select(
    [rests, cycles, chaotic], [FIXED, OSCILLATING, CHAOTIC], UNDECIDED
  ).astype(jnp.int32)
  cycles = kind == OSCILLATING
  first = fixed_points.first_of_each(near.points, rests)
  return Regime(
    regime=_overall(kind, first),
    num_fixed=jnp.sum(first, dtype=jnp.int32),
    kind=kind,
    points=jnp.where(rests[:, None], near.points, jnp.nan),
    first=first,
    eigenvalues=near.eigenvalues,
    period=jnp.where(
      cycles, elapsed / jnp.maximum(after.crossings - 1, 1), jnp.nan
    ),
    amplitude=amplitude,
    exponent=jnp.where(cycles, whole, exponent),
    standard_error=standard_error,
  )


def regime_shares(regime: jax.Array, axis: int = -1) -> jax.Array:
  """Share of each of the `REGIMES` along an axis, which becomes the last."""
  one_hot = jax.nn.one_hot(regime, len(REGIMES))
  return jnp.mean(one_hot, axis=axis - 1 if axis < 0 else axis)


def _overall(kind: jax.Array, first: jax.Array) -> jax.Array:
  return jnp.select(
    [
      jnp.any(kind == CHAOTIC),
      jnp.any(kind == OSCILLATING),
      jnp.any(kind == UNDECIDED),
      jnp.sum(first) > 1,
    ],
    [CHAOTIC, OSCILLATING, UNDECIDED, MULTISTABLE],
    FIXED,
  ).astype(jnp.int32)


def _is_slow(params, states, cfg):
  """Whether the velocity at each of `[K, n]` states is next to nothing."""
  speed = jax.vmap(lambda x: models.flow(params, x, activation=cfg.activation))(
    states
  )
  return jnp.max(jnp.abs(speed), axis=-1) < cfg.rest_speed


def _fixed_points_near(params, states, cfg):
  """Where Newton's method leads from `[K, n]`, if that is near by."""
  points, found = jax.vmap(
    lambda x: fixed_points.newton(params, x, activation=cfg.activation)
  )(states)
  found &= jnp.max(jnp.abs(points - states), axis=-1) < cfg.rest_distance
  return fixed_points.describe(params, points, found, activation=cfg.activation)


def _split(x: jax.Array) -> list[jax.Array]:
  """A state as one array a unit if it has few units, else as one array.

  Across draws and starts each array is then long and contiguous, and a step is
  a few passes over such arrays instead of many tiny matrix products.
  """
  return list(x) if x.shape[0] <= MAX_UNROLLED else [x]


def _join(parts: list[jax.Array]) -> jax.Array:
  return parts[0] if parts[0].ndim else jnp.stack(parts)


def _dot(a: list[jax.Array], b: list[jax.Array]) -> jax.Array:
  return sum((jnp.sum(x * y) for x, y in zip(a, b, strict=True)), jnp.zeros(()))


def _step(params: MotifParams, cfg: RegimeConfig):
  """A step of the flow on what `_split` returns."""
  W, b, tau = (jnp.asarray(x) for x in params[:3])
  n = W.shape[0]
  phi = models.activation_fn(cfg.activation)

  def whole(parts):
    return [models.flow(params, parts[0], activation=cfg.activation)]

  def unit_by_unit(parts):
    rates = [phi(x) for x in parts]
    drives = [
      sum((W[j, i] * rates[i] for i in range(n)), b[j]) for j in range(n)
    ]
    return [(drives[j] - parts[j]) / tau[j] for j in range(n)]

  velocity = unit_by_unit if n <= MAX_UNROLLED else whole
  return lambda parts: models.rk4_step(velocity, parts, cfg.dt)


def _normalized(v: list[jax.Array]) -> tuple[list[jax.Array], jax.Array]:
  length = jnp.sqrt(_dot(v, v)) + jnp.finfo(v[0].dtype).tiny
  return [part / length for part in v], length


def _follow(params, x, cfg):
  """Burn-in and two windows of the trajectory from `x` `[n]`."""
  step = _step(params, cfg)
  # The exponent needs a tangent that has turned into its direction: spend the
  # last quarter of the burn-in on that.
  steps = round(cfg.burn_in / cfg.dt)
  turning = steps // 4
  x, v = _split(x), _normalized(_split(jnp.ones_like(x)))[0]
  x = jax.lax.fori_loop(0, steps - turning, lambda _, x: step(x), x)

  def turn(_, carry):
    x, v = jax.jvp(step, (carry[0],), (carry[1],))
    return x, _normalized(v)[0]

  x, v = jax.lax.fori_loop(0, turning, turn, (x, v))
  level = [jnp.zeros_like(part) for part in x]
  x, v, before = _observe(step, x, v, level, level, cfg)
  swing = jnp.argmax(before.high - before.low)
  watch = jax.nn.one_hot(swing, before.high.shape[0], dtype=before.high.dtype)
  x, v, after = _observe(step, x, v, _split(before.mean), _split(watch), cfg)
  return _join(x), before, after


def _observe(step, x, v, level, watch, cfg):
  """Follows a state and a tangent through one window.

  Upward crossings of `level` are counted in the unit that `watch` selects.
  """
  parts = NUM_BATCHES // 2
  per_part = round(cfg.window / cfg.dt / parts)
  zero = jnp.zeros((), x[0].dtype)
  gap_to_level = _dot(watch, level)

  def advance(i, carry):
    x, v, total, w = carry
    # Without the barrier each use of y below would compute the step again.
    y, v = jax.lax.optimization_barrier(jax.jvp(step, (x,), (v,)))
    v, length = _normalized(v)
    total = total + jnp.log(length)
    gap, next_gap = (_dot(watch, z) - gap_to_level for z in (x, y))
    up = (gap < 0) & (next_gap >= 0)
    part = gap / jnp.where(up, gap - next_gap, 1)
    at = (i + part) * cfg.dt
    opening = up & (w.crossings == 0)
    w = w._replace(
      mean=jax.tree.map(jnp.add, w.mean, y),
      low=jax.tree.map(jnp.minimum, w.low, y),
      high=jax.tree.map(jnp.maximum, w.high, y),
      crossings=w.crossings + up,
      first_time=jnp.where(opening, at, w.first_time),
      last_time=jnp.where(up, at, w.last_time),
      first_growth=jnp.where(opening, total, w.first_growth),
      last_growth=jnp.where(up, total, w.last_growth),
    )
    return y, v, total, w

  def part_of_window(carry, part):
    start = part * per_part
    before = carry[2]
    carry = jax.lax.fori_loop(start, start + per_part, advance, carry)
    return carry, carry[2] - before

  nothing = [jnp.zeros_like(part) for part in x]
  count = jnp.zeros((), jnp.int32)
  window = _Window(nothing, x, x, zero, count, zero, zero, zero, zero)
  (x, v, _, window), growth = jax.lax.scan(
    part_of_window, (x, v, zero, window), jnp.arange(parts)
  )
  return (
    x,
    v,
    window._replace(
      mean=_join(window.mean) / (parts * per_part),
      low=_join(window.low),
      high=_join(window.high),
      growth=growth,
    ),
  )
