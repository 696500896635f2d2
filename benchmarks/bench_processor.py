"""Answers of a served model: the processor against `tf.saved_model.load` in Python, for 1, 50 and 500 candidates.

Wide & Deep of 10 categorical and 5 dense features, rows of 16, layers of 128 and 64, native tables of a million rows.
Both sides answer the same serialized records in turn, on one thread; what is compared is processor time, so that
neither gains by more cores. First the answers are compared, which have to be equal to the bit.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from report import MISSED, publish, result
from size import sized

from afo.checkpoint.manifest import Manifest
from afo.data.example import encode
from afo.data.feature import Feature
from afo.data.schema import Schema
from afo.embedding.saved_tables import Rows
from afo.job import Data, Embedding, Job, Model, RoleSpec
from afo.ops.library import load
from afo.serving import Processor

CANDIDATES = (1, 50, 500)
KEYS = sized(100_000, 1000)
ROUNDS = sized(400, 3)
CATEGORICAL, DENSE = 10, 5


def main() -> int:
    """0 if the claims hold."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    load()
    records = _records(max(CANDIDATES))
    with tempfile.TemporaryDirectory(prefix="afo-processor-") as scratch:
        exported = _export(Path(scratch))
        loaded = tf.saved_model.load(exported)  # its tables go with it
        theirs = loaded.signatures["serving_default"]
        with Processor(exported, intra_op_parallelism_threads=1, inter_op_parallelism_threads=1) as ours:
            results = [_compared(count, records[:count], ours, theirs) for count in CANDIDATES]
    return 0 if publish("processor", results) else MISSED


def _compared(count: int, records: list[bytes], ours: Processor, theirs: Any) -> dict[str, object]:
    sides: tuple[Callable[[], Any], Callable[[], Any]] = (
        lambda: ours.predict({"examples": records})["probabilities"],
        lambda: theirs(examples=tf.constant(records))["probabilities"].numpy(),
    )
    np.testing.assert_array_equal(sides[0](), sides[1]())
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for side, seconds in zip(sides, taken, strict=True):
            began = time.process_time()
            side()
            seconds.append(time.process_time() - began)
    medians = [1000 * statistics.median(seconds) for seconds in taken]
    return result(f"a request of {count}", *medians, "core-ms", 3.0, lower_is_better=True)


class _RandomCheckpoint:
    """A checkpoint that nobody trained, with the tensors of a model."""

    url = "nowhere/manifest-g000001-s000000000001-final.json"
    manifest = Manifest(version=3, generation=1, step=1, final=True, directory="g000001-x", rows={}, parts=())
    merged_in = None

    def __init__(self, dense: int) -> None:
        self._random, self._dense = np.random.default_rng(1), dense

    def whole(self, name: str, _dtype: str = "float32") -> Any:
        """The dense weights, or counts, sums and sums of squares of the dense features."""
        return self._normal(self._dense) if name == "dense" else np.repeat([[10.0], [0.0], [10.0]], DENSE, axis=1)

    def hash_tables(self, dims: Mapping[str, int]) -> dict[str, Rows]:
        """Rows of the keys from 0 on."""
        return {name: Rows(np.arange(KEYS), self._normal(KEYS, dim)) for name, dim in dims.items()}

    def _normal(self, *shape: int) -> Any:
        return self._random.normal(0, 0.05, shape).astype(np.float32)


def _export(scratch: Path) -> str:
    """A SavedModel with random weights."""
    from afo.train.export import export
    from afo.train.setup import JobParts

    features = [Feature(name=f"c{n}", kind="categorical") for n in range(CATEGORICAL)]
    features += [Feature(name=f"d{n}", kind="dense") for n in range(DENSE)]
    schema = scratch / "schema.yaml"
    schema.write_text(Schema(label="click", sample_id="sample_id", features=tuple(features)).to_yaml())
    job = Job(
        name="served", model=Model(hidden_units=(128, 64), embedding=Embedding(dim=16)),
        roles={"ps": RoleSpec(), "worker": RoleSpec()},
        data=Data(schema="schema.yaml", train=("x",), sample_id="sample_id"),
    )  # fmt: skip
    parts, target = JobParts(job, str(schema)), str(scratch / "exported")
    checkpoint = _RandomCheckpoint(parts.model.parameters(1, 1).dense.rows)
    export(parts, checkpoint, target, scratch, "float32", "native")  # type: ignore[arg-type]
    return target


def _records(count: int) -> list[bytes]:
    random = np.random.default_rng(1)
    return [
        encode(
            {f"c{n}": [int(key)] for n, key in enumerate(random.integers(0, KEYS, CATEGORICAL))}
            | {f"d{n}": [float(value)] for n, value in enumerate(random.normal(size=DENSE))}
            | {"click": [0], "sample_id": [number]}
        )
        for number in range(count)
    ]


if __name__ == "__main__":
    sys.exit(main())
