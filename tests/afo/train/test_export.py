"""A SavedModel in a process of its own, against the forward pass of the evaluation."""

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from afo import storage
from afo.data.example import encode
from afo.data.io.tfrecord import RecordWriter
from afo.errors import SpecError, StorageError
from afo.job import ROW_TYPES, RowType, TableKind
from afo.job.loader import load_job
from afo.ops.library import available
from afo.trainable.served.rows_header import rows_at
from trained_model import INCOME_NAME, KEYS, MODELS, RECORDS, TrainedModel

pytestmark = pytest.mark.tensorflow

ROOT = Path(__file__).parents[3]


@pytest.fixture
def trained(tmp_path: Path, schema_file: Path) -> Callable[[str], TrainedModel]:
    return lambda which: TrainedModel(tmp_path, schema_file, which)


def bytes_of_variables(model: Path) -> int:
    return sum(path.stat().st_size for path in (model / "variables").iterdir())


@pytest.mark.parametrize(
    "rows", ["int8", pytest.param("float32", marks=pytest.mark.slow), pytest.param("bfloat16", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("which", sorted(MODELS))
def test_plain_tensorflow_serves_what_was_evaluated(
    trained: Callable[[str], TrainedModel], which: str, rows: RowType
) -> None:
    from afo.trainable.served import export_info

    model = trained(which)
    target = model.exported(rows)
    assert export_info.read(str(target)).rows == rows
    served, exact = model.served(target), model.evaluated("float32")
    assert exact.std() > 0.01
    np.testing.assert_allclose(served, model.evaluated(rows), rtol=0, atol=1e-6)
    if rows != "float32":
        assert 0 < np.abs(served - exact).max() < 0.01


@pytest.mark.parametrize(
    ("which", "rows", "loader"),
    [
        ("hashed", "float32", "functions"),
        pytest.param("hashed", "float32", "session", marks=pytest.mark.slow),
        pytest.param("hashed", "int8", "functions", marks=pytest.mark.slow),
        pytest.param("own", "float32", "functions", marks=pytest.mark.slow),
        ("own", "bfloat16", "session"),
    ],
)
def test_tensorflow_and_the_operations_serve_native_tables(
    trained: Callable[[str], TrainedModel], which: str, rows: RowType, loader: str
) -> None:
    from afo.trainable.served import export_info

    model = trained(which)
    target = model.exported(rows, "native")
    assert export_info.read(str(target)).tables == "native"
    served = model.served(target, available(), loader=loader)
    np.testing.assert_allclose(served, model.evaluated(rows), rtol=0, atol=1e-6)


@pytest.mark.parametrize("rows", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("which", ["hashed", "own"])
def test_scores_of_tables_in_files_are_those_of_tables_in_memory_to_the_bit(
    trained: Callable[[str], TrainedModel], which: str, rows: RowType
) -> None:
    model = trained(which)
    assert model.evaluated(rows, merged=True).tobytes() == model.evaluated(rows).tobytes()


@pytest.mark.parametrize(
    ("which", "rows", "tables"),
    [
        ("hashed", "float32", "frozen"),
        ("own", "int8", "frozen"),
        ("own", "float32", "native"),
        pytest.param("hashed", "bfloat16", "frozen", marks=pytest.mark.slow),
        pytest.param("hashed", "int8", "native", marks=pytest.mark.slow),
    ],
)
def test_an_export_of_tables_in_files_holds_what_one_of_tables_in_memory_does(
    trained: Callable[[str], TrainedModel], which: str, rows: RowType, tables: TableKind
) -> None:
    model = trained(which)
    served = [
        model.served(model.exported(rows, tables, merged), *([available()] if tables == "native" else []))
        for merged in (False, True)
    ]
    assert served[0].tobytes() == served[1].tobytes()
    assert sorted(path.name for path in model.directory.iterdir() if path.is_dir()) == ["exported"]


def test_models_that_other_processes_exported_are_served_side_by_side(trained: Callable[[str], TrainedModel]) -> None:
    import importlib

    from afo.trainable.served import native_table

    model = trained("hashed")
    model.exported("int8", "native").rename(model.directory / "exported-other")
    importlib.reload(native_table)  # as in a process of its own, it counts its tables from 0
    target = model.exported("float32", "native")
    served = model.served(target, available(), loader="beside")
    np.testing.assert_allclose(served, model.evaluated("float32"), rtol=0, atol=1e-6)


def test_a_model_of_dense_tables_alone_has_no_native_ones(trained: Callable[[str], TrainedModel]) -> None:
    model = trained("dense")
    served = model.served(model.exported("float32", "native"))
    np.testing.assert_allclose(served, model.evaluated("float32"), rtol=0, atol=1e-6)


def test_features_are_arguments_of_a_signature_by_a_name_that_python_takes(
    trained: Callable[[str], TrainedModel],
) -> None:
    import tensorflow as tf

    model = trained("dense")
    signature = tf.saved_model.load(str(model.exported("float32"))).signatures["predict"]
    features = dict(model.parts.parser.inputs(tf.constant([encode(record) for record in RECORDS])))
    given = features | {"net_income": features.pop(INCOME_NAME)}
    assert set(signature.structured_input_signature[1]) == set(given)
    served = signature(**given)["probabilities"].numpy()
    np.testing.assert_allclose(served, model.evaluated("float32"), rtol=0, atol=1e-6)


def test_native_tables_without_the_operations_are_an_error_that_names_what_is_missing(
    trained: Callable[[str], TrainedModel],
) -> None:
    model = trained("hashed")
    done = model.serving(model.exported("float32", "native"))
    assert done.returncode == 1
    # It depends on the order of the functions which of the four it meets first.
    assert re.search(
        "Op type not registered 'Afo(ParseExample|ServedTable|LoadServedTable|LookupServed)'", done.stderr
    ), done.stderr


def test_a_record_that_aborts_tensorflows_parser_is_refused_by_a_model_with_native_tables(
    trained: Callable[[str], TrainedModel],
) -> None:
    model = trained("hashed")
    # Floats that are not packed, more than the feature has: field 1 of a FloatList, each with a tag of its own.
    floats = b"\x0d\x00\x00\x00\x00" * 200_000
    model.records.unlink()
    with RecordWriter(str(model.records)) as writer:
        writer.write(_example("age", _field(2, floats)))
    done = model.serving(model.exported("float32", "native"), available(), loader="refused")
    assert done.returncode == 1
    refusal = done.stderr.partition("\nrefused: ")[2]
    assert "feature `age` holds 200000 values where 1 is read" in refusal, done.stderr


def _field(number: int, content: bytes) -> bytes:
    """A field of protobuf that holds bytes."""
    length, varint = len(content), b""
    while length >= 128:
        varint += bytes([length % 128 + 128])
        length //= 128
    return bytes([number * 8 + 2]) + varint + bytes([length]) + content


def _example(name: str, feature: bytes) -> bytes:
    """A tf.Example with one feature; `feature` is its list with the field's number."""
    return _field(1, _field(1, _field(1, name.encode()) + _field(2, feature)))


def test_a_damaged_table_is_an_error_that_names_the_file(trained: Callable[[str], TrainedModel]) -> None:
    model = trained("hashed")
    target = model.exported("float32", "native")
    file = next((target / "assets").glob("*.rows"))
    content = bytearray(file.read_bytes())
    content[rows_at("")] ^= 1
    file.write_bytes(content)
    done = model.serving(target, available())
    assert done.returncode == 1
    assert f"{file} is no table of a served model: it is damaged in bytes 64 to " in done.stderr


def test_native_rows_take_the_bytes_of_their_type_and_eight_of_their_key(
    trained: Callable[[str], TrainedModel],
) -> None:
    model = trained("hashed")
    for rows, of_a_row in (("float32", 32), ("bfloat16", 16), ("int8", 12)):
        files = (model.exported(rows, "native") / "assets").glob("*.rows")  # type: ignore[arg-type]
        # Beside them the header, an index of at most 4 bytes a key, and 4 bytes for each 4096.
        most = max(file.stat().st_size for file in files)
        assert KEYS * (8 + of_a_row) < most < KEYS * (8 + of_a_row + 4) * 4100 // 4096 + 200


def test_files_of_a_model_are_sent_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from afo.train.exports import export

    together = threading.Barrier(8, timeout=60)
    monkeypatch.setattr(storage, "upload", lambda local_path, url: together.wait())
    (tmp_path / "export").mkdir()
    for number in range(16):
        (tmp_path / "export" / str(number)).touch()
    export.upload(tmp_path / "export", str(tmp_path / "model"))


def test_after_a_file_that_cannot_be_sent_no_other_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from afo.train.exports import export

    made, sent = tmp_path / "export", list[str]()
    (made / "assets").mkdir(parents=True)
    for number in range(100):
        (made / "assets" / f"{number}.rows").write_bytes(b"%d" % number)
    whole = storage.upload

    def refuse(local_path: str, url: str) -> None:
        sent.append(url)
        if len(sent) > 1:
            time.sleep(0.2)  # as a file takes
        raise StorageError("no room")

    monkeypatch.setattr(storage, "upload", refuse)
    with pytest.raises(StorageError, match="no room"):
        export.upload(made, str(tmp_path / "model"))
    assert 1 <= len(sent) < 100
    monkeypatch.setattr(storage, "upload", whole)
    export.upload(made, str(tmp_path / "model"))
    assert {path.name: path.read_bytes() for path in (tmp_path / "model" / "assets").iterdir()} == {
        f"{number}.rows": b"%d" % number for number in range(100)
    }
    assert not made.exists()


@pytest.mark.parametrize("which", sorted(MODELS))
def test_rows_of_fewer_bytes_make_a_smaller_model(trained: Callable[[str], TrainedModel], which: str) -> None:
    model = trained(which)
    plain, *smaller = [bytes_of_variables(model.exported(rows)) for rows in ROW_TYPES]
    weights = model.bytes_of_weights("float32")
    for rows, size in zip(ROW_TYPES[1:], smaller, strict=True):
        # All else is as it was, but for what an index says of each variable and of the scales.
        assert plain - size == pytest.approx(weights - model.bytes_of_weights(rows), abs=2000), rows


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("rows: int4", "export.rows: 'int4' does not fit; .*allowed: bfloat16, float32 or int8"),
        ("tables: fast", "export.tables: 'fast' does not fit; .*allowed: frozen, mapped or native"),
    ],
)
def test_an_unknown_value_is_an_error_that_names_those_that_are_allowed(
    tmp_path: Path, written: str, said: str
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text((ROOT / "conf" / "jobs" / "demo.yaml").read_text() + f"export: {{{written}}}\n")
    with pytest.raises(SpecError, match=said):
        load_job(path)
