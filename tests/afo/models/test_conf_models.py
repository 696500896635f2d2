"""The models of conf/models: Keras code ported by one import, what it was before, its job file."""

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from afo.data.schema import read_schema
from afo.job.loader import load_job
from afo_client.cli.main import run
from conf_models import MODELS, NAMES, PORTED, is_sequence_model, write_public, write_small

each_model = pytest.mark.parametrize("name", NAMES)


def test_every_model_is_listed() -> None:
    assert sorted(path.name for path in MODELS.iterdir()) == list(NAMES)


@each_model
def test_a_port_changes_one_import(name: str, tmp_path: Path) -> None:
    source = (MODELS / name / "model.py").read_text()
    assert source.splitlines().count(PORTED) == 1
    assert not re.search(r"import afo|from afo", write_public(name, tmp_path).read_text())


@each_model
def test_the_job_file_is_valid_and_reads_what_the_model_does(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    write_small(name, tmp_path / "data", 40)
    file = MODELS / name / "job.yaml"
    given = f"data={tmp_path}/data"
    # One of them is enough to show that such a file's first step can be tried.
    trial = "--trial" if name == "din" else "--no-trial"
    assert run(["validate", str(file), trial, "--runtime", "local", "--var", given]) == 0, capsys.readouterr().err
    job = load_job(file, variables={"data": f"{tmp_path}/data"})
    assert job.model.entry == f"{MODELS / name / 'model.py'}:build"
    [command] = [line for line in file.read_text().splitlines() if line.startswith("#   afo ")]
    assert shlex.split(command)[3] == str(file.relative_to(MODELS.parents[1]))
    assert read_schema(job.data.schema).sample_id == job.data.sample_id


def load(file: Path) -> ModuleType:
    """A file of a model as a module of its own."""
    spec = importlib.util.spec_from_file_location(f"{file.parent.name}_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def seeded() -> Iterator[Any]:
    """Keras, its random numbers drawn anew from 1 by each call, and no graph left behind."""
    keras = pytest.importorskip("keras")
    yield lambda: keras.utils.set_random_seed(1)
    keras.backend.clear_session()


@pytest.mark.tensorflow
@each_model
def test_public_code_trains_by_itself_and_its_port_does_the_same(name: str, tmp_path: Path, seeded: Any) -> None:
    write_small(name, tmp_path)
    losses, predictions = [], []
    epochs = 6 if is_sequence_model(name) else 3  # attention learns late
    for file in (write_public(name, tmp_path), MODELS / name / "model.py"):
        module = load(file)
        seeded()
        model = module.build()
        features, labels = module.load(f"{tmp_path}/train/*.tfrecord")
        fitted = model.fit(features, labels, batch_size=50, epochs=epochs, shuffle=False, verbose=0)
        losses.append(fitted.history["loss"])
        predictions.append(model.predict(features, batch_size=600, verbose=0))
    assert losses[0][-1] < losses[0][0]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert [each.shape for each in as_list(predictions[1])] == [(600, 1)] * len(as_list(labels))


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@each_model
def test_the_schema_names_what_the_model_reads(name: str) -> None:
    text = (MODELS / name / "model.py").read_text()
    schema = read_schema(MODELS / name / "schema.yaml")
    assert not [each for each in schema.names if f'"{each}"' not in text]
    assert is_sequence_model(name) == any(feature.max_length for feature in schema.features)
