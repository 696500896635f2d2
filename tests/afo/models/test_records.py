"""Parsing of records."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

tf = pytest.importorskip("tensorflow")

from afo.data.example import encode  # noqa: E402
from afo.data.feature import Feature  # noqa: E402
from afo.data.schema import Schema  # noqa: E402
from afo.job import Data, NegativeSampling  # noqa: E402
from afo.models import hashing  # noqa: E402
from afo.models.parser import RecordParser  # noqa: E402
from afo.ops import library  # noqa: E402

pytestmark = pytest.mark.tensorflow

SCHEMA = Schema(
    features=(
        Feature(name="city", kind="string", default="nowhere"),
        Feature(name="pair", kind="categorical", shape=(2,), default=(5, 6)),
        Feature(name="price", kind="dense"),
    )
)
RECORDS = [
    encode({"city": ["Ulm"], "pair": [1, 2], "price": [2.5], "y": [1], "w": [0.5], "id": [7], "unread": [9]}),
    encode({"y": [0], "w": [2.0], "id": [8]}),
]


def test_an_absent_feature_takes_its_default() -> None:
    parsed = RecordParser(SCHEMA, Data(schema="", train=("x",), label="y"))(tf.constant(RECORDS))
    assert parsed.features.keys() == {"city", "pair", "price"}
    assert parsed.features["city"].numpy().tolist() == [[b"Ulm"], [b"nowhere"]]
    assert parsed.features["pair"].numpy().tolist() == [[1, 2], [5, 6]]
    assert parsed.features["price"].numpy().tolist() == [[2.5], [0.0]]
    assert parsed.labels.numpy().tolist() == [[1.0], [0.0]]
    assert parsed.weight.numpy().tolist() == [1.0, 1.0]


def test_one_operation_follows_fills_that_change() -> None:
    """It keeps what it made of those of the last call."""
    operations = library.load()

    @tf.function  # type: ignore[untyped-decorator]  # TensorFlow is untyped
    def read(records: Any, city: Any, pair: Any) -> Any:
        return operations.afo_parse_example(
            records, [city, pair], names=["city", "pair"], any_length=[False, False], required=[False, False]
        )

    for word, width in ((b"a", 2), (b"a", 2), (b"a word that is longer than a short one", 2), (b"a", 3), (b"b", 3)):
        pair = np.arange(width) + len(word)
        lacking, held = encode({}), encode({"city": ["Ulm"], "pair": [1] * width})
        cities, pairs = read(tf.constant([lacking, held]), tf.constant([word]), tf.constant(pair))
        assert cities.numpy().tolist() == [[word], [b"Ulm"]]
        assert pairs.numpy().tolist() == [pair.tolist(), [1] * width]


def test_weight_and_identity_are_read_where_the_job_names_them() -> None:
    data = Data(schema="", train=("x",), label="y", weight="w", sample_id="id")
    parsed = RecordParser(SCHEMA, data)(tf.constant(RECORDS))
    assert parsed.weight.numpy().tolist() == [0.5, 2.0]
    expected = hashing.hash_integers(tf.constant([7, 8], tf.int64)).numpy().view(np.int64)
    np.testing.assert_array_equal(parsed.identity.numpy(), expected)


@pytest.mark.parametrize("kind", ["dense", "categorical"])
@pytest.mark.parametrize("indicator", [False, True])
def test_a_record_must_hold_its_weight_even_if_that_is_a_feature(kind: Any, indicator: bool) -> None:
    value = 2.0 if kind == "dense" else 2
    feature = Feature(name="w", kind=kind, default=value, missing_indicator=indicator and kind == "dense")
    parser = RecordParser(Schema(features=(feature,)), Data(train=("x",), label="y", weight="w"))
    weighed, not_weighed = encode({"y": [1], "w": [value]}), encode({"y": [1]})
    assert parser(tf.constant([weighed])).features["w"].numpy().tolist() == [[2.0]]
    assert parser.outputs(tf.constant([weighed])).weight.numpy().tolist() == [2.0]
    for read in (parser, parser.outputs):
        with pytest.raises(tf.errors.InvalidArgumentError, match="w"):
            read(tf.constant([weighed, not_weighed]))
    assert len(parser.keyed_inputs(tf.constant([not_weighed]))[0]["w"]) == 1, "predictions need no weight"


def test_a_weight_is_multiplied_by_that_of_the_class_and_of_what_was_sampled() -> None:
    data = Data(
        train=("x",), label="y", weight="w", sample_id="id", class_weight={"0": 3.0, "1": 4.0},
        negative_sampling=NegativeSampling(keep=0.5),
    )  # fmt: skip
    assert RecordParser(SCHEMA, data)(tf.constant(RECORDS)).weight.numpy().tolist() == [0.5 * 4, 2.0 * 3 / 0.5]
    only = Data(train=("x",), label="y", class_weight={"1": 4.0})
    assert RecordParser(SCHEMA, only)(tf.constant(RECORDS)).weight.numpy().tolist() == [4.0, 1.0]
    with pytest.raises(ValueError, match="`class_weight` is for one label"):
        Data(train=("x",), label=("y", "z"), class_weight={"1": 4.0})


def test_without_an_id_a_record_is_known_by_its_bytes() -> None:
    parser = RecordParser(SCHEMA, Data(schema="", train=("x",), label="y"))
    one, other, same = parser(tf.constant([*RECORDS, RECORDS[0]])).identity.numpy()
    assert one == same != other


def test_a_record_without_label_is_refused() -> None:
    parser = RecordParser(SCHEMA, Data(schema="", train=("x",), label="clicked"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="clicked"):
        parser(tf.constant(RECORDS))


LISTS = Schema(
    features=(
        Feature(name="clicked", kind="categorical", max_length=3, default=-1, weights="watched"),
        Feature(name="watched", kind="dense", max_length=3, default=1.0),
        Feature(name="words", kind="string", max_length=2),
    )
)


@given(
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=6),
    st.lists(st.floats(width=32, allow_nan=False), max_size=6),
    st.lists(st.binary(max_size=5), max_size=6),
)
@settings(max_examples=30, deadline=None)
def test_lists_are_cut_off_and_padded(clicked: list[int], watched: list[float], words: list[bytes]) -> None:
    record = encode({"clicked": np.array(clicked, np.int64), "watched": np.array(watched, np.float32), "words": words})
    features = RecordParser(LISTS, Data(train=("x",))).inputs(tf.constant([record, encode({})]))
    assert features["clicked"].numpy().tolist() == [(clicked + [-1] * 3)[:3], [-1] * 3]
    assert features["watched"].numpy().tolist() == [(watched + [1.0] * 3)[:3], [1.0] * 3]
    assert features["words"].numpy().tolist() == [(words + [b""] * 2)[:2], [b""] * 2]


def test_labels_are_several_and_may_be_stored_as_real_numbers() -> None:
    schema = Schema(features=SCHEMA.features, stored={"bought": "float", "w": "int64"})
    record = encode({"y": [1], "bought": [0.0], "w": [3]})
    data = Data(train=("x",), label=("y", "bought"), weight="w")
    parsed = RecordParser(schema, data)(tf.constant([record]))
    assert parsed.labels.numpy().tolist() == [[1.0, 0.0]]
    assert parsed.weight.numpy().tolist() == [3.0]


def test_of_thousands_of_features_those_of_the_schema_are_read() -> None:
    parser = RecordParser(SCHEMA, Data(train=("x",), label="y"))
    # What nobody reads may differ in kind and length from record to record.
    many = [{f"unread{number}": values for number in range(5000)} for values in ([1], ["a", "b"], [0.5])]
    parsed = parser(tf.constant([encode(each | {"y": [1], "price": [2.5]}) for each in many]))
    assert parsed.features.keys() == set(SCHEMA.names)
    assert parsed.features["price"].numpy().tolist() == [[2.5]] * 3
    graph = tf.function(parser).get_concrete_function(parser.signature).graph
    [operation] = [each for each in graph.get_operations() if each.type == "AfoParseExample"]
    assert len(operation.get_attr("names")) == len(SCHEMA.names) + 1
