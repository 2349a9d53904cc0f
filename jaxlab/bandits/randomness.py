"""Counter-based random numbers: every draw is a function of (key, counter).

A draw never depends on the shape of the batch it is made in, so a sequential
run, a batched run and a sharded run see the same numbers.
"""

import jax
import jax.numpy as jnp
import numpy as np

# Up to so many items are put into a random order by sorting.
SORTED_ORDER_MAX = 256
_ROUNDS = 6


def words(key: jax.Array, *counters) -> jax.Array:
  """Hashes a key and counters to `[2]` uint32 random words.

  Each counter is absorbed into a state of 64 bits by two rounds of the
  finaliser of MurmurHash3. Against `fold_in` (Threefry) this takes a sixth of
  the operations, at run time and in the compiled program, where rewards are
  drawn at every level of a run.

  Args:
    key: PRNG key.
    *counters: int32 scalars, e.g. an arm and the number of a pull.
  """
  data = jax.random.key_data(key)
  a, b = data[..., 0], data[..., -1]
  for counter in counters:
    step = jnp.asarray(counter).astype(jnp.uint32) * np.uint32(0x9E3779B1)
    a = _finalise(a ^ (step + np.uint32(0x7F4A7C15)))
    b = _finalise(b + a * np.uint32(0x27D4EB2F))
  return jnp.stack([b, _finalise(a + (b << 13 | b >> 19))], -1)


def uniform(key: jax.Array, *counters, dtype=jnp.float32) -> jax.Array:
  """Returns one number uniform on the open interval (0, 1)."""
  bits = words(key, *counters)
  high, low = bits[0], bits[1]
  if jnp.dtype(dtype) == jnp.float64:
    fraction = (high >> 6).astype(dtype) * 2.0**-26
    return fraction + ((low >> 6).astype(dtype) + 0.5) * 2.0**-52
  return ((high >> 9).astype(dtype) + 0.5) * 2.0**-23


def normal(key: jax.Array, *counters, dtype=jnp.float32) -> jax.Array:
  """Returns one standard normal number."""
  centred = 2 * uniform(key, *counters, dtype=dtype) - 1
  return jnp.sqrt(jnp.asarray(2, dtype)) * jax.lax.erf_inv(centred)


def random_order(
  key: jax.Array, num: int, count: int | None = None
) -> jax.Array:
  """Returns the first `count` items of a random order of `0 .. num-1`.

  Many items are ordered by a keyed bijection, which costs no more than the
  items that are asked for; few by sorting random words, since on a small
  domain the bijections are far from all the orders there are.

  Args:
    key: PRNG key.
    num: how many items, at least 1.
    count: how many of them are wanted; all by default.

  Returns:
    `[count]` int32.
  """
  count = num if count is None else count
  places = jnp.arange(count, dtype=jnp.int32)
  if num > SORTED_ORDER_MAX:
    word, num_bits = words(key, 0), (num - 1).bit_length()
    return jax.vmap(
      lambda j: replay_position(word, j, jnp.int32(num), num_bits)
    )(places)
  # The low bits of a word carry the item. Where the random bits of two agree,
  # their order comes from a random rotation and reflection of the items, so
  # that none is ever preferred.
  turn = words(key, num, 1)
  items = jnp.arange(num, dtype=jnp.uint32)
  bits = jax.vmap(lambda i: words(key, i)[0])(items)
  mask = np.uint32(2 ** max(1, (num - 1).bit_length()) - 1)
  order = jnp.sort((bits & ~mask) | items) & mask
  mirrored = jnp.where(turn[1] & 1, num - 1 - order, order)
  return ((mirrored + turn[0] % num) % num).astype(jnp.int32)[:count]


def replay_position(
  key_words: jax.Array, counter: jax.Array, length: jax.Array, num_bits: int
) -> jax.Array:
  """Returns the place of item `counter` in a random order of `length` items.

  A keyed bijection of `num_bits`-bit numbers (masked multiplications and
  shifts, as in Kensler 2013, "Correlated multi-jittered sampling", Section
  3.1) with cycle walking (Black and Rogaway 2002): for one key, counters
  `0 .. length-1` give each place once, without the order being stored.

  Args:
    key_words: `[2]` uint32 random words: others are another order.
    counter: int32 in `[0, length)`.
    length: int32 number of items, at most `2**num_bits`.
    num_bits: static.
  """
  mask = np.uint32(2**num_bits - 1)
  shift = max(1, num_bits // 2)
  odd = (np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35), np.uint32(0x27D4EB2F))
  end = length.astype(jnp.uint32)

  def permute(place):
    for i in range(_ROUNDS):
      word = key_words[i % 2] + np.uint32((0x9E3779B1 * (i + 1)) % 2**32)
      place = (place ^ (word >> (32 - num_bits))) & mask
      place = (place * (odd[i % 3] ^ (word << 1 & mask))) & mask
      place = place ^ (place >> shift)
    return place

  start = permute(counter.astype(jnp.uint32))
  inside = jax.lax.while_loop(lambda place: place >= end, permute, start)
  return inside.astype(jnp.int32)


def _finalise(bits: jax.Array) -> jax.Array:
  """The 32-bit finaliser of MurmurHash3 (Appleby 2011): a bijection."""
  bits = (bits ^ (bits >> 16)) * np.uint32(0x85EBCA6B)
  bits = (bits ^ (bits >> 13)) * np.uint32(0xC2B2AE35)
  return bits ^ (bits >> 16)
