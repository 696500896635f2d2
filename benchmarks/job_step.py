"""The trainer's own step of Wide & Deep, as benchmarks of whole steps take it: the load, the model and a call of it.

26 ids a sample by Zipf's law, of 385,000 values each (10 M in all), 8 real numbers, width 16, layers of 256, 128 and
64, batches of 4096.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from size import sized

from afo.data.feature import Feature
from afo.data.io.example_batch import encode_columns
from afo.data.pipeline.batch_fragments import Origins
from afo.data.schema import Schema
from afo.job import Data, Embedding, Job, Model, Optimizer, RoleSpec
from afo.models.example_parsing import parse, parse_by_tensorflow
from afo.models.parser import RecordParser
from afo.train.setup import JobParts
from afo.train.step import overlapping_step_function, prepare_function, step_function

FEATURES, NUMBERS, DIM, EXPONENT = 26, 8, 16, 1.05
BATCH, VALUES = sized(4096, 64), sized(385_000, 1000)
SCHEMA = Schema(
    label="label",
    sample_id="sample_id",
    features=(
        *(Feature(name=f"c{n}", kind="categorical", hash_buckets=VALUES) for n in range(FEATURES)),
        *(Feature(name=f"d{n}", kind="dense") for n in range(NUMBERS)),
    ),
)


class Side(NamedTuple):
    """A traced job."""

    prepare: Any
    step: Any


def records(batches: int, worker: int) -> list[Any]:
    """Serialized samples, string [BATCH] each."""
    generator = np.random.default_rng(worker)
    ranks = np.arange(1, VALUES + 1, dtype=np.float64) ** -EXPONENT
    ends = np.cumsum(ranks / ranks.sum())
    found = []
    for _ in range(batches):
        columns: dict[str, Any] = {f"c{n}": np.searchsorted(ends, generator.random(BATCH)) for n in range(FEATURES)}
        columns |= {f"d{n}": generator.normal(size=BATCH).astype(np.float32) for n in range(NUMBERS)}
        columns |= {"label": np.arange(BATCH) % 3 // 2, "sample_id": np.arange(BATCH)}
        found.append(tf.constant(encode_columns(columns)))
    return found


def cut(batches: list[Any], size: int) -> list[Any]:
    """The same samples in batches of `size`, which a batch of `records` is a multiple of."""
    return [part for batch in batches for part in tf.split(batch, BATCH // size)]


def side(
    folder: str, storage: str, optimizer: Optimizer, worker: int, precision: str, servers: int, *,
    overlapping: bool = False,
) -> Side:  # fmt: skip
    """A job on the servers, whose variables worker 0 creates; `precision` of the layers.

    `overlapping`: its step is one of which several are in flight.

    Dense weights, position and step have the same names in all jobs, and are shared.
    """
    schema = Path(folder) / "schema.yaml"
    schema.write_text(SCHEMA.to_yaml())
    job = Job(
        name="bench", roles={"ps": RoleSpec(instances=servers), "worker": RoleSpec()}, optimizer=optimizer,
        model=Model(
            hidden_units=(256, 128, 64), precision=precision,  # type: ignore[arg-type]
            embedding=Embedding(dim=DIM, storage=storage),  # type: ignore[arg-type]
        ),
        data=Data(schema=str(schema), train=("x",), sample_id="sample_id", batch_size=BATCH),
    )  # fmt: skip
    parts = JobParts(job, str(schema))
    parser = RecordParser(SCHEMA, job.data, parse if storage == "hash_table" else parse_by_tensorflow)
    parameters = parts.model.parameters(servers, 1)
    if worker == 0:
        parts.model.initialize(parameters)
    prepare = prepare_function(parts.model, parser, servers)
    function = overlapping_step_function if overlapping else step_function
    return Side(prepare, function(parts.model, parameters, prepare))


def once(one: Side, batch: Any) -> None:
    """A batch, from its records to the values that the worker fetches."""
    zeros = tf.zeros(len(batch), tf.int64)
    done = one.step(one.prepare(batch, Origins(zeros, zeros, zeros, zeros)), zeros[0])
    done.steps.numpy(), float(done.loss), done.files.numpy(), done.positions.numpy()
