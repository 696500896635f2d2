"""Slot maps: equal ranges and any others, what is none, as bytes, and the same owners as the engine finds."""

import itertools
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afo.errors import SpecError
from afo.tables.slot_map import SLOTS, SlotMap
from key_hash import slots_of

_starts = st.lists(st.integers(0, SLOTS) | st.integers(0, 300), max_size=12).map(lambda some: (0, *sorted(some)))
MAPS = st.builds(SlotMap, _starts, st.integers(0, 1 << 40)) | st.builds(SlotMap.equal, st.integers(1, 64))


@given(st.integers(1, 64) | st.sampled_from([100, 1000, 65535, 65536]))
@settings(deadline=None, max_examples=80)
def test_equal_ranges_are_those_that_the_number_of_servers_says(servers: int) -> None:
    slots = SlotMap.equal(servers)
    owners = np.arange(SLOTS, dtype=np.int64) * servers // SLOTS  # before there were maps
    starts = np.searchsorted(owners, np.arange(servers))
    assert slots.starts == tuple(starts.tolist())
    assert (slots.servers, slots.version, slots.is_equal) == (servers, 0, True)


@given(MAPS)
def test_each_slot_has_one_owner_and_the_ranges_are_in_order(slots: SlotMap) -> None:
    ranges = [slots.range_of(server) for server in range(slots.servers)]
    assert ranges[0].start == 0
    assert ranges[-1].stop == SLOTS
    assert all(one.stop == next_.start for one, next_ in itertools.pairwise(ranges))
    assert sum(map(len, ranges)) == SLOTS


@given(MAPS)
def test_a_map_comes_back_from_its_bytes(slots: SlotMap) -> None:
    assert msgspec.json.decode(msgspec.json.encode(slots), type=SlotMap) == slots
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(slots), type=SlotMap) == slots


@given(MAPS, st.integers(0, 1 << 40))
def test_the_shares_of_servers_are_all_and_hardly_more(slots: SlotMap, rows: int) -> None:
    shares = [slots.share_of(server, rows) for server in range(slots.servers)]
    assert rows <= sum(shares) < rows + slots.servers
    if slots.is_equal:
        assert set(shares) == {-(-rows // slots.servers)}


def test_a_map_is_equal_by_its_ranges_and_not_by_how_it_was_made() -> None:
    assert SlotMap((0, 32768)).is_equal
    assert SlotMap((0, 32768), version=3).is_equal
    assert SlotMap((0, 32768)) == SlotMap.equal(2) != SlotMap((0, 32768), version=3)
    assert not SlotMap((0, 32767)).is_equal
    assert SlotMap((0, 32767)).share_of(0, 65536) == 32767
    assert SlotMap((0, 0)).share_of(0, 65536) == 0


WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"starts": ()}, "a slot map has 0 starts; give one for each server, 1 to 65536"),
    ({"starts": (0,) * 65537}, "a slot map has 65537 starts; give one for each server, 1 to 65536"),
    ({"starts": (5, 9)}, "the first start of a slot map is 5; give 0, for each slot has an owner"),
    ({"starts": (0, 9, 8)}, "start 2 of a slot map is 8; give 9, which is the start before it, to 65536"),
    ({"starts": (0, -1)}, "start 1 of a slot map is -1; give 0, which is the start before it, to 65536"),
    ({"starts": (0, 65537)}, "start 1 of a slot map is 65537; give 0, which is the start before it, to 65536"),
    ({"starts": (0,), "version": -1}, "a slot map has the version -1; give one of 0 or more"),
)


@pytest.mark.parametrize(("given_", "words"), WRONG)
def test_what_is_no_map_is_refused_by_one_sentence(given_: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError) as caught:
        SlotMap(**given_)
    assert str(caught.value) == words
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.json.decode(msgspec.json.encode(given_), type=SlotMap)
    assert str(refused.value) == words


@pytest.mark.parametrize(
    "given_", [{"starts": [0, 1]}, {"starts": (0, 1.5)}, {"starts": (0, "1")}, {"starts": (0,), "version": True}]
)
def test_other_kinds_are_refused(given_: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="give a tuple of whole numbers, and a whole number"):
        SlotMap(**given_)


def test_no_servers_have_no_map() -> None:
    with pytest.raises(SpecError, match="a slot map has 0 starts"):
        SlotMap.equal(0)


def test_slots_are_the_engine_s_for_keys_whose_hashes_are_known() -> None:
    known = {0: 57888, 1: 37130, -1: 58585, 1234567: 22942, -(2**63): 18462, 2**63 - 1: 10855}
    assert slots_of(list(known)).tolist() == list(known.values())


@pytest.mark.tensorflow
@given(MAPS)
@settings(deadline=None, max_examples=30)
def test_keys_go_to_the_servers_that_own_their_slots(slots: SlotMap) -> None:
    tf = pytest.importorskip("tensorflow")
    from afo.embedding.exchange import unique_keys

    ids = np.arange(-200, 200, dtype=np.int64) * 7919
    found = unique_keys([tf.constant(ids)], [0], slots)
    assert len(found.keys) == slots.servers
    assert sum(len(keys) for keys in found.keys) == 400
    for server, keys in enumerate(found.keys):
        assert all(slot in slots.range_of(server) for slot in slots_of(keys.numpy()).tolist())


@pytest.mark.tensorflow
def test_the_operation_refuses_starts_that_do_not_fit() -> None:
    tf = pytest.importorskip("tensorflow")
    from afo.ops.library import load

    def ask(starts: list[int]) -> None:
        load().afo_unique([tf.constant([1], tf.int64)], run_tables=[0], num_tables=1, num_servers=2, slot_starts=starts)

    with pytest.raises(tf.errors.InvalidArgumentError, match="start 1 of a slot map is 65537, and must be 0"):
        ask([0, 65537])
    with pytest.raises(tf.errors.InvalidArgumentError, match="slot_starts of 3 servers, and num_servers is 2"):
        ask([0, 1, 2])


@pytest.mark.tensorflow
def test_a_group_and_a_map_of_other_numbers_are_refused(new_group: Any) -> None:
    pytest.importorskip("tensorflow")
    with pytest.raises(SpecError, match="its slot map has 3 starts, and it has 2 devices; give a start for each"):
        new_group(2, SlotMap.equal(3))
    assert new_group(3).slots == SlotMap.equal(3)
