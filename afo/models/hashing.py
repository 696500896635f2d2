"""Hashes of ids inside TensorFlow graphs; the same on every machine and in the exported model."""

from typing import Any

import tensorflow as tf

_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_INCREMENT = 0x9E3779B97F4A7C15
#: Lowest bit of each half of a 64-bit word.
_LOW_BITS = 0x0000_0001_0000_0001


def mix(values: Any) -> Any:
    """Spread the bits of uint64 `values`: the finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    mixed = values + tf.constant(_INCREMENT, tf.uint64)
    for shift, multiplier in zip((30, 27), _MULTIPLIERS, strict=True):
        mixed = (mixed ^ _shift_right(mixed, shift)) * tf.constant(multiplier, tf.uint64)
    return mixed ^ _shift_right(mixed, 31)


def hash_integers(values: Any) -> Any:
    """uint64 hash of int64 `values`."""
    return mix(tf.bitcast(values, tf.uint64))


def hash_strings(values: Any) -> Any:
    """uint64 hash of `values`: the 64-bit fingerprint of FarmHash."""
    flat = tf.reshape(values, [-1])
    return tf.reshape(tf.bitcast(tf.fingerprint(flat), tf.uint64), tf.shape(values))


def combine(hashes: list[Any]) -> Any:
    """One hash of several, in this order."""
    combined = hashes[0]
    for following in hashes[1:]:
        combined = mix(combined * tf.constant(_MULTIPLIERS[0], tf.uint64) + following)
    return combined


def xor_by_group(hashes: Any, groups: Any, count: Any) -> Any:
    """xor of the int64 `hashes` [n] of each group: int64 [count]. `groups` [n] says which one an element belongs to.

    A bit of a xor is the parity of how many have it. 32 words hold two bits each, so that a sum of up to 2**32 never
    carries from one into the other.
    """
    words = tf.bitcast(hashes, tf.uint64)[:, tf.newaxis]
    shifts = tf.range(32, dtype=tf.int32)
    spread = tf.bitwise.right_shift(words, tf.cast(shifts, tf.uint64)) & tf.constant(_LOW_BITS, tf.uint64)
    sums = tf.math.unsorted_segment_sum(tf.bitcast(spread, tf.int64), groups, count)
    parities = tf.bitcast(sums, tf.uint64) & tf.constant(_LOW_BITS, tf.uint64)
    # Every bit has its own place now: adding them up is or-ing them.
    placed = tf.bitwise.left_shift(parities, tf.cast(shifts, tf.uint64))
    return tf.reduce_sum(tf.bitcast(placed, tf.int64), axis=1)


def _shift_right(values: Any, bits: int) -> Any:
    return tf.bitwise.right_shift(values, tf.constant(bits, tf.uint64))
