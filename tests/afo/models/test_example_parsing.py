"""Our parser of `tf.Example` gives what protobuf and TensorFlow give."""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

tf = pytest.importorskip("tensorflow")

from afo.data.example import Values, decode, encode, kind_of  # noqa: E402
from afo.errors import Unsupported  # noqa: E402
from afo.models import example_parsing  # noqa: E402
from afo.models.example_parsing import Reading, parse, parse_by_tensorflow  # noqa: E402
from afo.ops import library  # noqa: E402

pytestmark = pytest.mark.tensorflow

NAMES = ("a", "b", "long_name_of_a_feature", "ü")
FIELD = {tf.string: 1, tf.float32: 2, tf.int64: 3}
KIND = {tf.string: "bytes", tf.float32: "float", tf.int64: "int64"}
DTYPE: dict[Any, Any] = {tf.string: object, tf.float32: np.float32, tf.int64: np.int64}
_VALUES: dict[Any, Any] = {
    tf.int64: st.integers(-(1 << 63), (1 << 63) - 1),
    tf.float32: st.floats(width=32),
    tf.string: st.binary(max_size=30),
}
DTYPES = st.sampled_from(list(_VALUES))


def varint(value: int) -> bytes:
    """A negative one as ten bytes."""
    value &= (1 << 64) - 1
    low: list[int] = []
    while True:
        low.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(low)


def sized(field: int, body: bytes) -> bytes:
    """A field of bytes."""
    return varint(field << 3 | 2) + varint(len(body)) + body


def listed(dtype: Any, values: Sequence[Any], packed: bool) -> bytes:
    """A feature with its list, as one encoder or another writes it."""
    if dtype == tf.string:
        body = b"".join(sized(1, value) for value in values)
    elif dtype == tf.float32:
        words = [struct.pack("<f", value) for value in values]
        body = sized(1, b"".join(words)) if packed else b"".join(b"\x0d" + word for word in words)
    else:
        words = [varint(value) for value in values]
        body = sized(1, b"".join(words)) if packed else b"".join(b"\x08" + word for word in words)
    return sized(FIELD[dtype], body)


#: Fields that nobody has heard of, of every type there is.
UNKNOWN = st.sampled_from([b"", sized(9, b"some"), b"\x48\x05", b"\x49" + bytes(8), b"\x4d" + bytes(4)])


@st.composite
def entries(draw: Any, readings: dict[str, Reading], name: str) -> bytes:
    """A feature, mostly one that fits what is read."""
    reading = readings.get(name)
    fits = reading is not None and draw(st.integers(0, 9)) > 0
    dtype = reading.dtype if fits and reading is not None else draw(DTYPES)
    sizes = (0, 6) if not fits or reading is None or reading.any_length else (len(reading.fill),) * 2
    values = draw(st.lists(_VALUES[dtype], min_size=sizes[0], max_size=sizes[1]))
    feature = listed(dtype, values, draw(st.booleans())) if draw(st.integers(0, 9)) > 0 else b""
    key, value = sized(1, name.encode()), sized(2, feature + draw(UNKNOWN))
    parts = [value, key] if draw(st.integers(0, 9)) == 0 else [key, value]
    return sized(1, b"".join(parts))  # protobuf's Python drops entries of a map with more in them


@st.composite
def blocks(draw: Any) -> tuple[dict[str, Reading], list[bytes]]:
    """What is read, and records."""
    readings = {}
    for name in draw(st.sets(st.sampled_from(NAMES), min_size=1)):
        dtype, any_length = draw(DTYPES), draw(st.booleans())
        width = draw(st.integers(1, 3))
        fill = draw(_VALUES[dtype])
        own = (fill,) * width if any_length else tuple(draw(st.lists(_VALUES[dtype], min_size=width, max_size=width)))
        readings[name] = Reading(
            dtype, own, required=not any_length and draw(st.integers(0, 9)) == 0, any_length=any_length
        )
    records = []
    for _ in range(draw(st.integers(1, 4))):
        names = draw(st.lists(st.sampled_from([*NAMES, "unread"]), unique=True))
        found = [draw(entries(readings, name)) for name in names]
        records.append(draw(UNKNOWN) + sized(1, b"".join(found) + draw(UNKNOWN)))
    return readings, records


Outcome = dict[str, list[Any]] | None


def outcome(parser: example_parsing.Parse, readings: dict[str, Reading], records: list[bytes]) -> Outcome:
    """Columns; None for records that are refused."""
    try:
        parsed = parser(tf.constant(records, tf.string), readings)
    except (tf.errors.InvalidArgumentError, UnicodeDecodeError):  # TensorFlow quotes bytes that are no text
        return None
    return {name: plain(parsed[name].numpy()) for name in readings}


def plain(column: Any) -> list[Any]:
    """[B, values], where nan equals itself."""
    return [["nan" if value != value else value for value in row] for row in column.tolist()]


def expected(readings: dict[str, Reading], records: list[bytes]) -> Outcome:
    """By protobuf, a record and a feature at a time."""
    rows = [decode(record) for record in records]
    columns: dict[str, list[Any]] = {}
    for name, reading in readings.items():
        columns[name] = []
        for row in rows:
            values = row.get(name)
            count = 0 if values is None else len(values)
            if values is None and reading.required:
                return None
            if values is not None and not fits(values, reading):
                return None
            kept = np.array(
                [*(() if values is None else values[: len(reading.fill)]), *reading.fill[count:]], DTYPE[reading.dtype]
            )
            columns[name] += plain(kept[np.newaxis])
    return columns


def fits(values: Values, reading: Reading) -> bool:
    """Of the right kind, and as many as are read."""
    right = kind_of(values) == KIND[reading.dtype]
    return right and (reading.any_length or len(values) == len(reading.fill))


def tensorflow_survives(readings: dict[str, Reading], records: list[bytes]) -> bool:
    """False for a fixed number of floats where a record holds more.

    If they are not packed, TensorFlow 2.21 writes them behind the end of the column before it counts them, and its
    process is aborted for "double free or corruption", now or at some later time.
    """
    rows = [decode(record) for record in records]
    return not any(
        name in row and kind_of(row[name]) == "float" and len(row[name]) > len(reading.fill)
        for name, reading in readings.items()
        if reading.dtype == tf.float32 and not reading.any_length
        for row in rows
    )


@given(blocks())
@settings(max_examples=300, deadline=None)
def test_it_gives_what_protobuf_and_tensorflow_give(block: tuple[dict[str, Reading], list[bytes]]) -> None:
    readings, records = block
    ours = outcome(parse, readings, records)
    assert ours == expected(readings, records)
    if not tensorflow_survives(readings, records):
        return
    # TensorFlow refuses some more: fields that it does not know, a value in front of its key.
    theirs = outcome(parse_by_tensorflow, readings, records)
    assert theirs in (ours, None)


CLICK = {
    "item": Reading(tf.int64, (0,)), "price": Reading(tf.float32, (0.5,)), "city": Reading(tf.string, (b"nowhere",)),
    "seen": Reading(tf.int64, (-1, -1, -1), any_length=True), "y": Reading(tf.int64, (0,), required=True),
}  # fmt: skip


@given(st.lists(st.sets(st.sampled_from(list(CLICK))), max_size=40))
@settings(max_examples=50, deadline=None)
def test_records_as_they_are_written(present: list[set[str]]) -> None:
    whole = {"item": [7], "price": [2.5], "city": ["Ulm"], "seen": [1, 2], "y": [1], "unread": [3]}
    records = [encode({name: whole[name] for name in {*names, "y", "unread"}}) for names in present]
    theirs = outcome(parse_by_tensorflow, CLICK, records)
    assert theirs is not None
    assert outcome(parse, CLICK, records) == theirs


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (encode({"item": [1]}), "record 1 of the batch: feature `y` is not there"),
        (encode({"item": [1, 2], "y": [1]}), "feature `item` holds 2 values where 1 is read"),
        (encode({"item": [0.5], "y": [1]}), "feature `item` holds float values where int64 values are read"),
        (b"no record", "is no tf.Example"),
    ],
)
def test_what_is_refused_is_said(record: bytes, words: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        parse(tf.constant([encode({"y": [0]}), record]), CLICK)


def test_of_a_feature_that_is_there_twice_the_last_counts() -> None:
    [first], [second] = ([sized(1, sized(1, b"item") + sized(2, listed(tf.int64, [n], True)))] for n in (1, 2))
    nothing = sized(1, sized(1, b"item") + sized(2, b""))
    label = sized(1, sized(1, b"y") + sized(2, listed(tf.int64, [1], True)))
    records = [sized(1, label + entries) for entries in (first + second, second + first, first + nothing)]
    assert decode(records[0])["item"] == [2]
    parsed = outcome(parse, CLICK, records)
    assert parsed is not None
    assert parsed["item"] == [[2], [1], [0]]


def test_no_records_are_no_rows() -> None:
    parsed = parse(tf.constant([], tf.string), CLICK)
    assert {name: tuple(each.shape) for name, each in parsed.items()} == {
        name: (0, len(each.fill)) for name, each in CLICK.items()
    }


def test_where_the_operation_is_missing_tensorflow_parses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> None:
        raise Unsupported("never built")

    monkeypatch.setattr(library, "load", missing)
    monkeypatch.setattr(library, "load_if_present", library.load_if_present.__wrapped__)
    assert example_parsing.fastest() is parse_by_tensorflow
    assert "longer without afo's operations: never built" in capsys.readouterr().err
