"""A parameter server keeps every kernel and function that it was ever sent, so nobody may send new ones all the time.

A result that lies on a server is fetched by an operation with a name of its own each time; a function that is traced
again is another one. What these tests look at is built without servers.
"""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from afo.job import Data, Embedding, Job, Model, RoleSpec
from afo.state.step_clock import StepClock
from click_records import write_files

pytestmark = pytest.mark.tensorflow

ORIGIN: Any = SimpleNamespace(rules={}, sections=(), lineage=lambda *_: None, clock=StepClock())


@pytest.fixture
def job(tmp_path: Path) -> Job:
    write_files(tmp_path / "data", 1, 10)
    return Job(
        name="memory",
        roles={"ps": RoleSpec(instances=2), "worker": RoleSpec()},
        data=Data(schema="schema.yaml", train=(f"{tmp_path}/data/part-*",), sample_id="sample_id", batch_size=4),
        model=Model(hidden_units=(4,), embedding=Embedding(storage="dense")),
    )


def places(function: Any) -> list[str]:
    """Where its results lie. TensorFlow returns a copy of each, which has no device of its own."""
    return [output.op.inputs[0].device for output in function.outputs]


@pytest.mark.parametrize("storage", ["dense", "hash_table"])
@pytest.mark.parametrize("recovery", ["rollback", "partial"])
def test_what_a_step_returns_lies_in_the_worker(job: Job, schema_file: Path, recovery: str, storage: str) -> None:
    from msgspec.structs import replace

    from afo.state.variables import CLIENT_DEVICE
    from afo.train.setup import JobParts
    from afo.train.step import prepare_function, step_function

    model = replace(job.model, embedding=replace(job.model.embedding, storage=storage))
    job = replace(job, checkpoint=replace(job.checkpoint, on_ps_loss=recovery), model=model)
    parts = JobParts(job, str(schema_file))
    parameters = parts.model.parameters(2, 1)
    prepare = prepare_function(parts.model, parts.parser, 2)
    step = step_function(parts.model, parameters, prepare).get_concrete_function()
    assert places(step) == [CLIENT_DEVICE] * 4
    devices = {operation.device for operation in step.graph.get_operations()}
    assert {f"/job:ps/task:{index}/device:CPU:0" for index in (0, 1)} < devices, "the rest is done on the servers"


def test_the_functions_of_a_variable_are_traced_once_and_return_to_the_client() -> None:
    from afo.state.variables import CLIENT_DEVICE, PsVariable, VariableIo

    io = VariableIo(PsVariable("afo/positions", (5, 3), "int64", 1))
    for name in ("_read", "_gather", "_slice"):
        function = getattr(io, name)
        assert places(function) == [CLIENT_DEVICE]
        assert getattr(io, name) is function


def test_the_questions_about_hash_tables_are_traced_once_and_answered_at_home(job: Job, schema_file: Path) -> None:
    from msgspec.structs import replace

    from afo.state.variables import CLIENT_DEVICE
    from afo.train.setup import JobParts

    model = replace(job.model, embedding=replace(job.model.embedding, storage="hash_table"))
    group = JobParts(replace(job, model=model), str(schema_file)).model.parameters(2, 1).embeddings
    assert group is not None
    server = group.server(1)
    assert group.server(1) is server
    for of, name in ((server, "_sizes"), (server, "_begin_epoch"), (group.link(1), "_ask")):
        function = getattr(of, name)
        assert set(places(function)) == {CLIENT_DEVICE}
        assert getattr(of, name) is function


def test_a_checkpoint_is_made_with_the_functions_of_the_one_before(
    job: Job, schema_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np

    from afo.checkpoint.save import CheckpointWriter
    from afo.state.variables import VariableIo
    from afo.train.setup import JobParts

    used: list[VariableIo] = []

    def read(io: VariableIo) -> Any:
        used.append(io)
        return np.zeros(io.variable.shape, io.variable.dtype)

    monkeypatch.setattr(VariableIo, "read", read)
    monkeypatch.setattr(VariableIo, "chunks", lambda io: [(0, read(io))])
    parameters = JobParts(job, str(schema_file)).model.parameters(2, 1)
    writer = CheckpointWriter(parameters, str(tmp_path / "checkpoints"), tmp_path, 1, ORIGIN)
    for _ in range(2):
        writer.save(writer.begin(), final=False)
    variables = {io.variable for io in used}
    assert len(used) == 2 * len(variables)
    assert len({id(io) for io in used}) == len(variables)


def test_changes_alone_are_saved_but_never_on_what_was_given_up(
    job: Job, schema_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another attempt has saved of the same step counts; then one's own is no ground to stand on."""
    import numpy as np

    from afo.checkpoint import manifest
    from afo.checkpoint.manifest import Manifest
    from afo.checkpoint.save import CheckpointWriter
    from afo.embedding import TableGroup, get_embedding_variable
    from afo.state.variables import VariableIo
    from afo.train.setup import JobParts

    steps: list[int] = []
    monkeypatch.setattr(VariableIo, "chunks", lambda io: [(0, np.zeros(io.variable.shape, io.variable.dtype))])
    state = SimpleNamespace(
        read_records=lambda: {"step": np.int64(len(steps)), "positions": np.zeros((1, 3), np.int64)},
        read_weights=lambda: dict.fromkeys(parameters.dense.tensors, np.zeros(1, np.float32)),
    )
    monkeypatch.setattr("afo.checkpoint.save.server_states", lambda _: [state])
    group = TableGroup(name="saved by two")
    get_embedding_variable("users", 4, group=group)
    parameters = replace(JobParts(job, str(schema_file)).model.parameters(2, 1), embeddings=group)
    url = str(tmp_path / "checkpoints")
    one, other = (CheckpointWriter(parameters, url, tmp_path / name, 1, ORIGIN, full_every=3) for name in "ab")

    def saved(writer: CheckpointWriter, *, final: bool = False) -> Manifest:
        steps.append(len(steps))
        return manifest.read_manifest(writer.save(writer.begin(), final=final).url)

    first, second, third, fourth = (saved(one) for _ in range(4))
    assert [each.base for each in (first, second, third, fourth)] == [None, first.directory, second.directory, None]
    theirs = saved(other)
    steps.pop()
    assert saved(one) == theirs
    assert [saved(one).base is None for _ in range(2)] == [True, False]
    assert saved(one, final=True).base is None


def test_the_evaluator_traces_one_model_for_all_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    from afo.train.evaluator import Evaluator
    from afo.train.offline.scoring import Scorer

    local, evaluator, scorer = mock.Mock(), object.__new__(Evaluator), object.__new__(Scorer)
    evaluator._setup, evaluator._model, scorer._traced = mock.Mock(), None, None
    evaluator._memory = 1 << 30
    evaluator._setup.model.local.return_value = local
    traced = mock.Mock(side_effect=lambda _: object())
    monkeypatch.setattr(scorer, "_trace", traced)
    one, two = mock.Mock(is_large=False), mock.Mock(is_large=False)
    first = scorer._function(evaluator._load_model(one))
    assert scorer._function(evaluator._load_model(two)) is first
    evaluator._setup.model.local.assert_called_once_with(one)
    local.load.assert_called_once_with(two)
    traced.assert_called_once_with(local)


def test_the_evaluator_makes_one_more_model_once_its_tables_are_large() -> None:
    from afo.train.evaluator import Evaluator

    evaluator: Any = object.__new__(Evaluator)
    evaluator._setup, evaluator._scorer, evaluator._model, evaluator._memory = mock.Mock(), mock.Mock(), None, 1 << 30
    made = [mock.Mock(), mock.Mock()]
    evaluator._setup.model.local.side_effect = made
    large = [mock.Mock(is_large=each, url="m") for each in (False, False, True, True, True)]
    assert [made.index(evaluator._load_model(reader)) for reader in large] == [0, 0, 1, 1, 1]
    assert evaluator._memory == 0, "so that every later reader leaves its tables in files"
    evaluator._scorer.forget.assert_called_once()
    assert [each.load.call_count for each in made] == [1, 2]
