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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from random_model import RandomModel, records
from report import MISSED, publish, result
from size import sized

from afo.ops.library import load
from afo.serving import Processor

CANDIDATES = (1, 50, 500)
MODEL = RandomModel(categorical=10, dense=5, keys=sized(100_000, 1000))
ROUNDS = sized(400, 3)


def main() -> int:
    """0 if the claims hold."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    load()
    asked = records(MODEL.samples(max(CANDIDATES)))
    with tempfile.TemporaryDirectory(prefix="afo-processor-") as scratch:
        exported = MODEL.export(Path(scratch))
        loaded = tf.saved_model.load(exported)  # its tables go with it
        theirs = loaded.signatures["serving_default"]
        with Processor(exported, intra_op_parallelism_threads=1, inter_op_parallelism_threads=1) as ours:
            results = [_compared(count, asked[:count], ours, theirs) for count in CANDIDATES]
    return 0 if publish("processor", results) else MISSED


def _compared(count: int, asked: list[bytes], ours: Processor, theirs: Any) -> dict[str, object]:
    sides: tuple[Callable[[], Any], Callable[[], Any]] = (
        lambda: ours.predict({"examples": asked})["probabilities"],
        lambda: theirs(examples=tf.constant(asked))["probabilities"].numpy(),
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


if __name__ == "__main__":
    sys.exit(main())
