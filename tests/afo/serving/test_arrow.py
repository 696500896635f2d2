"""Batches of Arrow beside the same rows as records, as arrays, and in every layout that columns may have."""

import ctypes
import itertools
import json
import shutil
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afo.data.example import encode
from afo.data.feature import Feature
from afo.errors import SpecError
from afo.serving import Processor
from afo.serving.processor_library import ArrowStructs, load
from processor_build import require_processor
from trained_model import INCOME_NAME, RECORDS, TrainedModel

pytestmark = pytest.mark.tensorflow

ROOT = Path(__file__).parents[3]
MORE = (
    Feature(name="tags", kind="string", max_length=3, default="Ulm", hash_buckets=40),
    Feature(name="viewed", kind="categorical", max_length=4, default=7, hash_buckets=40),
    Feature(name="price", kind="dense", default=35.0),
    Feature(name="place", kind="dense", shape=(2,), default=(1.0, -2.0)),
    Feature(name="size", kind="dense", max_length=2, default=0.5),
)
#: Of the columns, as they are written by who has a choice.
TYPES = {
    "user": pa.int64(), "city": pa.string(), "liked": pa.list_(pa.int64()), "age": pa.float32(),
    "net_income": pa.float32(), "tags": pa.list_(pa.string()), "viewed": pa.list_(pa.int64()), "price": pa.float32(),
    "place": pa.list_(pa.float32()), "size": pa.list_(pa.float32()),
}  # fmt: skip
OTHER_TYPES = {
    "user": pa.int16(), "city": pa.dictionary(pa.int8(), pa.string()), "liked": pa.list_(pa.uint64(), 2),
    "age": pa.float64(), "net_income": pa.float64(), "tags": pa.large_list(pa.large_binary()),
    "viewed": pa.large_list(pa.uint8()), "price": pa.int8(), "place": pa.list_(pa.float64(), 2),
    "size": pa.list_(pa.float64()),
}  # fmt: skip


def row(number: int) -> dict[str, Any]:
    """A record, in which most features are missing at times."""
    more: dict[str, Any] = {
        "tags": [("Ulm", "Bonn", "", "Köln")[place % 4] for place in range(number % 6)],
        "viewed": number + np.arange(number % 7), "price": [float(number)],
        "place": [number / 2, -3.25], "size": np.full(number % 4, number / 7, np.float32),
    }  # fmt: skip
    kept = {name: values for at, (name, values) in enumerate(more.items()) if (number + at) % 3}
    record = {**RECORDS[number], **kept}
    if number % 5 == 0:
        del record["city"]
    return {name: value for name, value in record.items() if name not in {"label", "sample_id"}}


ROWS = [row(number) for number in range(len(RECORDS))]


def batch_of(types: dict[str, Any]) -> pa.RecordBatch:
    """The rows, missing features as nulls."""
    columns = {}
    for name, kind in types.items():
        found = [each.get(INCOME_NAME if name == "net_income" else name) for each in ROWS]
        if not pa.types.is_list(kind) and not pa.types.is_large_list(kind) and not pa.types.is_fixed_size_list(kind):
            found = [each and each[0] for each in found]
        if name == "price" and pa.types.is_integer(kind):
            found = [each and int(each) for each in found]
        columns[name] = pa.array(found, kind)
    return pa.record_batch(columns)


def scores_of_records(model: Processor, begin: int, end: int) -> np.ndarray[Any, Any]:
    """Of these rows, in a request of their own: the last bit of a sum may depend on how many there are."""
    records = np.array([encode(each) for each in ROWS[begin:end]], object)
    return model.predict({"examples": records}, "serving_default")["probabilities"]


class Served:
    def __init__(self, folder: Path) -> None:
        model = TrainedModel(folder, folder / "schema.yaml", "hashed", MORE)
        self.directory = model.exported("float32", "native")
        with Processor(str(self.directory)) as processor:
            self.scores = scores_of_records(processor, 0, len(ROWS))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    require_processor()
    return Served(tmp_path_factory.mktemp("arrow"))


@pytest.fixture(scope="module")
def model(served: Served) -> Iterator[Processor]:
    with Processor(str(served.directory)) as processor:
        yield processor


def test_rows_of_arrow_are_answered_as_their_records_to_the_bit(served: Served, model: Processor) -> None:
    assert len(set(served.scores)) > 60
    for types in (TYPES, OTHER_TYPES):
        batch = batch_of(types)
        answer = model.predict_arrow(batch)
        assert answer.schema == pa.schema([pa.field("probabilities", pa.float32(), nullable=False)])
        np.testing.assert_array_equal(answer["probabilities"], served.scores)
        for begin, length in ((3, 40), (79, 1), (80, 0)):
            answer = model.predict_arrow(batch.slice(begin, length))
            expected = scores_of_records(model, begin, begin + length)
            np.testing.assert_array_equal(answer["probabilities"], expected)
        # As a slice of a struct array, the offset is the parent's.
        struct = batch.to_struct_array()[11:30]
        np.testing.assert_array_equal(answer_of(model, struct)["probabilities"], scores_of_records(model, 11, 30))


def answer_of(model: Processor, struct: pa.StructArray) -> pa.RecordBatch:
    status, answer, text = call(model, struct)
    assert status == 200, text
    return pa.RecordBatch._import_from_c(answer.array, answer.schema)


def call(model: Processor | None, struct: pa.StructArray) -> tuple[int, ArrowStructs, str]:
    """By the library itself; what it was given is released."""
    library, given, answer = load(), ArrowStructs(), ArrowStructs()
    output, size = ctypes.c_void_p(), ctypes.c_int()
    struct._export_to_c(given.array, given.schema)
    assert all(releases(given))
    status = library.process_arrow(
        model and model._model, None, given.schema, given.array, answer.schema, answer.array, ctypes.byref(output),
        ctypes.byref(size),
    )  # fmt: skip
    assert releases(given) == (0, 0)
    text = ctypes.string_at(output, size.value).decode() if output.value else ""
    library.free_output(output)
    return status, answer, text


def releases(structs: ArrowStructs) -> tuple[int, int]:
    """What the structs' `release` are, 0: null. They stand behind seven words of a schema, eight of an array."""
    places = (structs.schema + 56, structs.array + 64)
    first, second = (ctypes.c_uint64.from_address(place).value for place in places)
    return first, second


def test_columns_are_what_arrays_are(served: Served, model: Processor) -> None:
    arrays: dict[str, Any] = {
        "user": np.array([[3], [5]]), "city": [[b"Ulm"], [b"Bonn"]], "liked": np.array([[3, 21], [5, 35]]),
        "age": np.float32([[23], [25]]), "net_income": np.float32([[1000], [np.nan]]),
        "tags": [[b"a", b"Ulm", b"Ulm"], [b"a", b"b", b"c"]], "viewed": np.array([[7, 7, 7, 7], [1, 7, 3, 7]]),
        "price": np.float32([[35], [9]]), "place": np.float32([[1, -2], [0.5, 0.25]]),
        "size": np.float32([[0.5, 0.5], [1, 2]]),
    }  # fmt: skip
    batch = pa.record_batch({
        "size": [None, [1.0, 2.0, 3.0]], "place": [None, [0.5, 0.25]], "price": [None, 9.0],
        "viewed": [[], [1, None, 3]], "tags": [["a"], ["a", "b", "c", "d"]], "net_income": [1000.0, float("nan")],
        "age": [23, 25], "liked": [[3, 21], [5, 35]], "city": ["Ulm", "Bonn"], "user": [3, 5],
    })  # fmt: skip
    expected = model.predict(arrays, "predict")["probabilities"]
    np.testing.assert_array_equal(model.predict_arrow(batch)["probabilities"], expected)
    records = pa.record_batch({"examples": pa.array([encode(each) for each in ROWS])})
    for signature in ("serving_default", ""):
        answer = model.predict_arrow(records, signature)
        np.testing.assert_array_equal(answer["probabilities"], served.scores)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"age": pa.array(["1"] * 80)}, r"column `age` holds strings; the model takes DT_FLOAT: float32, float64, "),
        ({"user": pa.array([1.0] * 80)}, "column `user` holds float64; the model takes DT_INT64: integers or booleans"),
        ({"city": pa.array([1] * 80)}, "column `city` holds int64; the model takes DT_STRING: strings or binaries"),
        ({"liked": pa.array([[1, 2]] * 79 + [[1]])}, "column `liked` has 1 value in row 79 where 2 are read"),
        ({"price": pa.array([[]] * 80, pa.list_(pa.int8()))}, "column `price` has 0 values in row 0 where 1 is read"),
        ({"age": pa.array([1] * 80, pa.date32())}, "column `age` has the Arrow format `tdD`; allowed are numbers of "),
        ({"tags": None}, "column `tags` is missing"),
        ({"wealth": pa.array([1] * 80)}, "column `wealth` is no input of the signature, whose inputs are age, city, "),
    ],
)
def test_a_column_that_does_not_fit_is_named(model: Processor, changed: dict[str, Any], words: str) -> None:
    batch = batch_of(TYPES)
    columns = {**dict(zip(batch.schema.names, batch.columns, strict=True)), **changed}
    given = pa.record_batch({name: column for name, column in columns.items() if column is not None})
    with pytest.raises(SpecError, match=words):
        model.predict_arrow(given)
    status, answer, text = call(model, given.to_struct_array())
    assert (status, releases(answer)) == (400, (0, 0))
    assert text.startswith("column `")


def test_a_batch_that_cannot_be_asked_for_is_released_as_well(model: Processor) -> None:
    before = pa.total_allocated_bytes()
    batch = batch_of(TYPES)
    assert call(None, batch.to_struct_array())[0] == 500
    with pytest.raises(SpecError, match="signature `score` is not served; those that are: predict, serving_default"):
        model.predict_arrow(batch, "score")
    with pytest.raises(SpecError, match="the batch has 65537 rows; a request may have 65536 at most"):
        model.predict_arrow(pa.record_batch({"user": np.zeros(65537, np.int64)}))
    with pytest.raises(SpecError, match=r"the batch is a dict; allowed is a pyarrow\.RecordBatch"):
        model.predict_arrow({"user": [1]})
    answer = model.predict_arrow(batch)
    del batch, answer
    assert pa.total_allocated_bytes() == before
    library, answers, output = load(), ArrowStructs(), (ctypes.c_void_p(), ctypes.c_int())
    given = [model._model, None, None, None, answers.schema, answers.array, *map(ctypes.byref, output)]
    assert library.process_arrow(*given) == 400
    assert ctypes.string_at(output[0], output[1].value) == b"there is no batch, or it was released"
    library.free_output(output[0])


def test_an_answer_outlives_its_model(served: Served) -> None:
    with Processor(str(served.directory)) as model:
        answer = model.predict_arrow(batch_of(TYPES))
    np.testing.assert_array_equal(answer["probabilities"], served.scores)


def test_an_export_says_what_is_absent_or_nothing_may_be(served: Served, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(served.directory, copy)
    about = copy / "assets.extra" / "afo.json"
    said = json.loads(about.read_text())
    assert said["fills"]["net_income"] == {"values": [None], "any_length": False}
    assert said["fills"]["place"] == {"values": [1.0, -2.0], "any_length": False}
    assert said["fills"]["viewed"] == {"values": [7], "any_length": True}
    for fill in ({"values": [1, 2, 3]}, {"values": ["Ulm"]}):
        about.write_text(json.dumps({**said, "fills": {**said["fills"], "viewed": fill}}))
        with pytest.raises(SpecError, match=r"afo\.json: what it says of `viewed` in `fills` does not fit"):
            Processor(str(copy))
    del said["fills"]
    about.write_text(json.dumps(said))
    with Processor(str(copy)) as model, pytest.raises(SpecError, match="has a null in row 0, and the model does not"):
        model.predict_arrow(batch_of(TYPES))


NUMBERS = st.one_of(st.none(), st.integers(0, 100))
KINDS = (
    pa.int8(), pa.uint64(), pa.float64(), pa.bool_(), pa.string(), pa.large_binary(), pa.null(), pa.float16(),
    pa.string_view(), pa.decimal128(9), pa.timestamp("s"), pa.binary(2), pa.dictionary(pa.int32(), pa.string()),
)  # fmt: skip
FORMS = (
    lambda kind: kind, pa.list_, pa.large_list, lambda kind: pa.list_(kind, 2), pa.list_view,
    lambda kind: pa.struct([("a", kind)]), lambda kind: pa.list_(pa.list_(kind)),
    lambda kind: pa.map_(pa.string(), kind),
)  # fmt: skip


@given(data=st.data(), name=st.sampled_from(sorted(TYPES)))
@settings(max_examples=150)
def test_columns_of_any_type_are_answered_or_refused(model: Processor, data: st.DataObject, name: str) -> None:
    kind, form = data.draw(st.sampled_from(KINDS)), data.draw(st.sampled_from(FORMS))
    values = data.draw(st.lists(NUMBERS, min_size=6, max_size=6))
    column = pa.nulls(3, form(kind))
    with suppress(pa.ArrowException, NotImplementedError, TypeError, ValueError):
        flat = pa.array(values, pa.int64()).cast(pa.string()).cast(kind)
        column = flat[:3] if form(kind) == kind else pa.array([flat[:2], flat[2:3], flat[3:5]], form(kind))
    batch = batch_of(TYPES).slice(0, 3)
    place = batch.schema.get_field_index(name)
    with suppress(SpecError):
        answer = model.predict_arrow(batch.set_column(place, name, column))
        assert np.isfinite(answer["probabilities"]).all()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processor]:
    """A model of somebody else, which says nothing of what is absent."""
    require_processor()
    import tensorflow as tf

    module, directory = tf.Module(), tmp_path_factory.mktemp("plain")

    def predict(x: Any, flag: Any, word: Any) -> dict[str, Any]:
        return {
            "twice": 2 * x, "not": ~flag, "length": tf.strings.length(word), "cube": tf.stack([x, x + 1, x + 2], 1),
            "wide": tf.cast(x, tf.int64),
        }  # fmt: skip

    def specs(**shapes: Any) -> Any:
        return {name: tf.TensorSpec(shape, kind, name) for name, (shape, kind) in shapes.items()}

    signatures = {
        "predict": tf.function(predict).get_concrete_function(
            **specs(x=([None, 2], tf.int32), flag=([None], tf.bool), word=([None], tf.string))
        ),
        "serving_default": tf.function(lambda y: {"y": y}).get_concrete_function(**specs(y=([None, None], tf.float32))),
        "mean": tf.function(lambda y: {"y": tf.reduce_mean(y)}).get_concrete_function(**specs(y=([None], tf.float32))),
    }
    tf.saved_model.save(module, str(directory), signatures=signatures)
    with Processor(str(directory)) as processor:
        yield processor


def test_outputs_are_columns_of_their_types_and_shapes(plain: Processor) -> None:
    batch = pa.record_batch({
        "word": ["a", "", "Köln"], "flag": [True, False, True],
        "x": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.uint32())),
    })  # fmt: skip
    found = plain.predict_arrow(batch)
    assert found.to_pydict() == {
        "cube": [[[a, b], [a + 1, b + 1], [a + 2, b + 2]] for a, b in ((1, 2), (3, 4), (5, 6))],
        "length": [1, 0, 5], "not": [False, True, False], "twice": [[2, 4], [6, 8], [10, 12]],
        "wide": [[1, 2], [3, 4], [5, 6]],
    }  # fmt: skip
    found.validate(full=True)
    assert found.schema.field("twice").type == pa.list_(pa.field("item", pa.int32(), nullable=False), 2)
    assert found.schema.field("wide").type.value_type == pa.int64()
    assert plain.predict_arrow(batch.slice(0, 0)).num_rows == 0


def test_what_is_absent_is_refused_where_the_model_does_not_say_what_it_means(plain: Processor) -> None:
    whole = {"word": ["a", "b"], "flag": [True, False], "x": pa.array([[1, 2], [3, 4]], pa.list_(pa.int32()))}
    absent = (
        ({"word": ["a", None]}, "column `word` has a null in row 1, and the model does not say what stands for it"),
        ({"flag": [None, True]}, "column `flag` has a null in row 0"),
        ({"x": pa.array([[1, None], [3, 4]], pa.list_(pa.int32()))}, "column `x` has a null in row 0"),
        ({"x": pa.array([[1], [3, 4]], pa.list_(pa.int32()))}, "column `x` has 1 value in row 0 where 2 are read"),
    )
    for changed, words in absent:
        with pytest.raises(SpecError, match=words):
            plain.predict_arrow(pa.record_batch({**whole, **changed}))
    numbers = pa.record_batch({"y": [1.0, 2.0]})
    with pytest.raises(SpecError, match=r"its input `y` has the shape \[\?,\?\], and a column is \[\?\] or \[\?,n\]"):
        plain.predict_arrow(numbers, "serving_default")
    with pytest.raises(Exception, match=r"the model's output `y` has the shape \[\] for a batch of 2 rows"):
        plain.predict_arrow(numbers, "mean")


def test_the_host_of_the_page_answers_arrow(served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "serving.md").read_text().partition("## Columns of Arrow")[2]
    source = textwrap.dedent(page.partition("```python\n")[2].partition("```")[0])
    model = TrainedModel(tmp_path, tmp_path / "schema.yaml", "hashed")
    place = tmp_path / "serving" / "ctr"
    place.parent.mkdir()
    model.exported("float32", "native").rename(place)
    monkeypatch.chdir(tmp_path)
    named: dict[str, Any] = {}
    exec(compile(source, "docs/serving.md", "exec"), named)
    assert len(named["scores"]) == 2
    assert all(0 < each.as_py() < 1 for each in itertools.chain(named["scores"]))
