"""A warm start with real processes: every number that is kept lies where the new model looks for it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from afo.checkpoint.restore import CheckpointReader
from afo.checkpoint.tensor_map import Section
from afo.data.schema import Schema
from afo.job import (
    Checkpoint,
    Data,
    Embedding,
    Ftrl,
    Job,
    Model,
    Optimizer,
    OptimizerChoice,
    RoleSpec,
    Schedule,
    Sgd,
    Train,
    WarmStart,
    Wide,
)
from afo.tables.saved_tables import read_rows
from daily_clicks import schema, write_day
from training_job import JobRun

pytestmark = pytest.mark.tensorflow

#: So small that no weight moves by it.
STILL = 1e-30
BUCKETS = Embedding(dim=4, hash_buckets=50, storage="dense")


def job_of(
    directory: Path, servers: int, crosses: tuple[tuple[str, ...], ...],
    embedding: Embedding = BUCKETS, **sections: Any,
) -> Job:  # fmt: skip
    return Job(
        name="clicks",
        roles={"ps": RoleSpec(instances=servers), "worker": RoleSpec()},
        data=Data(schema="schema.yaml", train=(f"{directory}/part-*",), sample_id="sample_id", batch_size=64),
        model=Model(
            hidden_units=(8,), embedding=embedding, wide=Wide(crosses=crosses, cross_buckets=64),
        ),
        **sections,
    )  # fmt: skip


def trained(run: JobRun) -> str:
    """Run the job; the manifest of its final checkpoint."""
    run.start_servers()
    run.finish(run.start("worker", 0))
    return run.master.checkpoints[-1].manifest


def schema_file(path: Path, content: Schema) -> Path:
    path.write_text(content.to_yaml())
    return path


def values(reader: CheckpointReader, section: Section) -> Any:
    """What a checkpoint holds of a section: [rows, width] or [values]."""
    if section.tensor == "dense":
        return reader.whole("dense")[section.first : section.first + section.count]
    width = reader.parts(section.tensor)[0][1].shape[1]
    table = reader.table(section.tensor, reader.manifest.rows[section.tensor.split(".")[0]], width)
    return table[section.first : section.first + section.count]


def kept(old: CheckpointReader, new: CheckpointReader) -> Iterator[tuple[Section, Section]]:
    """Sections of the same name and kind, the running sums excepted: those go on."""
    before = {(each.tensor, each.name, each.kind): each for each in old.manifest.sections}
    for section in new.manifest.sections:
        if section.tensor != "statistics" and (key := (section.tensor, section.name, section.kind)) in before:
            yield before[key], section


def assert_moved_with_its_state(
    old: CheckpointReader, before: Section, new: CheckpointReader, section: Section
) -> None:
    """The optimizer is the same one, so a row that the one batch left alone has its weight and all of its state."""
    tensors = [name for name in {part.tensor for part in new.manifest.parts} if name.startswith("wide")]
    assert len(tensors) == 3, "weights, and the two slots of FTRL"
    pairs = [
        (values(new, replace(section, tensor=name)), values(old, replace(before, tensor=name))) for name in tensors
    ]
    same = np.all([(after == earlier).all(axis=1) for after, earlier in pairs], axis=0)
    learnt = np.any([np.any(earlier != earlier[0], axis=1) for _, earlier in pairs], axis=0)
    if section.count > 100:
        assert same.mean() > 0.5, section
        assert np.any(same & learnt), section


def test_what_is_kept_has_the_same_numbers_under_another_number_of_servers(
    tmp_path: Path, run_job: Callable[..., JobRun]
) -> None:
    data = tmp_path / "data"
    write_day(data, 1, 2, 700)
    first = run_job(
        job_of(data, 2, (("user", "city"),)),
        schema_file(tmp_path / "old.yaml", schema(["user", "city", "liked", "age"])), directory=tmp_path / "first",
    )  # fmt: skip
    manifest = trained(first)
    first.close()
    still = Optimizer(deep=OptimizerChoice(sgd=Sgd(learning_rate=STILL)))
    second = run_job(
        job_of(
            data, 3, (("user", "city"), ("city", "device")), optimizer=still, train=Train(max_steps=1),
            checkpoint=Checkpoint(warm_start=WarmStart(sources=(str(tmp_path / "first" / "checkpoints"),))),
        ),
        schema_file(tmp_path / "new.yaml", schema(["device", "user", "city", "age"])), directory=tmp_path / "second",
    )  # fmt: skip
    final = trained(second)
    [ready] = second.master.readies
    assert ready.warm_start is not None
    assert (ready.warm_start.source, ready.restored, ready.step) == (manifest, "", first.master.checkpoints[-1].step)
    assert second.master.checkpoints[-1].step == ready.step + 1, "max_steps counts the job's own steps"
    assert {text.split(":")[0] for text in ready.warm_start.made_new} == {
        "device", "city x device", "optimizer state of deep", "optimizer state of dense",
    }  # fmt: skip
    assert [text.split(":")[0] for text in ready.warm_start.dropped] == ["liked"]
    with CheckpointReader(manifest, tmp_path / "a") as old, CheckpointReader(final, tmp_path / "b") as new:
        pairs = list(kept(old, new))
        owners = {section.owner for _, section in pairs}
        assert owners == {"user", "city", "age", "user x city", "layer0", "output", "bias"}
        for before, section in pairs:
            if section.tensor == "wide":
                assert_moved_with_its_state(old, before, new, section)
            else:
                np.testing.assert_array_equal(values(new, section), values(old, before), err_msg=str(section))
                assert np.any(values(new, section)), "it has learnt something"
        fresh = next(each for each in new.manifest.sections if (each.tensor, each.owner) == ("deep", "device"))
        assert 0.001 < np.std(values(new, fresh)) < 0.1, "drawn as for a fresh start"
        sums, before = (reader.whole("statistics", "float64")[0, 0] for reader in (new, old))
        assert sums == before + 64, "the sums go on"


@pytest.mark.slow
def test_hash_tables_are_kept_table_by_table(tmp_path: Path, run_job: Callable[..., JobRun]) -> None:
    data, tables = tmp_path / "data", Embedding(dim=4, storage="hash_table")
    write_day(data, 1, 2, 700)
    first = run_job(
        job_of(data, 2, (("user", "city"),), tables),
        schema_file(tmp_path / "old.yaml", schema(["user", "city", "liked", "age"])), directory=tmp_path / "first",
    )  # fmt: skip
    manifest = trained(first)
    # Nothing moves: what is kept must lie there as it was, embeddings under another optimizer.
    still = Optimizer(
        deep=OptimizerChoice(sgd=Sgd(learning_rate=STILL)), wide=OptimizerChoice(ftrl=Ftrl(l1=0.0)),
        schedule=Schedule(warmup_steps=2**31 - 1),
    )  # fmt: skip
    second = run_job(
        job_of(
            data, 3, (("user", "city"), ("city", "device")), tables, optimizer=still, train=Train(max_steps=1),
            checkpoint=Checkpoint(warm_start=WarmStart(sources=(str(tmp_path / "first" / "checkpoints"),))),
        ),
        schema_file(tmp_path / "new.yaml", schema(["device", "user", "city", "age"])), directory=tmp_path / "second",
    )  # fmt: skip
    first_values = first.server_values("worker:0")
    first.close()
    final = trained(second)
    second_values = second.server_values("worker:0")
    [ready] = second.master.readies
    assert ready.warm_start is not None
    assert [text.split(":")[0] for text in ready.warm_start.dropped] == ["liked"]
    made_new = {text.split(":")[0] for text in ready.warm_start.made_new}
    assert {"device", "city x device", "optimizer state of deep"} <= made_new
    assert "optimizer state of wide" not in made_new
    with CheckpointReader(manifest, tmp_path / "a") as old, CheckpointReader(final, tmp_path / "b") as new:
        before, after = read_rows(old.tables_url), read_rows(new.tables_url)
    names = {"deep/user", "deep/city", "wide/user", "wide/city", "wide/user x city"}
    assert set(before) & set(after) == names
    assert set(after) - names == {"deep/device", "wide/device", "wide/city x device"}
    for name in names:
        there = np.isin(after[name].keys, before[name].keys)
        np.testing.assert_array_equal(after[name].keys[there], before[name].keys)
        np.testing.assert_allclose(after[name].weights[there], before[name].weights, atol=1e-6, err_msg=name)
        assert np.any(before[name].weights), "it has learnt something"
    assert_slots_moved(first_values, second_values, "wide/user x city")


def assert_slots_moved(before: dict[str, Any], after: dict[str, Any], table: str) -> None:
    """FTRL's sums of squares: of a row that the one batch left alone as they were, of the others no less."""

    def rows(values: dict[str, Any]) -> dict[int, Any]:
        return {
            int(key): row
            for name in values if name.startswith(f"{table}/keys/")
            for key, row in zip(values[name], values[name.replace("/keys/", "/values/")], strict=True)
        }  # fmt: skip

    old, new = rows(before), rows(after)
    assert set(old) <= set(new)
    same = [key for key in old if np.array_equal(old[key], new[key])]
    assert all(new[key][1] >= old[key][1] for key in old)
    assert len({float(old[key][1]) for key in same}) > 5, "and they were not those of a new row"
