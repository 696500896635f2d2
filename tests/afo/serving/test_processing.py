"""The processor's answers beside TensorFlow's own to the bit, and its refusals, by its Python interface."""

import ctypes
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afo.data.io.tfrecord import read_records
from afo.errors import AfoError, SpecError
from afo.ops.library import available
from afo.serving import Processor
from afo.serving.predict_messages import outputs_of, request_of
from processor_build import require_processor
from trained_model import TrainedModel

pytestmark = pytest.mark.tensorflow

ROOT = Path(__file__).parents[3]


class Exported:
    """A model's export, its records, and what TensorFlow answers to them."""

    def __init__(self, model: TrainedModel) -> None:
        self.directory = model.exported("float32", "native")
        self.records = list(read_records(str(model.records)))
        self.scores = model.served(self.directory, available())


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    require_processor()
    folder = tmp_path_factory.mktemp("exported")
    return Exported(TrainedModel(folder, folder / "schema.yaml", "hashed"))


@pytest.fixture(scope="module")
def served(exported: Exported) -> Iterator[Processor]:
    with Processor(str(exported.directory)) as model:
        yield model


def test_records_are_answered_as_tensorflow_does_to_the_bit(exported: Exported, served: Processor) -> None:
    answered = served.predict({"examples": exported.records})
    assert list(answered) == ["probabilities"]
    np.testing.assert_array_equal(answered["probabilities"], exported.scores)
    found = served.info()
    assert found.pop("model_path") == str(exported.directory)
    signatures = found.pop("signatures")
    files = sum(path.stat().st_size for path in exported.directory.rglob("*.rows"))
    assert (found.pop("layers"), found.pop("table_bytes"), found.pop("shared_table_bytes")) == (1, files, 0)
    assert found == {
        "signature_name": "serving_default", "labels": ["label"], "rows": "float32", "step": 7, "tables": "native",
    }  # fmt: skip
    assert sorted(signatures) == ["predict", "serving_default"]
    assert signatures["serving_default"] == {
        "method_name": "tensorflow/serving/predict",
        "inputs": {"examples": {"dtype": "DT_STRING", "shape": [-1]}},
        "outputs": {"probabilities": {"dtype": "DT_FLOAT", "shape": [-1]}},
    }
    assert signatures["predict"]["inputs"]["age"] == {"dtype": "DT_FLOAT", "shape": [-1, 1]}


def test_an_export_that_looks_tables_up_one_by_one_answers_the_same(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of earlier versions do."""
    from afo.trainable.served.frozen_table import FrozenTable
    from afo.trainable.served.native_table import NativeTable

    together = b"AfoLookupServedTables"
    assert together in (exported.directory / "saved_model.pb").read_bytes()
    monkeypatch.setattr(NativeTable, "lookup_all", FrozenTable.lookup_all)
    earlier = TrainedModel(tmp_path, tmp_path / "schema.yaml", "hashed").exported("float32", "native")
    assert together not in (earlier / "saved_model.pb").read_bytes()
    with Processor(str(earlier)) as model:
        np.testing.assert_array_equal(model.predict({"examples": exported.records})["probabilities"], exported.scores)


def test_features_are_inputs_of_the_other_signature(exported: Exported) -> None:
    import tensorflow as tf

    inputs = {
        "user": np.array([[3], [5]]), "city": [[b"Ulm"], [b"Bonn"]], "liked": np.array([[3, 21, 0], [5, 35, 0]]),
        "age": np.float32([[23], [25]]), "net_income": np.float32([[1000], [np.nan]]),
    }  # fmt: skip
    config = {"signature_name": "predict", "intra_op_parallelism_threads": 1, "enable_inline_execute": False}
    with Processor(str(exported.directory), **config) as model:
        loaded = tf.saved_model.load(str(exported.directory))  # its tables go with it
        signature = loaded.signatures["predict"]
        shapes = {name: spec.shape for name, spec in signature.structured_input_signature[1].items()}
        inputs["liked"] = np.zeros((2, shapes["liked"][1]), np.int64)
        expected = signature(**{name: tf.constant(value) for name, value in inputs.items()})
        np.testing.assert_array_equal(model.predict(inputs)["probabilities"], expected["probabilities"])
        for changed, words in (
            ({"age": np.int64([[1], [2]])}, "input `age` is DT_INT64; the model takes DT_FLOAT"),
            ({"age": np.float32([[1, 2], [3, 4]])}, r"input `age` has the shape \[2,2\]; the model takes \[\?,1\]"),
            ({"user": np.int64([[1]])}, "input `user` has 1 rows where `age` has 2"),
            ({"wealth": np.int64([1])}, "input `wealth` is none of signature predict, whose inputs are age, city, "),
        ):
            with pytest.raises(SpecError, match=words):
                model.predict({**inputs, **changed})
        with pytest.raises(SpecError, match="input `city` is missing"):
            model.predict({name: value for name, value in inputs.items() if name != "city"})


def test_a_request_chooses_its_signature(exported: Exported, served: Processor) -> None:
    asked = {"examples": exported.records}
    for signature in ("", "serving_default"):
        answer = outputs_of(served.process(request_of(asked, signature)))
        np.testing.assert_array_equal(answer["probabilities"], exported.scores)
    with pytest.raises(SpecError, match="input `age` is missing"):
        served.process(request_of(asked, "predict"))
    for signature in ("score", "__saved_model_init_op"):
        words = f"signature `{signature}` is not served; those that are: predict, serving_default"
        with pytest.raises(SpecError, match=words):
            served.process(request_of(asked, signature))
    with pytest.raises(SpecError, match="request 1 of the batch: it asks for signature predict, and the first for "):
        served.batch_process([request_of(asked), request_of(asked, "predict")])


def test_several_requests_are_one_batch(exported: Exported, served: Processor) -> None:
    parts = [exported.records[:3], [], exported.records[3:4], exported.records[4:]]
    requests = [request_of({"examples": np.array(part, object)}) for part in parts]
    answers = [outputs_of(answer)["probabilities"] for answer in served.batch_process(requests)]
    assert [len(answer) for answer in answers] == [len(part) for part in parts]
    np.testing.assert_array_equal(np.concatenate(answers), exported.scores)
    assert served.batch_process([]) == []
    with pytest.raises(SpecError, match="request 1 of the batch: the PredictRequest is cut off"):
        served.batch_process([requests[0], b"\x12\x05x"])


def test_many_threads_are_answered_at_once(exported: Exported, served: Processor) -> None:
    wrong: list[Any] = []
    asked = {first: {"examples": exported.records[first : first + 5]} for first in range(60)}
    alone = {first: served.predict(inputs)["probabilities"] for first, inputs in asked.items()}

    def ask(number: int) -> None:
        for first in range(number, 60, 4):
            found = served.predict(asked[first])["probabilities"]
            if not np.array_equal(found, alone[first]):
                wrong.append(first)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_record_that_is_damaged_is_the_requests_fault(exported: Exported, served: Processor) -> None:
    with pytest.raises(SpecError, match="record 1 of the batch: is no "):
        served.predict({"examples": [exported.records[0], b"junk"]})
    with pytest.raises(SpecError, match="input `examples` is missing"):
        served.process(b"")


@given(place=st.integers(0, 400), byte=st.integers(0, 255), cut=st.integers(0, 400))
@settings(max_examples=150)
def test_changed_bytes_are_answered_or_refused(
    exported: Exported, served: Processor, place: int, byte: int, cut: int
) -> None:
    request = bytearray(request_of({"examples": exported.records[:3]}))
    request[place % len(request)] = byte
    with suppress(SpecError):
        answer = served.process(bytes(request[: len(request) - cut % 3 * cut]))
        assert outputs_of(answer)["probabilities"].ndim == 1


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"session_numb": 2}, r"\$\.session_numb is no key; keys are savedmodel_dir, "),
        ({"signature_name": ""}, r'\$\.signature_name is ""; allowed: a text that is not empty'),
        ({"intra_op_parallelism_threads": -1}, r"is -1; allowed: 0 \(as many as there are cores\) to 1024"),
        ({"serialize_protocol": "flatbuffer"}, r'is "flatbuffer"; allowed: "protobuf"'),
        ({"enable_inline_execute": 1}, "is 1; allowed: true or false"),
        ({"session_num": 0}, r"\$\.session_num is 0; allowed: 1 to 64"),
        ({"select_session_policy": "LRU"}, r'is "LRU"; allowed: "RR" \(in turn\) or "MOD"'),
        ({"cpusets": "3-1"}, r'\$\.cpusets is "3-1"; allowed: "auto", or .*"0-3;4,6"'),
        ({"cpusets": "0;1"}, r"\$\.cpusets has 2 sets of processors and \$\.session_num is 1"),
        ({"cpusets": "1023"}, r"\$\.cpusets names processor 1023; this process may use [0-9]"),
        ({"signature_name": "score"}, "it has no signature score; it has .*predict, serving_default"),
        ({"savedmodel_dir": "nowhere"}, r"cannot serve nowhere: there is no SavedModel \(saved_model.pb\)"),
    ],
)
def test_what_cannot_be_served_is_said(exported: Exported, config: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        Processor(**{"savedmodel_dir": str(exported.directory), **config})


@pytest.mark.parametrize("options", [{}, {"enable_inline_execute": False}, {"select_session_policy": "MOD"}])
def test_groups_of_threads_answer_on_their_own_processors(exported: Exported, options: dict[str, Any]) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    sets = [allowed[0], allowed[-1]]
    before = set(os.listdir("/proc/self/task"))
    with Processor(str(exported.directory), session_num=2, cpusets=";".join(map(str, sets)), **options) as model:
        for _ in range(3):
            answered = model.predict({"examples": exported.records})["probabilities"]
            np.testing.assert_array_equal(answered, exported.scores)
        found = {}
        for task in set(os.listdir("/proc/self/task")) - before:
            name = Path(f"/proc/self/task/{task}/comm").read_text().strip()
            if name.startswith("tf_afo_"):
                found[name] = os.sched_getaffinity(int(task))
    assert found == {f"tf_afo_{what}{number}": {sets[number]} for what in ("intra", "request") for number in range(2)}
    assert os.sched_getaffinity(0) == set(allowed)


def test_groups_without_processors_of_their_own_answer_the_same(exported: Exported) -> None:
    with Processor(str(exported.directory), session_num=3, intra_op_parallelism_threads=2) as model:
        for _ in range(4):
            answered = model.predict({"examples": exported.records})["probabilities"]
            np.testing.assert_array_equal(answered, exported.scores)


def test_a_closed_model_answers_nothing(exported: Exported) -> None:
    model = Processor(str(exported.directory))
    model.close()
    model.close()
    with pytest.raises(AfoError, match="was closed"):
        model.info()


def test_memory_that_is_free_goes_back_to_the_machine_with_a_model(exported: Exported) -> None:
    """64 MiB in pieces that malloc keeps where the last one is held."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    pieces = [libc.malloc(1 << 14) for _ in range(4096)]
    for each in pieces:
        ctypes.memset(each, 1, 1 << 14)
    *others, last = pieces
    for each in others:
        libc.free(each)
    kept = own_mib()
    Processor(str(exported.directory)).close()
    assert own_mib() < kept - 32
    libc.free(last)


def own_mib() -> float:
    """Of this process, and of no file."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon:")]
    return int(line.split()[1]) / 1024


def test_a_request_has_not_more_rows_than_it_may(served: Processor) -> None:
    # A shape costs nothing: one value stands for all.
    shape = b"\x12\x06\x12\x04\x08\x81\x80\x04"  # [65537]
    tensor = b"\x08\x07" + shape + b"\x42\x00"
    entry = b"\x0a\x08examples\x12" + bytes([len(tensor)]) + tensor
    with pytest.raises(SpecError, match="input `examples` has 65537 rows; a request may have 65536 at most"):
        served.process(b"\x12" + bytes([len(entry)]) + entry)


def test_a_model_that_is_not_whole_is_not_served(exported: Exported, tmp_path: Path) -> None:
    copy = tmp_path / "copied"
    shutil.copytree(exported.directory, copy)
    (copy / "variables" / "variables.index").rename(tmp_path / "index")
    with pytest.raises(SpecError, match=rf"cannot serve {copy}: its variables are not there"):
        Processor(str(copy))
    (tmp_path / "index").rename(copy / "variables" / "variables.index")
    # Another model's table: of the other width.
    by_width = {
        int.from_bytes(path.read_bytes()[12:16], "little"): path for path in (copy / "assets").glob("table-*.rows")
    }
    shutil.copy(by_width[1], by_width[8])
    with pytest.raises(SpecError, match=r"the table has rows of 1 weights, and the model wants 8"):
        Processor(str(copy))


def test_a_description_of_any_depth_is_read(exported: Exported, tmp_path: Path) -> None:
    copy = tmp_path / "deep"
    shutil.copytree(exported.directory, copy)
    (copy / "assets.extra" / "afo.json").write_text('{"step": 7, "labels": ' + "[" * 1_000_000 + "]" * 1_000_000 + "}")
    with Processor(str(copy)) as model:
        assert model.info()["step"] == 7


def test_a_table_that_is_no_file_is_refused_at_once(exported: Exported, tmp_path: Path) -> None:
    copy = tmp_path / "fifo"
    shutil.copytree(exported.directory, copy)
    table = next((copy / "assets").glob("table-*.rows"))
    table.unlink()
    os.mkfifo(table)
    with pytest.raises(SpecError, match=rf"{table.name} is no table of a served model: it is no regular file"):
        Processor(str(copy))


def test_a_damaged_table_is_not_served(exported: Exported, tmp_path: Path) -> None:
    copy = tmp_path / "damaged"
    shutil.copytree(exported.directory, copy)
    table = next((copy / "assets").glob("table-*.rows"))
    table.write_bytes(table.read_bytes()[:-10])
    with pytest.raises(SpecError, match=rf"cannot serve {copy}: .*{table.name} is no table of a served model"):
        Processor(str(copy))


def test_it_serves_without_tensorflows_python(exported: Exported, tmp_path: Path) -> None:
    program = (
        "import sys\nfrom afo.serving import Processor\n"
        "with Processor(sys.argv[1]) as model: print(model.info()['step'])\n"
        "assert 'tensorflow' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, exported.directory], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr


def test_the_host_of_the_page_answers(exported: Exported, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "serving.md").read_text()
    source = page.partition("```c\n")[2].partition("```")[0]
    (tmp_path / "host.c").write_text(source)
    library, tensorflow = ROOT / "afo" / "serving" / "libafo_processor.so", _tensorflow()
    words = ["gcc", "-Wall", "-Werror", "host.c", f"-I{ROOT}", str(library), "-o", "host"]
    linked = [f"-Wl,-rpath,{library.parent}", f"-Wl,-rpath-link,{tensorflow}"]
    subprocess.run(words + linked, check=True, cwd=tmp_path)
    config = json.dumps({"savedmodel_dir": str(exported.directory)})
    request = request_of({"examples": exported.records})
    there = {**os.environ, "LD_LIBRARY_PATH": str(tensorflow)}
    done = subprocess.run([tmp_path / "host", config], input=request, capture_output=True, check=False, env=there)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(outputs_of(done.stdout)["probabilities"], exported.scores)
    done = subprocess.run([tmp_path / "host", "{}"], capture_output=True, check=False, env=there)
    assert b"model_config: $.savedmodel_dir is missing" in done.stderr


def _tensorflow() -> Path:
    found = importlib.util.find_spec("tensorflow")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent
