"""Control of exposure by a probability of asking for each item.

Source: Sympson & Hetter, Controlling Item-Exposure Rates in Computerized
Adaptive Testing, Proceedings of the Military Testing Association, 1985.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.adaptive_testing.simulate import run_cat
from jaxlab.adaptive_testing.ties import first_best
from jaxlab.adaptive_testing.types import Bank, CatState, Selector


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SympsonHetter:
  """Asks an item that was taken with a probability of its own.

  An item that is turned down is not asked in this test, unless nothing else is
  left. Each item is tried once at most, so that its coin may be tossed before
  the test.

  Attributes:
    chance: `[n]` probabilities of asking an item that was taken; from
      `calibrate_chance`.
  """

  chance: ArrayLike

  def choose(
    self, key: jax.Array, scores: jax.Array, state: CatState
  ) -> jax.Array:
    admitted = jax.random.uniform(key, scores.shape) < jnp.asarray(self.chance)
    # Without an admitted item left, the scores of all decide.
    admitted |= ~jnp.any(admitted & (scores > -jnp.inf), axis=-1, keepdims=True)
    return first_best(jnp.where(admitted, scores, -jnp.inf))


def calibrate_chance(
  selector: Selector,
  params: Any,
  bank: Bank,
  true_theta: ArrayLike,
  *,
  test_length: int,
  key: jax.Array,
  max_rate: ArrayLike,
  iterations: int = 20,
  **options: Any,
) -> tuple[jax.Array, jax.Array]:
  """Probabilities with which no item is asked too often.

  In each iteration all examinees are tested. An item that the rule takes in a
  share s of the tests is asked with probability `max_rate / s` from then on,
  if that is below 1. At least T items keep the probability 1, so that a test
  can be filled.

  Args:
    selector: the rule.
    params: of the rule; None for those of `selector.init`.
    bank: of n items.
    true_theta: `[E, *latent]` abilities of the population.
    test_length: T.
    key: a PRNG key.
    max_rate: largest share of the tests that an item may be in; must be above
      `T / n`.
    iterations: number of rounds.
    **options: of `run_cat`.

  Returns:
    `[n]` probabilities for `SympsonHetter`, and `[iterations]` the largest
    share of the tests that an item was in, under the probabilities before.
  """

  def improve(chance, round_key):
    trace = run_cat(
      *(selector, params, bank),
      true_theta=true_theta,
      test_length=test_length,
      key=round_key,
      exposure=SympsonHetter(chance),
      **options,
    )
    asked = jnp.mean(trace.asked, axis=0, dtype=chance.dtype)
    # An item is asked when it is taken and its coin, independent, says so.
    taken = asked / chance
    new = jnp.where(taken > max_rate, max_rate / taken, 1)
    largest = jax.lax.top_k(new, test_length)[1]
    return new.at[largest].set(1), jnp.max(asked)

  keys = jax.random.split(key, iterations)
  return jax.lax.scan(improve, jnp.ones(bank.num_items), keys)
