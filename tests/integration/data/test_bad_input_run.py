"""Bad input that only a run or a real cluster can find: each with its own message and exit code, no traceback."""

import json
import os
import re
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import afo as library
from adult import JOB_FILE, AdultData
from afo import storage
from afo.data.example import decode, encode
from afo.data.io.tfrecord import RecordWriter, read_records
from afo.hadoop.conf import read_properties
from afo.site.config import user_name
from click_records import SCHEMA, write_files
from live_job import afo

FILES, RECORDS = 3, 400
Submit = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small job for the `local` runtime; the checks before a start read the first records of the first file only."""
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    write_files(tmp_path / "train", FILES, RECORDS)
    (tmp_path / "schema.yaml").write_text(SCHEMA.to_yaml())
    job = {
        "name": "bad input",
        "roles": {"ps": {"memory": "1 GiB"}, "worker": {"memory": "1 GiB"}},
        "data": {"schema": "schema.yaml", "train": ["train/*"], "sample_id": "sample_id", "batch_size": 32},
        "model": {"hidden_units": [4], "embedding": {"dim": 2}},
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    return tmp_path


@pytest.fixture
def submit(folder: Path) -> Submit:
    """Runs the job, which must fail with exit code 1 and no traceback in what is shown; gives the JSON object."""

    def run(*settings: str, cause: str, traceback: bool = False) -> dict[str, Any]:
        options = [option for setting in settings for option in ("--set", setting)]
        done = afo("submit", str(folder / "job.yaml"), "--runtime", "local", "--wait", "--json", *options)
        assert done.returncode == 1, done.stderr
        assert ("Traceback" in done.stderr) == traceback, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        assert (answer["state"], answer["cause"], answer["exit_code"]) == ("FAILED", cause, 1), done.stderr
        answer["stderr"] = done.stderr
        return answer

    return run


@pytest.mark.tensorflow
def test_more_bad_records_than_allowed_end_the_job_with_the_place_of_one(folder: Path, submit: Submit) -> None:
    path = folder / "train" / "part-01.tfrecord"
    records = list(read_records(str(path)))
    for number in range(150, 170):
        records[number] = encode({name: values for name, values in decode(records[number]).items() if name != "label"})
    with RecordWriter(str(path)) as writer:
        writer.write_all(records)
    answer = submit("data.max_bad_records=0.01", "data.shuffle.files=false", cause="data_error")
    assert answer["bad_records"] == 20
    assert "20 of " in answer["diagnostics"]
    assert "`data.max_bad_records` allows a share of 0.01" in answer["diagnostics"]
    place = re.search(rf"{path}: record at offset (\d+): it holds 0 values of `label`", answer["diagnostics"])
    assert place is not None, answer["diagnostics"]
    assert int(place[1]) in [sum(len(record) + 16 for record in records[:number]) for number in range(150, 170)]


@pytest.mark.tensorflow
@pytest.mark.parametrize("damage", ["flip", pytest.param("cut", marks=pytest.mark.slow)])
def test_a_damaged_file_is_named_with_its_offset(folder: Path, submit: Submit, damage: str) -> None:
    path = folder / "train" / "part-01.tfrecord"
    records = list(read_records(str(path)))
    offset = sum(len(record) + 16 for record in records[:300])
    data = bytearray(path.read_bytes())
    data[offset + 20] ^= 0xFF
    path.write_bytes(data if damage == "flip" else data[: offset + 30])
    answer = submit(cause="data_error")
    for text in (answer["failure"]["tail"], answer["stderr"]):
        assert str(path) in text
        assert f"offset {offset}" in text
        assert ("is cut off" if damage == "cut" else "is damaged") in text


@pytest.mark.tensorflow
def test_a_record_that_does_not_fit_the_schema_is_named(folder: Path, submit: Submit) -> None:
    path = folder / "train" / "part-02.tfrecord"
    records = [decode(record) for record in read_records(str(path))]
    with RecordWriter(str(path)) as writer:
        writer.write_all(
            encode({**each, **({"liked": [1, 2, 3]} if n == 200 else {})}) for n, each in enumerate(records)
        )
    answer = submit(cause="data_error")
    assert f"{path}: record at offset" in answer["stderr"]
    assert "`liked` holds 3 values" in answer["stderr"]


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_feature_that_is_not_a_number_is_named(folder: Path, submit: Submit) -> None:
    path = folder / "train" / "part-02.tfrecord"
    records = [decode(record) for record in read_records(str(path))]
    with RecordWriter(str(path)) as writer:
        writer.write_all(
            encode({**each, **({"age": [float("nan")]} if n == 200 else {})}) for n, each in enumerate(records)
        )
    answer = submit(cause="not_finite")
    assert "part-02.tfrecord" in answer["stderr"]
    assert "`age`" in answer["stderr"]


@pytest.mark.tensorflow
def test_the_last_lines_of_a_model_that_raises_are_shown_at_once(folder: Path, submit: Submit) -> None:
    own = folder / "my modules"
    own.mkdir()
    (own / "keras.py").write_text('raise RuntimeError("these layers need Keras 1")\n')
    answer = submit(f"environment.variables={{PYTHONPATH: {own}}}", cause="user_exception", traceback=True)
    assert "RuntimeError: these layers need Keras 1" in answer["stderr"]
    assert "keras.py" in answer["failure"]["tail"]
    # The program's own fault is not tried five times: the second process that raises it is the last.
    assert answer["restarts"] <= 2
    assert "the same exception came again" in answer["diagnostics"]


@pytest.mark.slow
@pytest.mark.tensorflow
def test_another_version_of_afo_in_the_container(folder: Path, submit: Submit) -> None:
    wrapper = _other_version(folder)
    answer = submit(f"environment.python={wrapper}", cause="version_mismatch")
    for part in ("has afo 0.0.7", f"submitted with afo {library.__version__}", "environment.python"):
        assert part in answer["diagnostics"]


def _other_version(folder: Path) -> Path:
    """An interpreter that finds an afo 0.0.7 first."""
    shadow = folder / "other"
    shutil.copytree(Path(library.__file__).parent, shadow / "afo", ignore=shutil.ignore_patterns("__pycache__"))
    text = (shadow / "afo" / "__init__.py").read_text()
    (shadow / "afo" / "__init__.py").write_text(text.replace(library.__version__, "0.0.7"))
    wrapper = folder / "python"
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH="{shadow}" exec "{sys.executable}" "$@"\n')
    wrapper.chmod(0o755)
    return wrapper


@pytest.mark.slow
@pytest.mark.hadoop
def test_another_version_of_afo_in_the_masters_container(adult: AdultData, tmp_path: Path) -> None:
    setting = f"environment.python={_other_version(tmp_path)}"
    done = afo("submit", str(JOB_FILE), *adult.options, "--set", setting, "--wait", "--json")
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    answer = json.loads(done.stdout)
    assert answer["state"] == "FAILED"
    for part in (f"submitted with afo {library.__version__}", "container has 0.0.7", "environment.python"):
        assert part in answer["diagnostics"]


def refused(code: int, options: list[str], *parts: str) -> None:
    """`afo submit` ends with `code` before anything is sent, and says each part."""
    done = afo("submit", str(JOB_FILE), *options)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr
    for part in parts:
        assert part in done.stderr


@pytest.mark.hadoop
def test_what_a_real_cluster_cannot_give(adult: AdultData, monkeypatch: pytest.MonkeyPatch) -> None:
    before = storage.list_dir(adult.jobs_root) if storage.exists(adult.jobs_root) else []
    options = list(adult.options)
    refused(3, [*options, "--set", "queue=defualt"], "$.queue", "'defualt'", "did you mean 'default'?")
    refused(3, [*options, "--set", "roles.ps.memory=900 GiB"], "$.roles.ps.memory: 900 GiB", "the largest is 6 GiB")
    storage.make_dirs("hdfs:///locked", mode=0o700)
    storage.make_dirs("hdfs:///tmp/alice", mode=0o777)
    monkeypatch.setenv("HADOOP_USER_NAME", "alice" if user_name() != "alice" else "bob")
    monkeypatch.setenv("AFO_JOBS_ROOT", "hdfs:///tmp/alice/jobs")
    refused(4, [*options, "--set", "checkpoint.dir=hdfs:///locked/x"], "cannot write into hdfs:///locked/x", "another")
    monkeypatch.undo()
    assert (storage.list_dir(adult.jobs_root) if storage.exists(adult.jobs_root) else []) == before


@pytest.mark.hadoop
def test_a_cluster_that_is_not_there_or_demands_kerberos(
    adult: AdultData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path(os.environ["HADOOP_CONF_DIR"])
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        _configure(tmp_path / "gone", real, {"yarn.resourcemanager.webapp.address": address}, monkeypatch)
        refused(6, list(adult.options), f"the ResourceManager at http://{address}", "does not answer")
        _configure(tmp_path / "no-hdfs", real, {"fs.defaultFS": f"hdfs://{address}"}, monkeypatch)
        refused(6, list(adult.options), address)
    _configure(tmp_path / "secure", real, {"hadoop.security.authentication": "kerberos"}, monkeypatch)
    monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "none"))
    refused(4, list(adult.options), "no valid ticket", "run `kinit`")


def _configure(folder: Path, real: Path, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Point $HADOOP_CONF_DIR at a copy of the cluster's configuration with other settings."""
    shutil.copytree(real, folder)
    for file in folder.glob("*-site.xml"):
        properties = {**read_properties(file), **settings}
        text = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in properties.items())
        file.write_text(f"<configuration>{text}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(folder))
