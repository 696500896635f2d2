"""`checkpoint.on_ps_loss: partial` with real processes: the servers that are left keep every value that they hold."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from afo.checkpoint.restore import CheckpointReader
from afo.formats.units import Interval
from afo.job import Checkpoint, Data, Embedding, Job, Model, RoleSpec, Shuffle, Train
from afo.train.setup import JobParts
from click_records import expected_acks, write_files
from training_job import JobRun, wait_until

pytestmark = pytest.mark.tensorflow

FILES, RECORDS = 6, 1000
SERVERS = 3
RunJob = Callable[..., JobRun]


@pytest.fixture
def run(tmp_path: Path, schema_file: Path, run_job: RunJob) -> JobRun:
    """Three servers and a chief that has trained, saved, gone on for a while, and is dead now."""
    return begun(tmp_path, schema_file, run_job, "dense")


def begun(tmp_path: Path, schema_file: Path, run_job: RunJob, storage: Literal["dense", "hash_table"]) -> JobRun:
    write_files(tmp_path / "data", FILES, RECORDS)
    job = Job(
        name="clicks",
        roles={"ps": RoleSpec(instances=SERVERS), "worker": RoleSpec()},
        data=Data(
            schema="schema.yaml", train=(f"{tmp_path}/data/part-*",), sample_id="sample_id", batch_size=32, epochs=2,
            shuffle=Shuffle(buffer=300),
        ),
        model=Model(hidden_units=(8,), embedding=Embedding(dim=4, storage=storage)),
        train=Train(eval_every=Interval("2s")),
        checkpoint=Checkpoint(on_ps_loss="partial"),
    )  # fmt: skip
    run = run_job(job, schema_file)
    run.start_servers()
    run.start("worker", 0)
    wait_until(lambda: bool(run.master.checkpoints), "a checkpoint is made")
    step = run.master.checkpoints[0].step
    wait_until(lambda: run.progress["worker:0"].step > step + 20, "training goes on")
    run.kill("worker:0")
    run.master.task_lost("worker:0")
    return run


def server_of(name: str) -> int:
    """Index of the server that holds a variable."""
    last = name.rpartition("/")[2]
    return int(last.removeprefix("copy")) if last.removeprefix("copy").isdigit() else 0


def recover(run: JobRun, lost: tuple[int, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the servers held before the loss, and after the chief has restored what was lost."""
    before = run.server_values("worker:0")
    for index in lost:
        run.kill(f"ps:{index}")
    run.master.restore = run.master.checkpoints[-1].manifest
    run.master.holds_back = True
    run.next_generation(lost)
    run.start("worker", 0)
    wait_until(lambda: run.master.ready, "the chief has restored what was lost")
    return before, run.server_values("worker:0")


def restored_again(run: JobRun, first: dict[str, Any]) -> None:
    """A chief that dies while it restores is followed by one that comes to the same."""
    run.kill("worker:0")
    run.master.ready = False
    run.start("worker", 0)
    wait_until(lambda: run.master.ready, "the chief has restored once more")
    second = run.server_values("worker:0")
    for name, value in first.items():
        np.testing.assert_array_equal(second[name], value, name)


def finish(run: JobRun) -> None:
    """Train the rest: each sample counts once an epoch."""
    run.master.holds_back = False
    run.finish("worker:0")
    expected = expected_acks(FILES, RECORDS)
    assert run.master.acks == {(row, epoch): expected[row] for row in range(FILES) for epoch in range(2)}
    assert run.master.problems == []
    assert [(row, *ack) for row, ack in enumerate(expected)] == [
        (row, count, xor) for row, _, count, xor in run.master.checkpoints[-1].positions
    ]


@pytest.mark.parametrize("lost", [(0,), pytest.param((1, 2), marks=pytest.mark.slow)])
def test_what_was_not_lost_keeps_its_values(run: JobRun, tmp_path: Path, lost: tuple[int, ...]) -> None:
    before, after = recover(run, lost)
    kept = [name for name in before if server_of(name) not in lost]
    assert {server_of(name) for name in kept} == set(range(SERVERS)) - set(lost)
    for name in kept:
        np.testing.assert_array_equal(after[name], before[name], name)
    # Nobody trained at the loss, so both places of a counter held the same.
    for name in ("afo/positions", "afo/step"):
        np.testing.assert_array_equal(after[name], before[name])
        np.testing.assert_array_equal(after[f"{name}/copy1"], before[name])
    with CheckpointReader(run.master.restore, tmp_path) as saved:
        assert saved.manifest.step < int(before["afo/step"])
        for index in lost:
            (_, rows) = saved.parts("deep")[index]
            np.testing.assert_array_equal(after[f"afo/deep/{index}"], rows)
            assert (before[f"afo/deep/{index}"] != rows).any()
        for tensor in ("dense", "dense.accumulator"):
            whole = saved.whole(tensor)
            shards = [after[f"afo/{tensor.replace('.', '/')}/{index}"] for index in range(SERVERS)]
            first = 0
            for index, shard in enumerate(shards):
                same = (shard == whole[first : first + len(shard)]).all()
                assert same == (index in lost), (tensor, index)
                first += len(shard)
    report = run.master.readies[1]
    assert (report.restored, report.step) == (run.master.restore, int(before["afo/step"]))
    assert report.positions == tuple(
        (row, epoch, count, xor % 2**64)
        for row, (epoch, count, xor) in enumerate(before["afo/positions"].tolist())
        if epoch >= 0
    )
    restored_again(run, after)
    if 0 in lost:
        finish(run)


def test_hash_tables_keep_what_was_not_lost_and_get_the_rest_back(
    tmp_path: Path, schema_file: Path, run_job: RunJob
) -> None:
    run = begun(tmp_path, schema_file, run_job, "hash_table")
    before, after = recover(run, (1,))
    with CheckpointReader(run.master.restore, tmp_path) as saved:
        names = ("user", "city", "liked", "age")
        tables = saved.hash_tables({f"deep/{name}": 4 for name in names} | {f"wide/{name}": 1 for name in names})
    for name, (keys, weights) in tables.items():
        for server in (0, 2):
            for what in ("keys", "values"):
                place = f"{name}/{what}/{server}"
                np.testing.assert_array_equal(after.get(place, 0), before.get(place, 0), place)
        kept = [before[f"{name}/keys/{server}"] for server in (0, 2) if f"{name}/keys/{server}" in before]
        lost = ~np.isin(keys, np.concatenate([keys[:0], *kept]))
        if lost.any():
            np.testing.assert_array_equal(after[f"{name}/keys/1"], keys[lost])
            np.testing.assert_array_equal(after[f"{name}/values/1"][:, : weights.shape[1]], weights[lost])
    # A checkpoint taken early has fewer rows.
    assert not np.array_equal(before["deep/user/values/1"], after["deep/user/values/1"]), "it had trained on"
    restored_again(run, after)
    finish(run)


@pytest.mark.parametrize(
    ("on_ps_loss", "servers", "copies"), [("partial", 2, 2), ("partial", 1, 0), ("rollback", 2, 0)]
)
def test_only_jobs_that_keep_servers_write_the_position_twice(
    schema_file: Path, on_ps_loss: str, servers: int, copies: int
) -> None:
    job = Job(
        name="clicks", roles={"ps": RoleSpec(instances=2), "worker": RoleSpec()},
        data=Data(schema="schema.yaml", train=("part-*",)), model=Model(hidden_units=(8,)),
        checkpoint=Checkpoint(on_ps_loss=on_ps_loss),  # type: ignore[arg-type]
    )  # fmt: skip
    assert len(JobParts(job, str(schema_file)).model.parameters(servers, FILES).copies) == copies
