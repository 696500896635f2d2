"""What a job file says of hash tables is what their rows are updated by."""

from pathlib import Path

import msgspec
import pytest

pytest.importorskip("tensorflow")

from afo import job
from afo.embedding import optimizers
from afo.optimizers.rows import row_optimizer_of
from click_records import SCHEMA, write_files

pytestmark = pytest.mark.tensorflow

DEEP = job.OptimizerChoice(adam=job.Adam(learning_rate=0.2))


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ({}, optimizers.Adam(learning_rate=0.2)),
        ({"clip_norm": 2}, optimizers.Adam(learning_rate=0.2, clip_norm=2)),
        ({"sgd": {}, "clip_value": 0.5}, optimizers.Sgd(clip_value=0.5)),
        ({"adagrad": {"learning_rate": 0.3}}, optimizers.Adagrad(learning_rate=0.3)),
        ({"adam": {"beta_1": 0.8}}, optimizers.Adam(beta_1=0.8)),
        ({"ftrl": {"l1": 0.1, "forgets_first": True}}, optimizers.Ftrl(l1=0.1, forgets_first=True)),
        ({"rmsprop": {"rho": 0.8}}, optimizers.RMSprop(rho=0.8)),
        ({"momentum": {"momentum": 0.8, "nesterov": True}}, optimizers.Momentum(momentum=0.8, nesterov=True)),
        ({"adagrad_decay": {"decay_rate": 0.5}}, optimizers.AdagradDecay(decay_rate=0.5)),
        ({"adamw": {"weight_decay": 0.1}}, optimizers.AdamW(weight_decay=0.1)),
        ({"group_ftrl": {"l1": 0.1, "l21": 0.2}}, optimizers.GroupFtrl(l1=0.1, l21=0.2)),
    ],
)  # fmt: skip
def test_each_optimizer_has_the_numbers_of_the_job_file(
    written: dict[str, object], rule: optimizers.RowOptimizer
) -> None:
    assert row_optimizer_of(DEEP, msgspec.convert(written, job.RowOptimizer)) == rule


def test_without_a_word_in_the_job_file_both_sides_have_the_same_defaults() -> None:
    for name in job.RowOptimizer.__struct_fields__:
        if not name.startswith("clip_"):
            own = msgspec.convert({name: {}}, job.RowOptimizer)
            rule = row_optimizer_of(DEEP, own)
            assert rule == type(rule)(), name
    assert row_optimizer_of(DEEP) == optimizers.Adam(learning_rate=0.2)


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
    rules = {table.name.partition("/")[0]: table.optimizer for table in group.tables}
    assert rules == {"deep": optimizers.Momentum(clip_norm=1.0), "wide": optimizers.Ftrl()}
