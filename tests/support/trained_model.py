"""Models with random weights, as a job would leave them, and what is exported and served of them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from afo.data.example import encode
from afo.data.feature import Feature
from afo.data.io.tfrecord import RecordWriter
from afo.job import Data, Embedding, Filter, Job, Model, RoleSpec, RowType, TableKind, Wide
from click_records import SCHEMA
from fake_checkpoint_reader import STATISTICS, FakeCheckpointReader

SUPPORT = Path(__file__).parent
SCORES = SUPPORT / "standalone" / "saved_model_scores.py"
#: Keys of each hash table, from 0 on; records ask for others as well.
KEYS = 40
#: As no argument of Python can be called.
INCOME_NAME = "net income"
MODELS = {
    "hashed": Model(
        hidden_units=(8,), embedding=Embedding(dim=8, filter=Filter(min_count=2, default_value=0.25)),
        wide=Wide(crosses=(("city", "age"),)),
    ),
    "dense": Model(
        hidden_units=(8,), embedding=Embedding(dim=8, storage="dense"), wide=Wide(crosses=(("city", "age"),))
    ),
    "own": Model(entry=f"{SUPPORT / 'user_models' / 'click_model.py'}:build", params={"dim": 8}),
}  # fmt: skip
RECORDS = [
    {
        "user": [n], "city": [("Ulm", "Bonn", "?")[n % 3]], "liked": [n, 7 * n], "age": [20.0 + n], "label": [0],
        "sample_id": [n], **({INCOME_NAME: [1000.0 * n - 5000.0]} if n % 3 else {}),
    }
    for n in range(2 * KEYS)
]  # fmt: skip
#: Dense values that are changed before a model reads them, and that some records lack.
INCOME = Feature(
    name=INCOME_NAME, kind="dense", buckets=(500.0, 9000.0), clip=(-100.0, 50_000.0), transform="log1p",
    missing_indicator=True, default=700.0,
)  # fmt: skip


class TrainedModel:
    """A model with weights, its export, and what is served of it. Writes the schema.

    `which`: one of `MODELS`, or another one. `more`: features beside those that `RECORDS` hold.
    """

    def __init__(self, directory: Path, schema_file: Path, which: str | Model, more: tuple[Feature, ...] = ()) -> None:
        from afo.train.setup import JobParts

        schema = msgspec.structs.replace(SCHEMA, features=(*SCHEMA.features, INCOME, *more))
        schema_file.write_text(schema.to_yaml())
        model = MODELS[which] if isinstance(which, str) else which
        job = Job(
            name="served", model=model, roles={"ps": RoleSpec(), "worker": RoleSpec()},
            data=Data(schema="schema.yaml", train=("x",), sample_id="sample_id"),
        )  # fmt: skip
        self.parts = JobParts(job, str(schema_file))
        self._parameters = self.parts.model.parameters(1, 1)
        self.directory = directory
        self.records = directory / "records.tfrecord"
        with RecordWriter(str(self.records)) as writer:
            for record in RECORDS:
                writer.write(encode(record))

    def reader(self, merged: bool = False) -> Any:
        state = {each.tensor: np.ones(each.shape, each.dtype) for each in self._parameters.state}
        if "statistics" in state:
            # Of each value others.
            places = np.arange(state["statistics"].shape[1])
            state["statistics"] = STATISTICS + np.array([[0.0], [10.0], [500.0]]) * places
        found = FakeCheckpointReader(1, self._parameters.dense.rows, state, KEYS)
        found.merged_in = self.directory if merged else None
        return found

    def evaluated(self, rows: RowType, merged: bool = False) -> Any:
        import tensorflow as tf

        from afo.trainable.served.table_form import TableForm

        features = self.parts.parser(tf.constant([encode(record) for record in RECORDS])).features
        return self.parts.model.local(self.reader(merged), TableForm(rows)).probabilities(features).numpy()[:, 0]

    def bytes_of_weights(self, rows: RowType) -> int:
        """Of all embedding tables, by what a row of each type takes."""
        from afo.trainable.served.stored_rows import StoredRows
        from afo.trainable.served.table_form import TableForm

        model = self.parts.model.local(self.reader(), TableForm(rows))
        tables = [each for each in model.submodules if isinstance(each, StoredRows)]  # type: ignore[attr-defined]
        return sum(variable.value().numpy().nbytes for table in tables for variable in table.variables)

    def exported(
        self, rows: RowType, tables: TableKind = "frozen", merged: bool = False, user_features: tuple[str, ...] = ()
    ) -> Path:
        from afo.train.exports.export import export

        target = self.directory / "exported"
        export(self.parts, self.reader(merged), str(target), self.directory, rows, tables, user_features)
        return target

    def served(self, model: Path, *libraries: Path, loader: str = "functions") -> Any:
        done = self.serving(model, *libraries, loader=loader)
        assert done.returncode == 0, done.stderr
        return np.load(self._served)

    def serving(self, model: Path, *libraries: Path, loader: str = "functions") -> "subprocess.CompletedProcess[str]":
        """A process that serves, and has ended."""
        words = [sys.executable, "-I", SCORES, loader, model, self.records, self._served, *libraries]
        return subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=120, check=False)

    @property
    def _served(self) -> Path:
        return self.directory / "served.npy"
