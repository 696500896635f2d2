"""What is served is the training's own forward pass: the loss of a step on live servers, out of what is served."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from afo.data.example import decode
from afo.data.io.tfrecord import read_records
from afo.job import Data, Embedding, Export, Job, Model, RoleSpec, Shuffle, TableKind, Wide
from afo.ops.library import available
from click_records import expected_acks, write_files
from training_job import JobRun

pytestmark = pytest.mark.tensorflow

SUPPORT = Path(__file__).parents[2] / "support"
SCORES = SUPPORT / "standalone" / "saved_model_scores.py"
RECORDS = 400
MODELS = {
    storage: Model(
        hidden_units=(8,),
        embedding=Embedding(dim=4, storage=storage),  # type: ignore[arg-type]
        wide=Wide(crosses=(("city", "age"),), cross_buckets=50),
    )
    for storage in ("dense", "hash_table")
} | {"own": Model(entry=f"{SUPPORT / 'user_models' / 'click_model.py'}:build_module", from_logits=True)}


def served_loss(export: Path, records: Path, *libraries: Path) -> float:
    """Log loss of what a process without afo answers."""
    output = export.parent / "served.npy"
    words = [sys.executable, "-I", SCORES, "functions", export, records, output, *libraries]
    subprocess.run([*map(str, words)], check=True, timeout=120)
    clicked = np.array([int(decode(record)["label"][0]) for record in read_records(str(records))], bool)
    probability = np.load(output).astype(np.float64).reshape(-1)
    return float(-np.log(np.where(clicked, probability, 1 - probability)).mean())


@pytest.mark.parametrize(
    ("which", "tables"),
    [
        ("hash_table", "native"),
        pytest.param("dense", "frozen", marks=pytest.mark.slow),
        pytest.param("hash_table", "frozen", marks=pytest.mark.slow),
        pytest.param("own", "native", marks=pytest.mark.slow),
    ],
)
def test_the_next_step_loses_what_is_served(
    which: str, tables: TableKind, tmp_path: Path, schema_file: Path, run_job: Callable[..., JobRun]
) -> None:
    write_files(tmp_path / "data", 1, RECORDS)
    data = Data(
        schema="schema.yaml", train=(f"{tmp_path}/data/part-*",), sample_id="sample_id", batch_size=50, epochs=2,
        shuffle=Shuffle(buffer=100),
    )  # fmt: skip
    job = Job(
        name="clicks", roles={"ps": RoleSpec(instances=2), "worker": RoleSpec()}, data=data, model=MODELS[which],
        export=Export(tables=tables),
    )  # fmt: skip
    first = run_job(job, schema_file)
    first.start_servers()
    first.finish(first.start("worker", 0))
    saved = first.master.checkpoints[-1]
    served = served_loss(first.directory / "export", tmp_path / "data" / "part-00.tfrecord", available())

    # One more epoch in one step: all records at once leave the means that dense features are standardised by as
    # they are.
    again = replace(job, data=replace(data, batch_size=RECORDS, epochs=3))
    second = run_job(again, schema_file, directory=first.directory, generation=2, restore=saved.manifest)
    second.master.take_up(saved.positions, expected_acks(1, RECORDS))
    second.start_servers()
    second.finish(second.start("worker", 0))
    assert second.progress["worker:0"].step == saved.step + 1
    assert second.progress["worker:0"].loss == pytest.approx(served, abs=2e-6)
    assert served < 0.69
