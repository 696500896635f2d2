"""Answers of a served model: the processor against `tf.saved_model.load` in Python and against Session::Run in C++, as
TensorFlow Serving has it, for 1, 50 and 500 candidates.

Wide & Deep of 10 categorical and 5 dense features, rows of 16, layers of 128 and 64, native tables of a million rows.
All sides answer the same serialized records in turn, on one thread; what is compared is processor time, so that none
gains by more cores, and against C++ also the time of a request by the clock. First the answers are compared, which have
to be equal to the bit. The host in C++ (session_host.cc) is given strings and gives numbers, while the processor reads
and writes messages.
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
from session_host import open_host
from size import sized

from afo.ops.library import load
from afo.serving import Processor
from afo.serving.predict_messages import outputs_of, request_of

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
            prepare = open_host(exported, threads=1)
            results = [_compared(count, asked[:count], ours, theirs) for count in CANDIDATES]
            for count in CANDIDATES:
                results += _against_host(count, asked[:count], ours, prepare(asked[:count]))
    return 0 if publish("processor", results) else MISSED


def _compared(count: int, asked: list[bytes], ours: Processor, theirs: Any) -> dict[str, object]:
    sides: tuple[Callable[[], Any], Callable[[], Any]] = (
        lambda: ours.predict({"examples": asked})["probabilities"],
        lambda: theirs(examples=tf.constant(asked))["probabilities"].numpy(),
    )
    np.testing.assert_array_equal(sides[0](), sides[1]())
    taken = _timed(sides, time.process_time)
    medians = [1000 * statistics.median(seconds) for seconds in taken]
    return result(f"a request of {count}", *medians, "core-ms", 3.0, lower_is_better=True)


def _against_host(
    count: int, asked: list[bytes], ours: Processor, theirs: Callable[[], Any]
) -> list[dict[str, object]]:
    request = request_of({"examples": asked})
    np.testing.assert_array_equal(outputs_of(ours.process(request))["probabilities"], theirs())
    sides = (lambda: ours.process(request), theirs)
    computed = [1000 * statistics.median(seconds) for seconds in _timed(sides, time.process_time)]
    waited = [1000 * np.percentile(seconds, (50, 99)) for seconds in _timed(sides, time.perf_counter)]
    name = f"a request of {count} against Session::Run"
    return [
        result(name, *computed, "core-ms", 1.0, lower_is_better=True),
        *(
            result(f"{name}, {which}", waited[0][place], waited[1][place], "ms", 1.0, lower_is_better=True)
            for place, which in enumerate(("median", "99th percentile"))
        ),
    ]


def _timed(sides: tuple[Callable[[], Any], Callable[[], Any]], clock: Callable[[], float]) -> tuple[list[float], ...]:
    """Seconds of each side's calls, in turn."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for side, seconds in zip(sides, taken, strict=True):
            began = clock()
            side()
            seconds.append(clock() - began)
    return taken


if __name__ == "__main__":
    sys.exit(main())
