"""One user and 200 candidates: the user's record once (`score`) against the user in every record (`serving_default`).

Wide & Deep of 20 categorical and 10 dense features, 16 and 8 of them the user's, rows of 16, layers of 128 and 64,
native tables of 100,000 rows. The processor answers by both signatures of one export in turn, with serialized records
and on one thread; what is compared is processor time. The answers may differ by what the order of a sum does.
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
from random_model import RandomModel, records
from report import MISSED, publish, result
from size import sized

from afo.ops.library import load
from afo.serving import Processor

CANDIDATES = sized(200, 5)
MODEL = RandomModel(categorical=20, dense=10, keys=sized(100_000, 1000))
ROUNDS = sized(500, 3)
USER = (*(f"c{n}" for n in range(16)), *(f"d{n}" for n in range(8)))


def main() -> int:
    """0 if the claim holds."""
    # Of the first model of a process, which is the one that is exported.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    load()
    samples = MODEL.samples(CANDIDATES)
    user = {name: samples[0][name] for name in USER}
    items = [{name: value for name, value in sample.items() if name not in USER} for sample in samples]
    once, joined = {"user": records([user]), "items": records(items)}, records([user | item for item in items])
    with tempfile.TemporaryDirectory(prefix="afo-user-item-") as scratch:
        exported = MODEL.export(Path(scratch), USER)
        with Processor(exported, intra_op_parallelism_threads=1, inter_op_parallelism_threads=1) as model:
            results = [_compared(model, once, {"examples": joined})]
    return 0 if publish("user_item", results) else MISSED


def _compared(model: Processor, once: Mapping[str, Any], joined: Mapping[str, Any]) -> dict[str, object]:
    sides: tuple[Callable[[], Any], Callable[[], Any]] = (
        lambda: model.predict(once, "score")["probabilities"],
        lambda: model.predict(joined)["probabilities"],
    )
    difference = np.abs(sides[0]() - sides[1]()).max()
    assert difference < 2e-6, difference
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for side, seconds in zip(sides, taken, strict=True):
            began = time.process_time()
            side()
            seconds.append(time.process_time() - began)
    medians = [1000 * statistics.median(seconds) for seconds in taken]
    return result(f"a user and {CANDIDATES} candidates", *medians, "core-ms", 2.0, lower_is_better=True)


if __name__ == "__main__":
    sys.exit(main())
