"""One user and 200 candidates: the user's record once (`score`) against the user in every record (`serving_default`).

Wide & Deep of 20 categorical and 10 dense features, 16 and 8 of them the user's, rows of 16, layers of 128 and 64,
native tables of 100,000 rows; once without lists, once with two features of the user that are lists of 50 ids, as what
a user has seen is. The processor answers the same serialized requests, each of another user and other
candidates, by both signatures of one export, on one thread; what is compared is its processor time. The answers may
differ by what the order of a sum does.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from random_model import LENGTH, RandomModel, records
from report import MISSED, publish, result
from size import sized

from afo.ops.library import load
from afo.serving import Processor
from afo.serving.predict_messages import outputs_of, request_of

CANDIDATES = sized(200, 5)
KEYS = sized(100_000, 1000)
MODELS = {
    f"a user and {CANDIDATES} candidates": RandomModel(20, 10, KEYS),
    f"the same, with two lists of {LENGTH} ids": RandomModel(20, 10, KEYS, lists=2),
}
USER = (*(f"c{n}" for n in range(16)), *(f"d{n}" for n in range(8)))
REQUESTS = sized(20, 2)
ROUNDS = sized(40, 2)


def main() -> int:
    """0 if the claim holds."""
    # Of the first model of a process, which is the one that is exported.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    load()
    return 0 if publish("user_item", [_measured(name, model) for name, model in MODELS.items()]) else MISSED


def _measured(name: str, model: RandomModel) -> dict[str, object]:
    samples = model.samples(REQUESTS * CANDIDATES)
    asked = [_request(samples[first : first + CANDIDATES]) for first in range(0, len(samples), CANDIDATES)]
    with tempfile.TemporaryDirectory(prefix="afo-user-item-") as scratch:
        exported = model.export(Path(scratch), USER)
        gc.freeze()  # the export left much that Python would look through while it is measured
        with Processor(exported, intra_op_parallelism_threads=1, inter_op_parallelism_threads=1) as processor:
            return _compared(name, processor, [once for once, _ in asked], [joined for _, joined in asked])


def _request(samples: Sequence[Mapping[str, Any]]) -> tuple[bytes, bytes]:
    """One for `score`, and the same for `serving_default`."""
    user = {name: samples[0][name] for name in USER}
    items = [{name: value for name, value in sample.items() if name not in USER} for sample in samples]
    joined = records([user | item for item in items])
    once = {"user": records([user]), "items": records(items)}
    return request_of(once, "score"), request_of({"examples": joined}, "serving_default")


def _compared(name: str, model: Processor, once: Sequence[bytes], joined: Sequence[bytes]) -> dict[str, object]:
    for pair in zip(once, joined, strict=True):
        ours, theirs = (outputs_of(model.process(request))["probabilities"] for request in pair)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-6)
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for requests, seconds in zip((once, joined), taken, strict=True):
            began = time.process_time()
            for request in requests:
                model.process(request)
            seconds.append((time.process_time() - began) / len(requests))
    medians = [1000 * statistics.median(seconds) for seconds in taken]
    return result(name, *medians, "core-ms", 2.0, lower_is_better=True)


if __name__ == "__main__":
    sys.exit(main())
