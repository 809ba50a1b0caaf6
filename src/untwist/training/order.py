"""The order of the data: a keyed permutation that is computed, never stored.

A population of M members on N examples would need N x M indices to shuffle them. Instead each
index is enciphered when it is needed: a Feistel network on pairs (left, right) with left below a
and right below b permutes the numbers below a * b, for any key. Where a * b exceeds N, numbers
that land at N or above are enciphered again until they fall below (cycle walking), which permutes
the numbers below N.

Reference: Black and Rogaway 2002, Ciphers with arbitrary finite domains.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, UInt32

ROUNDS = 8


def shuffled(index: Int[Array, " batch"], count: int, *, key: Key[Array, ""]) -> Array:
    """Returns where `index` lands under this key's permutation of the numbers below `count`.

    >>> import jax
    >>> order = shuffled(jnp.arange(10), 10, key=jax.random.key(0))
    >>> sorted(order.tolist()) == list(range(10))
    True
    """
    left_size, right_size = _split(count)
    round_keys = jax.random.bits(key, (ROUNDS,))

    def encipher(x: Array) -> Array:
        left, right = x // right_size, x % right_size
        for number in range(0, ROUNDS, 2):
            left = _turn(left, right, left_size, round_keys[number])
            right = _turn(right, left, right_size, round_keys[number + 1])
        return left * right_size + right

    result = encipher(index.astype(jnp.uint32))
    if left_size * right_size > count:
        result = jax.lax.while_loop(
            lambda x: jnp.any(x >= count),
            lambda x: jnp.where(x >= count, encipher(x), x),
            result,
        )
    return result.astype(jnp.int32)


def _split(count: int) -> tuple[int, int]:
    """Two sizes whose product is `count` if it has balanced divisors, else just above it."""
    root = math.isqrt(count - 1) + 1 if count > 1 else 1
    exact = next((d for d in range(root, max(root // 4, 1), -1) if count % d == 0), None)
    return (exact, count // exact) if exact else (root, -(-count // root))


def _turn(half: Array, other: Array, size: int, round_key: UInt32[Array, ""]) -> Array:
    """Half, moved around by a hash of the other half: a permutation for every other half."""
    mixed = (other + round_key) * jnp.uint32(0x9E3779B1)
    mixed = (mixed ^ (mixed >> 15)) * jnp.uint32(0x85EBCA77)
    mixed = (mixed ^ (mixed >> 13)) >> 16
    moved = half + ((mixed * jnp.uint32(size)) >> 16)
    return jnp.where(moved >= size, moved - size, moved)
