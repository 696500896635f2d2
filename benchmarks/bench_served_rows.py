"""What bfloat16 and int8 rows cost where it counts: AUC, log loss and calibration of the model server's answers.

Jobs of conf/jobs with hash tables, on Adult and on synthetic clicks. Each trained model is exported with float32,
bfloat16 and int8 rows, and a server of each is asked for all records of the evaluation by gRPC, so that
what differs is the rows alone. The claim is that the 95 % interval of the mean difference in AUC is inside of 0.0005
with bfloat16; with int8 it is printed, and held against the same.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bench_model_server import Served
from bench_quality import interval
from quality_jobs import JOBS, METRICS, Metrics, afo, arguments, convert_adult, has_adult, make_clicks
from report import MISSED, publish, result
from size import sized

from afo.data.io.tfrecord import read_records
from afo.data.model_metrics import by_label
from afo.job import ROW_TYPES

MARGIN = 0.0005
#: Records of a request.
BATCH = 1000
#: Job file, the label, and where the records of the evaluation are.
DATA = {"adult": ("adult-yarn.yaml", "income", "test"), "clicks": ("demo.yaml", "click", "eval")}


def main() -> int:
    """0 if the claims hold."""
    parser = arguments(__doc__, seeds=5)
    parser.add_argument("--what", choices=[*DATA], action="append")
    given = parser.parse_args()
    results: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="afo-served-rows-") as folder:
        scratch = Path(folder)
        makers: dict[str, Callable[[], Path]] = {
            "adult": lambda: convert_adult(scratch, given.adult),
            "clicks": lambda: make_clicks(scratch, sized(400_000, 2000)),
        }
        if not given.what and not has_adult(given.adult):
            del makers["adult"]
        for name in given.what or sized([*makers], ["clicks"]):
            data = makers[name]()
            found = [of_seed(scratch, name, data, seed) for seed in range(1, max(2, given.seeds) + 1)]
            results += [claim(name, rows, found) for rows in ROW_TYPES if rows != "float32"]
    return 0 if publish("served_rows", results) else MISSED


def of_seed(scratch: Path, name: str, data: Path, seed: int) -> dict[str, Metrics]:
    """Metrics by the type of the rows."""
    job, label, folder = DATA[name]
    work = Path(tempfile.mkdtemp(dir=scratch))
    settings = [f"checkpoint.dir={work}/models", f"data.shuffle.seed={seed}", "export.tables=native",
                f"export.dir={work}/exported"]  # fmt: skip
    words = [word for each in settings for word in ("--set", each)]
    afo(scratch, "submit", str(JOBS / job), "--runtime", "local", "--var", f"data={data}", *words)
    [models] = (work / "models").iterdir()
    for rows in ROW_TYPES:
        target = str(work / rows / "1")
        afo(scratch, "export", str(models), "--out", target, "--rows", rows, "--tables", "native")
    asked = [record for file in sorted((data / folder).glob("*.tfrecord")) for record in read_records(str(file))]
    found = dict(answered(work, asked, label))
    for rows, metrics in found.items():
        words = [f"{metric} {metrics[metric]:.6f}" for metric in METRICS]
        print(f"{name}, seed {seed}, {rows}: {', '.join(words)}, {metrics['mib']:.1f} MiB", flush=True)
    shutil.rmtree(work)
    return found


def answered(work: Path, asked: list[bytes], label: str) -> Iterator[tuple[str, Metrics]]:
    """Metrics of what a server of each answers."""
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    parsed = tf.io.parse_example(asked, {label: tf.io.FixedLenFeature([], tf.int64)})
    labels = parsed[label].numpy().astype(np.float32)[:, np.newaxis]
    for rows in ROW_TYPES:
        server = Served(work / rows, work)
        with grpc.insecure_channel(server.address) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            batches = [asked[first : first + BATCH] for first in range(0, len(asked), BATCH)]
            scores = np.concatenate([scores_of(stub, batch) for batch in batches])[:, np.newaxis]
        server.stop()
        size = sum(path.stat().st_size for path in (work / rows / "1" / "assets").iterdir()) / 2**20
        yield rows, by_label([label], labels, scores.astype(np.float32)) | {"mib": size}


def scores_of(stub: Any, records: list[bytes]) -> Any:
    """What the server answers to these records."""
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.name = "ctr"
    request.inputs["examples"].CopyFrom(tf.make_tensor_proto(np.array(records, object)))
    return tf.make_ndarray(stub.Predict(request, timeout=60).outputs["probabilities"])


def claim(name: str, rows: str, found: list[dict[str, Metrics]]) -> dict[str, object]:
    """Of `rows` against float32, printed with all metrics."""
    worst: dict[str, float] = {}
    for metric in METRICS:
        mean, low, high = interval([each[rows][metric] - each["float32"][metric] for each in found])
        print(f"{name}, {metric}, {rows} less float32: mean {mean:+.6f}, 95 % interval {low:+.6f} to {high:+.6f}")
        worst[metric] = max(abs(low), abs(high))
    return result(
        f"{name}: AUC served with rows of {rows} as with float32", max(worst["auc"], 1e-9), MARGIN, "AUC", 1.0,
        lower_is_better=True,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
