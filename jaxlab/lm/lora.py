"""Low-rank adaptation: `W + s A B` with A and B trained and W frozen.

    base, adapter = init(key, params, cfg)
    logits = lora_apply_fn(model, cfg)({'base': base, 'lora': adapter}, tokens)
    merged = apply(base, adapter, cfg)

Training, with the frozen part as an argument of the compiled function:

    fn = lora_apply_fn(model, cfg)

    @jax.jit
    def step(state, base, batch):
      return sft.make_sft_step(bind(fn, base), tx)(state, batch)

    state, metrics = step(updates.init_state(adapter, tx), base, batch)

Hu et al., LoRA, 2022; the scale of rsLoRA: Kalajdzievski, 2023.
"""

import dataclasses
import fnmatch
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlab.lm.model import ApplyFn

# Every matrix of the blocks; never the embedding or the head.
TARGETS = tuple(
  f'layers/{name}/kernel' for name in ('q', 'k', 'v', 'o', 'gate', 'up', 'down')
)

Initializer = Callable[
  [jax.Array, jax.Array, 'LoRAConfig'], tuple[jax.Array, jax.Array, jax.Array]
]


@dataclasses.dataclass(frozen=True)
class LoRAConfig:
  """Where adapters are, and how large.

  Attributes:
    r: rank.
    alpha: the scale is `alpha / r`; None is `r`, a scale of 1.
    rslora: whether the scale is `alpha / sqrt(r)` instead.
    targets: patterns of paths such as 'layers/q/kernel'.
    dtype: of the adapters.
  """

  r: int = 16
  alpha: float | None = None
  rslora: bool = False
  targets: tuple[str, ...] = TARGETS
  dtype: Any = jnp.float32

  def __post_init__(self) -> None:
    """Checks the numbers.

    Raises:
      ValueError: if one is not positive.
    """
    if self.r < 1:
      raise ValueError(f'r must be positive, got {self.r}.')
    if self.alpha is not None and not 0 < self.alpha < math.inf:
      raise ValueError(f'alpha must be positive, got {self.alpha}.')

  @property
  def scale(self) -> float:
    """The factor s of `A B`."""
    alpha = self.r if self.alpha is None else self.alpha
    return alpha / (math.sqrt(self.r) if self.rslora else self.r)


class LoRAParams(NamedTuple):
  """The adapters; both trees have the structure of the adapted kernels.

  Attributes:
    a: leaves `[..., k, r]`.
    b: leaves `[..., r, d]`.
  """

  a: Any
  b: Any


def kaiming(
  key: jax.Array, kernel: jax.Array, cfg: LoRAConfig
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """The start of plain LoRA: A uniform in `±1/sqrt(k)`, B zero.

  Args:
    key: PRNG key.
    kernel: `[k, d]`.
    cfg: sizes.

  Returns:
    `[k, d]` base, `[k, r]` A and `[r, d]` B, with `base + s A B = kernel`.
  """
  inputs, outputs = kernel.shape
  bound = 1 / math.sqrt(inputs)
  a = jax.random.uniform(key, (inputs, cfg.r), cfg.dtype, -bound, bound)
  return kernel, a, jnp.zeros((cfg.r, outputs), cfg.dtype)


def init(
  key: jax.Array,
  params: Any,
  cfg: LoRAConfig,
  initializer: Initializer = kaiming,
) -> tuple[Any, LoRAParams]:
  """Adds adapters to the kernels of a model.

  Args:
    key: PRNG key; each kernel's depends on its path alone.
    params: of the model.
    cfg: which kernels.
    initializer: `(key, kernel, cfg) -> (base, a, b)` of one `[k, d]` kernel;
      mapped over the blocks of stacked ones.

  Returns:
    The frozen parameters, and the adapters.

  Raises:
    ValueError: if no path fits `targets`, a kernel is no matrix of floats, or
      `r` is larger than one of its sides.
  """
  kernels = dict(_targeted(params, cfg.targets))
  base: Any = params
  a: Any = {}
  b: Any = {}
  for path, kernel in kernels.items():
    _check_kernel(path, kernel, cfg)
    own = jax.random.fold_in(key, zlib.crc32(path.encode()))
    frozen, down, up = _mapped(initializer, cfg, own, kernel)
    base = _with(base, path, frozen)
    a, b = _with(a, path, down), _with(b, path, up)
  return base, LoRAParams(a, b)


def _mapped(
  initializer: Initializer, cfg: LoRAConfig, key: jax.Array, kernel: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Initialises a kernel, or all of a stack `[L, k, d]`."""
  if kernel.ndim == 2:
    return initializer(key, kernel, cfg)
  keys = jax.random.split(key, kernel.shape[0])
  return jax.vmap(lambda key, one: _mapped(initializer, cfg, key, one))(
    keys, kernel
  )


def apply(base: Any, lora: LoRAParams, cfg: LoRAConfig) -> Any:
  """Returns the merged parameters `W + s A B`, in the dtype of W.

  Args:
    base: frozen parameters.
    lora: adapters of them.
    cfg: as for `init`.

  Raises:
    ValueError: if the adapters are of another model.
  """
  return _add(base, lora, cfg, 1)


merge = apply


def unmerge(params: Any, lora: LoRAParams, cfg: LoRAConfig) -> Any:
  """Returns the frozen parameters of merged ones, up to rounding."""
  return _add(params, lora, cfg, -1)


def lora_dot(
  x: jax.Array, kernel: jax.Array, a: jax.Array, b: jax.Array, scale: float
) -> jax.Array:
  """Returns `x W + s (x A) B` without forming `A B`.

  Args:
    x: `[..., k]`.
    kernel: `[k, d]`.
    a: `[k, r]`.
    b: `[r, d]`.
    scale: the factor s.
  """
  return x @ kernel + ((x @ a.astype(x.dtype)) * scale) @ b.astype(x.dtype)


@dataclasses.dataclass(frozen=True)
class LoRAApplyFn(ApplyFn):
  """A decoder with adapters, of `{'base': params, 'lora': LoRAParams}`.

  Attributes:
    cfg: as for `init`.
  """

  cfg: LoRAConfig

  def variables(self, params: Any) -> Mapping[str, Any]:
    """Returns the collections of the module: adapters beside kernels.

    Raises:
      ValueError: if there is an adapter that the module does not read.
    """
    adapters: dict[str, Any] = {}
    if not isinstance(params, Mapping) or set(params) != {'base', 'lora'}:
      raise ValueError(
        "an adapted model takes {'base': params, 'lora': LoRAParams}."
      )
    found = _checked(params['base'], params['lora'], self.cfg)
    for path, (down, up) in found.items():
      place = path.removesuffix('/kernel')
      if place == path:
        raise ValueError(
          f'the decoder reads no adapter of {path!r}; merge it with apply.'
        )
      adapters = _with(adapters, f'{place}/a', down)
      adapters = _with(adapters, f'{place}/b', up * self.cfg.scale)
    return {'params': params['base'], 'lora': adapters}


def lora_apply_fn(model: Any, cfg: LoRAConfig) -> LoRAApplyFn:
  """Returns the function of ({'base', 'lora'}, tokens) of an adapted model."""
  return LoRAApplyFn(model, cfg)


def bind(fn: LoRAApplyFn, base: Any) -> Callable[..., Any]:
  """Returns the function of (adapters, tokens) with the frozen part fixed.

  Inside `jit` let `base` be an argument of the jitted function: else the whole
  model becomes a constant of the program, which is slow to compile.

  Args:
    fn: the adapted model.
    base: its frozen parameters.
  """
  return lambda lora, tokens, **options: fn(
    {'base': base, 'lora': lora}, tokens, **options
  )


def trainable_mask(params: Any) -> Any:
  """Returns which leaves of `{'base', 'lora'}` learn, for `optax.masked`."""
  return {
    'base': jax.tree.map(lambda _: False, params['base']),
    'lora': jax.tree.map(lambda _: True, params['lora']),
  }


def num_params(lora: LoRAParams) -> int:
  """Returns the number of trained numbers."""
  return sum(x.size for x in jax.tree.leaves(lora))


def _add(params: Any, lora: LoRAParams, cfg: LoRAConfig, sign: int) -> Any:
  kernels = dict(_leaves(params))
  for path, (down, up) in _checked(params, lora, cfg).items():
    kernel = kernels[path]
    wide = jnp.promote_types(kernel.dtype, jnp.float32)
    product = sign * cfg.scale * (down.astype(wide) @ up.astype(wide))
    params = _with(params, path, (kernel + product).astype(kernel.dtype))
  return params


def _checked(
  params: Any, lora: LoRAParams, cfg: LoRAConfig
) -> dict[str, tuple[jax.Array, jax.Array]]:
  """Returns the adapters by path.

  Raises:
    ValueError: if they are of another model or rank.
  """
  kernels = dict(_leaves(params))
  downs, ups = dict(_leaves(lora.a)), dict(_leaves(lora.b))
  for path in {**downs, **ups}:
    parts = (kernels.get(path), downs.get(path), ups.get(path))
    shapes = [None if part is None else tuple(part.shape) for part in parts]
    whole, down, up = shapes
    fits = (
      whole is not None
      and down == (*whole[:-1], cfg.r)
      and up == (*whole[:-2], cfg.r, whole[-1])
    )
    if not fits:
      raise ValueError(
        f'the adapter of {path} has shapes {down} and {up}, the parameters'
        f' {whole}, and r is {cfg.r}: it belongs to another model or config.'
      )
  return {path: (downs[path], ups[path]) for path in downs}


def _targeted(
  params: Any, targets: Sequence[str]
) -> Iterator[tuple[str, jax.Array]]:
  leaves = dict(_leaves(params))
  if isinstance(targets, str) or not targets:
    raise ValueError(f'targets must be a tuple of patterns, got {targets!r}.')
  for target in targets:
    fitting = fnmatch.filter(leaves, target)
    if not fitting:
      raise ValueError(
        f'no parameter fits target {target!r}; there are {", ".join(leaves)}.'
      )
    yield from ((path, leaves[path]) for path in fitting)


def _check_kernel(path: str, kernel: jax.Array, cfg: LoRAConfig) -> None:
  vector = path.endswith(('scale', 'bias'))
  if (
    vector or kernel.ndim < 2 or not jnp.issubdtype(kernel.dtype, jnp.floating)
  ):
    raise ValueError(
      f'{path} is {kernel.dtype}{list(kernel.shape)}; adapters need a matrix of'
      ' floats: leave it out of targets, or dequantise first.'
    )
  smaller = min(kernel.shape[-2:])
  if cfg.r > smaller:
    raise ValueError(
      f'r={cfg.r} is larger than {smaller}, a side of {path} of shape'
      f' {list(kernel.shape)}.'
    )


def _leaves(tree: Any) -> Iterator[tuple[str, Any]]:
  for path, leaf in jax.tree.leaves_with_path(tree):
    yield jax.tree_util.keystr(path, simple=True, separator='/'), leaf


def _with(tree: Any, path: str, leaf: Any) -> Any:
  """Returns a copy of nested mappings with one leaf set."""
  first, _, rest = path.partition('/')
  inside = leaf if not rest else _with(tree.get(first, {}), rest, leaf)
  return {**tree, first: inside}
