"""Counter-based random numbers: every draw is a function of (key, counter).

A draw never depends on the shape of the batch it is made in, so a sequential
run, a batched run and a sharded run see the same numbers.
"""

import jax
import jax.numpy as jnp
import numpy as np

_PACKED_ORDER_MAX = 2**14
_FEISTEL_ROUNDS = 6
# The six orders of three things.
_ORDERS = np.array(
  [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]], np.int32
)


def words(key: jax.Array, counter: jax.Array) -> jax.Array:
  """Returns `[2]` uint32 random words for one key and one int32 counter."""
  return jax.random.key_data(jax.random.fold_in(key, counter))[..., :2]


def uniform(key: jax.Array, counter: jax.Array, dtype=jnp.float32) -> jax.Array:
  """Returns one number uniform on the open interval (0, 1)."""
  high, low = words(key, counter)
  if jnp.dtype(dtype) == jnp.float64:
    fraction = (high >> 6).astype(dtype) * 2.0**-26
    return fraction + ((low >> 6).astype(dtype) + 0.5) * 2.0**-52
  return ((high >> 9).astype(dtype) + 0.5) * 2.0**-23


def normal(key: jax.Array, counter: jax.Array, dtype=jnp.float32) -> jax.Array:
  """Returns one standard normal number."""
  centred = 2 * uniform(key, counter, dtype) - 1
  return jnp.sqrt(jnp.asarray(2, dtype)) * jax.lax.erf_inv(centred)


def tie_priorities(key: jax.Array, counter: jax.Array) -> jax.Array:
  """Returns `[3]` int32: a uniformly random order of three candidates."""
  return jnp.asarray(_ORDERS)[words(key, counter)[0] % 6]


def random_order(key: jax.Array, num: int) -> jax.Array:
  """Returns `[num]` int32: a random order of `0 .. num-1`.

  One sort of random words whose low bits carry the index. Where the random
  bits of two items agree, their order comes from a random rotation and
  reflection of the indices, so no index is ever preferred.

  Args:
    key: PRNG key.
    num: how many items, at least 1.
  """
  order_key, turn_key = jax.random.split(key)
  shift = jax.random.randint(turn_key, (), 0, num, jnp.int32)
  mirrored = words(turn_key, 1)[0] & 1
  index = jnp.arange(num, dtype=jnp.uint32)
  bits = jax.random.bits(order_key, (num,), jnp.uint32)
  if num <= _PACKED_ORDER_MAX:
    mask = np.uint32(2 ** max(1, (num - 1).bit_length()) - 1)
    order = (jnp.sort((bits & ~mask) | index) & mask).astype(jnp.int32)
  else:
    order = jnp.argsort(bits).astype(jnp.int32)
  turned = jnp.where(mirrored, num - 1 - order, order) + shift
  return jnp.where(turned >= num, turned - num, turned)


def replay_position(
  key: jax.Array, counter: jax.Array, length: jax.Array
) -> jax.Array:
  """Returns the place of item `counter` in a random order of `length` items.

  A keyed Feistel permutation with cycle walking (Black and Rogaway 2002): for
  one key, counters `0 .. length-1` give each place once, without the order
  being stored.

  Args:
    key: PRNG key: another key is another order.
    counter: int32 in `[0, length)`.
    length: int32 number of items.
  """
  side = jnp.ceil(jnp.sqrt(length.astype(jnp.float32))).astype(jnp.uint32)
  side = jnp.where(side * side < length.astype(jnp.uint32), side + 1, side)
  round_keys = jax.random.bits(key, (_FEISTEL_ROUNDS,), jnp.uint32)

  def permute(place):
    left, right = place // side, place % side
    for i in range(_FEISTEL_ROUNDS):
      left, right = right, (left + _mix(right, round_keys[i])) % side
    return left * side + right

  def outside(place):
    return place >= length.astype(jnp.uint32)

  start = permute(counter.astype(jnp.uint32))
  return jax.lax.while_loop(outside, permute, start).astype(jnp.int32)


def _mix(value: jax.Array, key: jax.Array) -> jax.Array:
  """A 32-bit finaliser (MurmurHash3's constants) keyed by addition."""
  mixed = value * np.uint32(0x9E3779B1) + key
  mixed = (mixed ^ (mixed >> 16)) * np.uint32(0x85EBCA6B)
  mixed = (mixed ^ (mixed >> 13)) * np.uint32(0xC2B2AE35)
  return mixed ^ (mixed >> 16)
