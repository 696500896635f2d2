"""What a job file says of hash tables is what their rows are updated by."""

from pathlib import Path

import msgspec
import pytest

pytest.importorskip("tensorflow")

from afo import job
from click_records import SCHEMA, write_files

pytestmark = pytest.mark.tensorflow

DEEP = job.OptimizerChoice(adam=job.Adam(learning_rate=0.2))


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ({}, job.Adam(learning_rate=0.2)),
        ({"clip_norm": 2}, job.Adam(learning_rate=0.2)),
        ({"sgd": {}, "clip_value": 0.5}, job.Sgd()),
        ({"adagrad": {"learning_rate": 0.3}}, job.Adagrad(learning_rate=0.3)),
        ({"group_ftrl": {"l1": 0.1, "l21": 0.2}}, job.GroupFtrl(l1=0.1, l21=0.2)),
    ],
)
def test_tables_have_an_optimizer_of_their_own_or_that_of_the_rest(
    written: dict[str, object], rule: job.UpdateRule
) -> None:
    optimizer = job.Optimizer(embedding=msgspec.convert(written, job.RowOptimizer))
    assert optimizer.of_rows(DEEP) == rule
    assert optimizer.row_clipping == (written.get("clip_value"), written.get("clip_norm"))
    assert job.Optimizer().of_rows(DEEP) == DEEP.chosen


def test_two_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="name one optimizer, not 2: adamw, momentum"):
        msgspec.convert({"momentum": {}, "adamw": {}}, job.RowOptimizer)


def test_tables_of_a_job_have_it_and_those_of_its_linear_part_have_theirs(tmp_path: Path) -> None:
    from afo.train.setup import JobParts

    write_files(tmp_path / "data", 1, 10)
    schema = tmp_path / "schema.yaml"
    schema.write_text(SCHEMA.to_yaml())
    given = job.Job(
        name="rows", roles={"ps": job.RoleSpec(), "worker": job.RoleSpec()},
        data=job.Data(schema="schema.yaml", train=(f"{tmp_path}/data/part-*",), sample_id="sample_id", batch_size=4),
        optimizer=job.Optimizer(embedding=job.RowOptimizer(momentum=job.Momentum(), clip_norm=1.0)),
    )  # fmt: skip
    group = JobParts(given, str(schema)).model.parameters(1, 1).embeddings
    assert group is not None
    rules = {table.name.partition("/")[0]: (table.optimizer, table.clipping) for table in group.tables}
    assert rules == {"deep": (job.Momentum(), (None, 1.0)), "wide": (job.Ftrl(), (None, None))}
