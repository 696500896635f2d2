"""Hashes have golden values: another hash would be another model."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

tf = pytest.importorskip("tensorflow")

from afo.models import hashing  # noqa: E402

pytestmark = pytest.mark.tensorflow
INT64 = st.integers(-(2**63), 2**63 - 1)


def splitmix64(value: int) -> int:
    mask = 2**64 - 1
    z = (value + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def test_the_first_outputs_of_splitmix64_from_seed_0() -> None:
    # As published with the generator: 0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4.
    states = np.array([0, 0x9E3779B97F4A7C15], np.uint64).view(np.int64)
    assert hashing.hash_integers(tf.constant(states)).numpy().tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]


@given(st.lists(INT64, min_size=1, max_size=20))
def test_integers_are_mixed_by_splitmix64(values: list[int]) -> None:
    expected = [splitmix64(value % 2**64) for value in values]
    assert hashing.hash_integers(tf.constant(values, tf.int64)).numpy().tolist() == expected


def test_strings_have_golden_hashes() -> None:
    found = hashing.hash_strings(tf.constant([["", "a"], ["Ärger", "a"]])).numpy()
    assert found[0, 1] == found[1, 1] == 12917804110809363939
    assert len(np.unique(found)) == 3


@given(st.lists(st.tuples(INT64, st.integers(0, 4)), min_size=1, max_size=50))
def test_xor_by_group_is_the_xor(pairs: list[tuple[int, int]]) -> None:
    expected = [0] * 5
    for value, group in pairs:
        expected[group] ^= value
    values, groups = (tf.constant(column, tf.int64) for column in zip(*pairs, strict=True))
    assert hashing.xor_by_group(values, groups, 5).numpy().tolist() == expected


def test_a_combination_depends_on_the_order() -> None:
    one, two = (hashing.hash_integers(tf.constant([value], tf.int64)) for value in (1, 2))
    assert hashing.combine([one, two]).numpy() != hashing.combine([two, one]).numpy()
