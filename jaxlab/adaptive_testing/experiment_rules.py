"""The rules of the experiments by name, with how each one is trained."""

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import traverse_util

from jaxlab.adaptive_testing import gpm
from jaxlab.adaptive_testing.experiment_folds import Fold, target_of
from jaxlab.adaptive_testing.gpm import GPMConfig
from jaxlab.adaptive_testing.selectors import (
  SELECTORS,
  bobcat,
  features,
  ncat,
  oracle_selector,
  selector,
  train_bobcat,
  train_ncat,
)
from jaxlab.adaptive_testing.selectors.bank_mlp import bank_mlp
from jaxlab.adaptive_testing.selectors.itemwise import (
  bank_specific,
  itemwise,
  skip_only,
)
from jaxlab.adaptive_testing.types import Selector

GPM = 'gpm'
FULL_SPACE = 'gpm_full_space'
ORACLE = 'oracle'


class Variant(NamedTuple):
  """A training of Gradient Path Matching.

  Attributes:
    about: what is different from the default, in a few words.
    make: returns the rule for a test length.
    settings: of `GPMConfig`.
    residuals: whether the rule gets the residual correlations.
    longer: by how much more steps it is trained.
  """

  about: str
  make: Callable[..., Selector] = itemwise
  settings: Mapping[str, Any] = {}
  residuals: bool = True
  longer: int = 1


def _bank_mlp(*, horizon: int) -> Selector:
  del horizon
  return bank_mlp()


_SAMPLED = {
  'credit': 'straight_through',
  'batch': 64,
  'learning_rate': 2e-3,
}
VARIANTS: dict[str, Variant] = {
  GPM: Variant('the default'),
  'gpm_items': Variant(
    'parts for single items: table, embedding, pairs', bank_specific
  ),
  'gpm_table': Variant(
    'a table of items', functools.partial(itemwise, table=True)
  ),
  'gpm_embedding': Variant(
    'an embedding of items', functools.partial(itemwise, item_embed_dim=4)
  ),
  'gpm_pairs': Variant(
    'pairs of items', functools.partial(itemwise, pair_rank=4)
  ),
  'gpm_mepv_start': Variant(
    'training starts from MEPV', functools.partial(itemwise, start='mepv')
  ),
  'gpm_no_residuals': Variant(
    'no residual correlations; training starts from MEPV',
    functools.partial(itemwise, start='mepv'),
    residuals=False,
  ),
  'gpm_skip': Variant('the skip term alone', skip_only),
  FULL_SPACE: Variant(
    'the same points from -4 to 4 for everybody', settings={'path': 'full'}
  ),
  'gpm_teacher': Variant(
    'Newton steps to the end', settings={'path': 'teacher'}
  ),
  'gpm_student': Variant(
    'steps of the student after the pick', settings={'path': 'student'}
  ),
  'gpm_mean': Variant('mean gradients are matched', settings={'match': 'mean'}),
  'gpm_uniform': Variant(
    'all picks count alike', settings={'weights': 'uniform'}
  ),
  'gpm_straight_through': Variant('straight-through picks', settings=_SAMPLED),
  'gpm_darts': Variant(
    'straight-through picks one step ahead',
    settings={**_SAMPLED, 'darts': True},
  ),
  'gpm_bank_mlp': Variant(
    'a network over the answers to the whole bank', _bank_mlp, residuals=False
  ),
}
ONE_DIMENSION = ('newton_match', 'pool_reduction')
_OTHERS = ('bobcat_reinforce', ORACLE)
RULES = tuple(
  name for name in (*SELECTORS, *VARIANTS, *_OTHERS) if name != 'mkli'
)


class Trained(NamedTuple):
  """A rule for a fold.

  Attributes:
    selector: the rule.
    params: of it.
    loss: `[S]` of its training, empty for a rule that learns nothing.
    seconds: of its training, with compilation where it was the first.
  """

  selector: Selector
  params: Any
  loss: np.ndarray
  seconds: float


def is_learned(name: str) -> bool:
  """Whether training draws random numbers."""
  return name in VARIANTS or name in ('bobcat', 'bobcat_reinforce', 'ncat')


def is_unlearned(name: str) -> bool:
  """Whether a rule needs the bank alone, and no responses."""
  return name in SELECTORS and name != 'pool_reduction' and not is_learned(name)


def train(name: str, fold: Fold, config, key: jax.Array) -> Trained:
  """Trains a rule on the training examinees of a fold.

  Args:
    name: one of `RULES`.
    fold: with the examinees.
    config: `horizon` (T), `rounds`, `steps`, `batch` of the training, and
      `rival_steps` of rules other than GPM.
    key: PRNG key.
  """
  start = time.perf_counter()
  rule, params, loss = _train(name, fold, config, key)
  loss = np.asarray(jax.block_until_ready(loss)).ravel()
  return Trained(rule, params, loss, time.perf_counter() - start)


def _train(name, fold: Fold, config, key):
  nothing = np.zeros(0)
  if name in VARIANTS:
    variant = VARIANTS[name]
    rule = variant.make(horizon=config.horizon)
    cfg = gpm_config(config, variant)
    params, history = gpm.train_gpm(
      *(key, fold.bank, fold.train if fold.fresh is None else fold.fresh, cfg),
      selector=rule,
      mask=fold.train_mask if fold.fresh is None else None,
      residuals=variant.residuals,
    )
    return rule, params, history.loss
  settings: dict[str, Any] = {
    'test_length': config.horizon,
    'available': fold.train_mask,
  }
  if name.startswith('bobcat'):
    form = 'reinforce' if name == 'bobcat_reinforce' else 'straight_through'
    params, loss = train_bobcat(
      *(key, fold.bank, fold.train),
      form=form,
      num_steps=config.rival_steps,
      **settings,
    )
    return bobcat(), params, loss
  if name == 'ncat':
    rounds = max(config.rival_steps // 8, 1)  # of 8 updates each
    params, loss = train_ncat(
      key, fold.bank, fold.train, num_rounds=rounds, **settings
    )
    return ncat(), params, loss
  if name == ORACLE:
    rule = oracle_selector(fold.y, fold.mask)
    return rule, rule.init(key, fold.bank), nothing
  rule = selector(name)
  if name == 'pool_reduction':
    theta = target_of(fold.bank, fold.train, fold.train_mask)
    params = features.residual_correlation(
      fold.bank, fold.train, theta, fold.train_mask
    )
    return rule, params, nothing
  return rule, jax.jit(rule.init)(key, fold.bank), nothing


def gpm_config(config, variant: Variant) -> GPMConfig:
  """Settings of the training of a variant."""
  settings = {
    'test_length': config.horizon,
    'rounds': config.rounds,
    'steps': config.steps * variant.longer,
    'batch': config.batch,
    'num_points': config.get('num_points', 5),
  }
  return GPMConfig(**{**settings, **variant.settings})


def weights(params: Any) -> dict[str, np.ndarray]:
  """The trained network as flat names -> arrays; nothing for other rules."""
  if not isinstance(params, dict) or 'network' not in params:
    return {}
  flat = traverse_util.flatten_dict(params['network'], sep='.')
  return {f'network.{name}': np.asarray(x) for name, x in flat.items()}
