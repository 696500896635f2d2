"""The hidden layers of Wide & Deep alone, for 1, 50 and 500 candidates: the processor against ONNX Runtime.

Layers of 128 and 64 on 165 inputs, the same weights and inputs on both sides, one thread each, asked from Python in
turn; what is compared is processor time. The processor's requests and answers are messages, ONNX Runtime's are arrays.
The figures say what a faster computation of the layers could win of a request; they have no bar.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import statistics
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from dense_layers import CANDIDATES, WIDTHS, core_seconds, inputs, weights
from peers.environment import python_of
from peers.start import ENVIRONMENT
from report import MISSED, publish, result
from sides import Side
from size import sized

from afo.serving import Processor
from afo.serving.predict_messages import outputs_of, request_of

ROUNDS, CALLS = sized(20, 1), sized(50, 3)


def main() -> int:
    """0: nothing is claimed."""
    command = [str(python_of("onnx")), "-m", "peers.onnx_side"]
    with tempfile.TemporaryDirectory(prefix="afo-layers-") as exported, Side("onnx", command, ENVIRONMENT) as theirs:
        _export(exported)
        with Processor(exported, intra_op_parallelism_threads=1, inter_op_parallelism_threads=1) as ours:
            results = [_compared(count, ours, theirs) for count in CANDIDATES]
    return 0 if publish("layers", results) else MISSED


def _compared(count: int, ours: Processor, theirs: Side) -> dict[str, object]:
    request = request_of({"inputs": inputs(count)})
    mean = outputs_of(ours.process(request))["probabilities"].mean()
    np.testing.assert_allclose(mean, theirs.about["means"][str(count)], rtol=1e-5)
    taken: tuple[list[float], list[float]] = ([], [])
    sides: tuple[Callable[[], list[float]], Callable[[], list[float]]] = (
        lambda: core_seconds(CALLS, lambda: ours.process(request)),
        lambda: theirs.measure(str(count), CALLS),
    )
    for _ in range(ROUNDS):
        for side, seconds in zip(sides, taken, strict=True):
            seconds += side()
    medians = [1e6 * statistics.median(seconds) for seconds in taken]
    name = f"layers of {count} against ONNX Runtime {theirs.about['version']}"
    return result(name, *medians, "core-µs", 0.0, lower_is_better=True)


def _export(directory: str) -> None:
    """A SavedModel of the layers alone."""
    module = tf.Module()
    module.layers = [tuple(map(tf.Variable, layer)) for layer in weights()]

    def probabilities(inputs: Any) -> dict[str, Any]:
        for kernel, bias in module.layers[:-1]:
            inputs = tf.nn.relu(tf.matmul(inputs, kernel) + bias)
        kernel, bias = module.layers[-1]
        return {"probabilities": tf.sigmoid(tf.matmul(inputs, kernel) + bias)}

    spec = tf.TensorSpec([None, WIDTHS[0]], tf.float32, name="inputs")
    served = tf.function(probabilities, autograph=False).get_concrete_function(spec)
    tf.saved_model.save(module, directory, signatures={"serving_default": served})


if __name__ == "__main__":
    sys.exit(main())
