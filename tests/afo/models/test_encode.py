"""Layout of the tables, and features as rows of them."""

import msgspec
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from afo.data.example import encode  # noqa: E402
from afo.data.feature import Feature  # noqa: E402
from afo.data.schema import Schema  # noqa: E402
from afo.errors import SpecError  # noqa: E402
from afo.job import Data, Embedding, Model, Wide  # noqa: E402
from afo.models.encode import Encoder  # noqa: E402
from afo.models.feature_layout import layout_of  # noqa: E402
from afo.models.parser import RecordParser  # noqa: E402

pytestmark = pytest.mark.tensorflow

SCHEMA = Schema(
    features=(
        Feature(name="age", kind="dense", buckets=(20.0, 40.0)),
        Feature(name="item", kind="categorical", hash_buckets=50),
        Feature(name="city", kind="string", vocab=("Bonn", "Ulm", "Trier")),
        Feature(name="liked", kind="categorical", shape=(2,)),
        Feature(name="price", kind="dense", shape=(2,)),
    )
)
MODEL = Model(
    hidden_units=(4,),
    embedding=Embedding(dim=2, hash_buckets=30, storage="dense"),
    wide=Wide(crosses=(("item", "city"), ("age", "item")), cross_buckets=70),
)
MODEL_OF_NUMBERS = Model(hidden_units=(4,), embedding=Embedding(dim=2, storage="dense"))
FEATURES = {
    "age": [[19.0], [20.0], [41.0]],
    "item": [[7], [8], [7]],
    "city": [["Trier"], ["Köln"], ["Bonn"]],
    "liked": [[7, 7], [1, 2], [3, 4]],
    "price": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
}


def tensors() -> dict[str, object]:
    dtypes = {"item": tf.int64, "liked": tf.int64, "city": tf.string}
    return {name: tf.constant(values, dtypes.get(name, tf.float32)) for name, values in FEATURES.items()}


def test_rows_are_dealt_out_feature_by_feature() -> None:
    layout = layout_of(SCHEMA, MODEL)
    assert [(column.feature, start) for column, start in zip(layout.sparse, layout.offsets, strict=True)] == [
        ("item", 0), ("liked", 50), ("city", 80), ("age", 84),
    ]  # fmt: skip
    assert (layout.deep_rows, layout.cross_offsets, layout.wide_rows) == (87, (87, 157), 227)
    assert (layout.ids_per_sample, layout.dense_width) == (5, 3)
    # bias, kernel and bias of the hidden layer (4 features of 2, 3 dense values), kernel of the output
    assert layout.dense_size == 1 + 11 * 4 + 4 + 4


def test_ids_lie_in_their_features_rows() -> None:
    layout = layout_of(SCHEMA, MODEL)
    encoded = Encoder(layout)(tensors())
    ids = encoded.ids.numpy()
    assert ids[:, 3].tolist() == [82, 83, 80], "vocabulary, with unknown cities behind it"
    assert ids[:, 4].tolist() == [84, 85, 86], "a value on a boundary belongs to the interval above"
    assert (ids[:, 0] < 50).all()
    assert ids[0, 0] == ids[2, 0] != ids[1, 0]
    assert ((ids[:, 1:3] >= 50) & (ids[:, 1:3] < 80)).all()
    assert ids[0, 1] == ids[0, 2]
    np.testing.assert_array_equal(encoded.dense.numpy(), np.hstack([FEATURES["age"], FEATURES["price"]]))


def test_crosses_tell_combinations_apart() -> None:
    crosses = Encoder(layout_of(SCHEMA, MODEL))(tensors()).crosses.numpy()
    assert ((crosses[:, 0] >= 87) & (crosses[:, 0] < 157)).all()
    assert ((crosses[:, 1] >= 157) & (crosses[:, 1] < 227)).all()
    assert len(set(crosses[:, 0].tolist())) == 3


def test_a_part_alone_has_only_its_own() -> None:
    import msgspec

    wide = layout_of(SCHEMA, msgspec.structs.replace(MODEL, parts="wide"))
    deep = layout_of(SCHEMA, msgspec.structs.replace(MODEL, parts="deep"))
    assert wide.dense_size == 1
    assert not deep.crosses
    assert deep.wide_rows == deep.deep_rows


@pytest.mark.parametrize(
    ("cross", "message"),
    [
        (("item", "price"), "names `price`, which is no categorical"),
        (("item", "towm"), "names `towm`"),
        (("item", "liked"), "`liked` has several values"),
        (("item",), "at least two different"),
        (("item", "item"), "at least two different"),
    ],
)
def test_crosses_of_what_cannot_be_crossed(cross: tuple[str, ...], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        layout_of(SCHEMA, Model(wide=Wide(crosses=(cross,))))


def test_padding_counts_for_nothing_and_the_rest_by_weight_and_combiner() -> None:
    def share(combiner: str, weights: str) -> list[float]:
        schema = Schema(
            features=(
                Feature(name="one", kind="categorical"),
                Feature(name="liked", kind="categorical", max_length=3, combiner=combiner, weights=weights),
                Feature(name="w", kind="dense", max_length=3),
            )
        )
        layout = layout_of(schema, Model(embedding=Embedding(storage="dense")))
        assert [column.feature for column in layout.dense] == ([] if weights else ["w"])
        features = {
            "one": tf.constant([[1], [2]], tf.int64),
            "liked": tf.constant([[5, 0, 6], [0, 0, 0]], tf.int64),
            "w": tf.constant([[3.0, 9.0, 4.0], [1.0, 1.0, 1.0]]),
        }
        encoded = Encoder(layout)(features)
        assert encoded.ids.shape == (2, 4)
        shares = encoded.shares.numpy()
        assert shares[:, 0].tolist() == [1, 1]
        assert shares[1, 1:].tolist() == [0, 0, 0]
        return [round(float(each), 5) for each in shares[0, 1:]]

    assert share("mean", "") == [0.5, 0, 0.5]
    assert share("mean", "w") == [round(3 / 7, 5), 0, round(4 / 7, 5)]
    assert share("sum", "w") == [3, 0, 4]
    assert share("sqrtn", "w") == [0.6, 0, 0.8]


def test_a_list_of_real_numbers_is_one_pooled_value() -> None:
    layout = layout_of(Schema(features=(Feature(name="x", kind="dense", max_length=3, buckets=(2.0,)),)), Model())
    encoded = Encoder(layout)({"x": tf.constant([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0]])})
    assert encoded.dense.numpy().tolist() == [[2.0], [0.0]]
    assert encoded.ids.numpy().tolist() == [[0, 1, 0], [0, 0, 0]]
    assert encoded.shares.numpy().tolist() == [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]


def test_a_list_cannot_be_crossed() -> None:
    schema = Schema(
        features=(Feature(name="a", kind="categorical"), Feature(name="b", kind="categorical", max_length=1))
    )
    with pytest.raises(SpecError, match="`b` has several values a sample and cannot be crossed"):
        layout_of(schema, Model(wide=Wide(crosses=(("a", "b"),))))


TABLES = msgspec.structs.replace(MODEL, embedding=Embedding(dim=2, storage="hash_table"))


def test_keys_of_hash_tables_are_ids_places_and_buckets_where_the_schema_has_them() -> None:
    layout = layout_of(SCHEMA, TABLES)
    assert layout.hashed
    assert [(column.feature, column.buckets) for column in layout.sparse] == [
        ("item", 50), ("liked", 0), ("city", 4), ("age", 3),
    ]  # fmt: skip
    encoded = Encoder(layout).keys(tensors())
    item, liked, city, age = (each.numpy().tolist() for each in encoded.keys)
    dense = Encoder(layout_of(SCHEMA, MODEL))(tensors())
    assert item == dense.ids[:, :1].numpy().tolist(), "the schema says how many buckets"
    assert liked == FEATURES["liked"], "an id is its own key"
    assert city == [[2], [3], [0]]
    assert age == [[0], [1], [2]]
    crosses = np.concatenate([each.numpy() for each in encoded.crosses], axis=1)
    np.testing.assert_array_equal(crosses + np.array([87, 157]), dense.crosses)


def test_keys_without_buckets_are_whole_hashes() -> None:
    schema = Schema(features=(Feature(name="word", kind="string"), Feature(name="item", kind="categorical")))
    model = Model(embedding=Embedding(storage="hash_table"), wide=Wide(crosses=(("word", "item"),)))
    encoded = Encoder(layout_of(schema, model)).keys(
        {"word": tf.constant([["a"], ["b"]]), "item": tf.constant([[-(2**63)], [2**63 - 1]], tf.int64)}
    )
    item, word = (each.numpy() for each in encoded.keys[::-1])
    assert item.tolist() == [[-(2**63)], [2**63 - 1]]
    prints = tf.bitcast(tf.fingerprint(tf.constant(["a", "b"])), tf.int64).numpy()
    assert word[:, 0].tolist() == prints.tolist()
    [cross] = encoded.crosses
    assert cross.shape == (2, 1)
    assert np.abs(cross.numpy()).min() > 2**40


def test_dense_values_are_filled_clipped_and_then_their_logarithm_is_taken() -> None:
    income = Feature(
        name="income", kind="dense", buckets=(0.0, 5.0), clip=(-3.0, 99.0), transform="log1p", missing_indicator=True,
        default=4.0,
    )  # fmt: skip
    layout = layout_of(Schema(features=(income, Feature(name="age", kind="dense"))), MODEL_OF_NUMBERS)
    values = tf.constant([[-10.0], [0.0], [1e6], [float("nan")]])
    encoded = Encoder(layout)({"income": values, "age": tf.ones([4, 1])})
    expected = [[-np.log(4), 0, 1], [0, 0, 1], [np.log(100), 0, 1], [np.log(5), 1, 1]]
    np.testing.assert_allclose(encoded.dense.numpy(), expected, rtol=1e-6)
    assert encoded.ids.numpy().tolist() == [[0], [1], [2], [1]], "buckets are of the value itself"
    assert layout.dense_width == 3


def test_what_a_record_lacks_is_a_missing_value_for_both_parsers() -> None:
    schema = Schema(features=(Feature(name="income", kind="dense", missing_indicator=True, default=4.0),))
    parser = RecordParser(schema, Data(train=("x",), label="y"))
    records = tf.constant([encode({"income": [2.5], "y": [1]}), encode({"y": [0]})])
    encoder = Encoder(layout_of(schema, MODEL_OF_NUMBERS))
    for features in (parser(records).features, parser.inputs(records)):
        assert encoder(features).dense.numpy().tolist() == [[2.5, 0.0], [4.0, 1.0]]
