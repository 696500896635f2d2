"""`tf.Example` records: one by one, by columns, and against TensorFlow."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as np_st

from afo.data import example
from afo.data.example import decode, encode, kind_of
from afo.data.io.example_batch import encode_columns
from afo.errors import DataError

int64 = st.integers(-(1 << 63), (1 << 63) - 1)
float32 = st.floats(width=32, allow_nan=False)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=150)
values = st.one_of(
    st.lists(int64, min_size=1, max_size=5),
    st.lists(float32, min_size=1, max_size=5),
    st.lists(st.binary(), max_size=5),
)


def plain(features: object) -> object:
    return {name: each.tolist() if isinstance(each, np.ndarray) else each for name, each in features.items()}


@given(st.dictionaries(names, values, max_size=5))
def test_what_is_encoded_is_decoded(features: dict[str, list[int] | list[float] | list[bytes]]) -> None:
    decoded = decode(encode(features))
    assert plain(decoded) == features
    for name, given_values in features.items():
        assert kind_of(decoded[name]) == kind_of(given_values)


@given(st.binary(max_size=100))
def test_arbitrary_bytes_are_an_example_or_a_data_error(data: bytes) -> None:
    with suppress(DataError):
        decode(data)


def test_text_is_written_as_utf8() -> None:
    assert decode(encode({"city": ["Zürich"]})) == {"city": ["Zürich".encode()]}


@pytest.mark.parametrize("bad", [[1 << 63], [1, "a"], ["a", 1], [1, 1.5]])
def test_values_that_no_list_holds(bad: list[object]) -> None:
    with pytest.raises(DataError, match="feature `f`"):
        encode({"f": bad})


def test_a_feature_without_a_list_is_absent() -> None:
    # Example { features { feature { key: "a" value {} } } }
    assert decode(b"\x0a\x07\x0a\x05\x0a\x01a\x12\x00") == {}


@st.composite
def columns(draw: st.DrawFn) -> dict[str, np.ndarray]:
    count = draw(st.integers(0, 5))
    shape = st.sampled_from([(count,), (count, 1), (count, 40)])
    small = st.integers(0, 300)
    column = st.one_of(
        np_st.arrays(np.int64, shape, elements=int64),
        np_st.arrays(np.int64, shape, elements=small),
        np_st.arrays(np.float32, shape, elements=float32),
    )
    return draw(st.dictionaries(names, column, min_size=1, max_size=4))


@given(columns())
def test_columns_give_the_same_records_one_by_one(batch: dict[str, np.ndarray]) -> None:
    count = len(next(iter(batch.values())))
    expected = [encode({name: np.atleast_1d(column[row]) for name, column in batch.items()}) for row in range(count)]
    records = encode_columns(batch)
    # The order of features means nothing, and protobuf puts a name before its own beginning: "ab", "a".
    assert [plain(decode(record)) for record in records] == [plain(decode(record)) for record in expected]
    assert [len(record) for record in records] == [len(record) for record in expected]


def test_columns_must_be_equally_long_and_of_a_known_type() -> None:
    with pytest.raises(DataError, match=r"equally long, given lengths \[2, 3\]"):
        encode_columns({"a": np.zeros(2, np.int64), "b": np.zeros(3, np.int64)})
    with pytest.raises(DataError, match=r"feature `a`: .* given float64"):
        encode_columns({"a": np.zeros(2)})


@pytest.mark.tensorflow
def test_tensorflow_agrees() -> None:
    import tensorflow as tf

    features = {"ids": [3, -1, 1 << 40], "x": [0.5, -2.0], "text": [b"a", b""], "größe": [1]}
    record = encode(features)
    its = tf.train.Example.FromString(record)
    assert list(its.features.feature["ids"].int64_list.value) == features["ids"]
    assert list(its.features.feature["x"].float_list.value) == features["x"]
    assert list(its.features.feature["text"].bytes_list.value) == features["text"]
    assert plain(decode(its.SerializeToString())) == features
    column = {"ids": np.array(features["ids"])[None], "x": np.array(features["x"], np.float32)[None]}
    parsed = tf.io.parse_single_example(
        encode_columns(column)[0],
        {"ids": tf.io.FixedLenFeature([3], tf.int64), "x": tf.io.FixedLenFeature([2], tf.float32)},
    )
    assert parsed["ids"].numpy().tolist() == features["ids"]
    assert parsed["x"].numpy().tolist() == features["x"]


def test_values_of_unwanted_features_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    record = encode({f"f{number}": [number] for number in range(3000)})
    made: list[object] = []
    values_of = example._values

    def counted(feature: object) -> object:
        made.append(feature)
        return values_of(feature)

    monkeypatch.setattr(example, "_values", counted)
    decoded = decode(record, {"f7", "f2000", "other"})
    assert len(decoded) == 3000, "their names are known"
    assert (decoded["f7"].tolist(), decoded["f2000"].tolist(), decoded["f8"]) == ([7], [2000], [])
    assert len(made) == 2
