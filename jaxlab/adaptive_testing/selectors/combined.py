"""Rules made of rules."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxlab.adaptive_testing.types import Selector
from jaxlab.errors import UserError


@functools.cache
def averaged(selector: Selector) -> Selector:
  """The mean score of several trainings of a learned rule.

  Args:
    selector: a rule whose parameters are a dictionary with `network`. Those of
      the new rule are the same, with one more axis in front of `network`: see
      `stack_networks`.
  """

  def init(key, bank):
    return stack_networks([selector.init(key, bank)])

  def score(params, key, bank, state):
    def member(network):
      return selector.score({**params, 'network': network}, key, bank, state)

    return jnp.mean(jax.vmap(member)(params['network']), axis=0)

  return Selector(init, score, f'{selector.name}_averaged')


def stack_networks(trained: Sequence[dict[str, Any]]) -> dict[str, Any]:
  """Parameters for `averaged`, from trainings on the same bank.

  Raises:
    UserError: for no training.
  """
  if not trained:
    raise UserError('trained is empty: give the parameters of a training.')
  networks = [params['network'] for params in trained]
  stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *networks)
  return {**trained[0], 'network': stacked}


@functools.cache
def in_turn(first: Selector, then: Selector, switch: int) -> Selector:
  """One rule for the first items, another one for the rest.

  Its parameters are those of both, in a tuple.

  Args:
    first: the rule for the first items.
    then: the rule for the rest.
    switch: number of items that the first one chooses.
  """

  def init(key, bank):
    keys = jax.random.split(key)
    return first.init(keys[0], bank), then.init(keys[1], bank)

  def score(params, key, bank, state):
    early = jnp.sum(state.asked, axis=-1, keepdims=True) < switch
    scores = (
      rule.score(own, key, bank, state)
      for rule, own in zip((first, then), params, strict=True)
    )
    return jnp.where(early, *scores)

  return Selector(init, score, f'{first.name}_then_{then.name}')
