"""The ports of conf/models as jobs: a server, a worker and an evaluator, real processes, small data."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from afo.checkpoint.manifest import read_manifest
from afo.job import RoleSpec
from afo.job.loader import load_job
from conf_models import MODELS, is_sequence_model, write_small
from training_job import JobRun

pytestmark = pytest.mark.tensorflow

#: Rows of each table on the servers.
TABLES = {
    "din": {"users": 2001, "items": 1001, "categories": 41},
    "dlrm": {
        "table_workclass": 50, "table_education": 50, "table_marital_status": 50, "table_occupation": 100,
        "table_relationship": 50, "table_race": 20, "table_gender": 10, "table_native_country": 200,
    },
    "mmoe": {"ids": 600},
}  # fmt: skip


@pytest.mark.parametrize(
    "name", ["mmoe", pytest.param("din", marks=pytest.mark.slow), pytest.param("dlrm", marks=pytest.mark.slow)]
)
def test_a_port_trains_and_is_evaluated(name: str, tmp_path: Path, run_job: Callable[..., JobRun]) -> None:
    # Histories of 2,000 users are learnt by heart in a second epoch over so few.
    records, epochs = (10_000, 1) if is_sequence_model(name) else (3000, 4)
    write_small(name, tmp_path / "data", records)
    settings = ["data.batch_size=64", f"data.epochs={epochs}"]
    job = load_job(MODELS / name / "job.yaml", settings=settings, variables={"data": f"{tmp_path}/data"})
    roles = {"ps": RoleSpec(), "worker": RoleSpec(), "evaluator": RoleSpec()}
    run = run_job(replace(job, roles=roles), MODELS / name / "schema.yaml")
    run.start_servers()
    run.finish(run.start("worker", 0), run.start("evaluator", 0))
    found = run.master.evals[-1].metrics
    assert found["samples"] == records
    assert {key.removeprefix("auc/") for key in found if key.startswith("auc/")} == (
        set(job.data.labels) if len(job.data.labels) > 1 else set()
    )
    assert min(value for key, value in found.items() if key.startswith("auc")) > 0.6, found
    rows = read_manifest(run.master.checkpoints[-1].manifest).rows
    met = {table.removeprefix("embedding."): count for table, count in rows.items()}
    assert set(met) == set(TABLES[name])
    assert all(0 < met[table] <= bound for table, bound in TABLES[name].items()), "as many rows as ids were met"
    assert (run.directory / "export" / "saved_model.pb").is_file()
