"""ONNX Runtime as a side of the benchmark of hidden layers: one thread, asked from Python."""

from collections.abc import Callable
from importlib import metadata
from typing import Any

import onnx
import onnxruntime
from dense_layers import CANDIDATES, core_seconds, inputs, weights
from onnx import helper, numpy_helper
from sides import arguments, resident, serve

FLOAT = onnx.TensorProto.FLOAT
#: That onnxruntime 1.32 reads.
OPSET, IR_VERSION = 21, 10


def model() -> bytes:
    """The layers as a serialized ONNX model."""
    nodes, constants, last = [], [], "inputs"
    layers = weights()
    for number, (kernel, bias) in enumerate(layers):
        names = [f"{what}{number}" for what in ("kernel", "bias", "sum", "layer")]
        constants += [numpy_helper.from_array(kernel, names[0]), numpy_helper.from_array(bias, names[1])]
        nodes.append(helper.make_node("Gemm", [last, *names[:2]], [names[2]]))
        nodes.append(helper.make_node("Relu" if number + 1 < len(layers) else "Sigmoid", [names[2]], [names[3]]))
        last = names[3]
    given = helper.make_tensor_value_info("inputs", FLOAT, [None, layers[0][0].shape[0]])
    answered = helper.make_tensor_value_info(last, FLOAT, [None, 1])
    graph = helper.make_graph(nodes, "layers", [given], [answered], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    return bytes(made.SerializeToString())


def main() -> None:
    """A case for each number of candidates."""
    threads = arguments([str(count) for count in CANDIDATES], keys=0).threads
    before = resident()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    session = onnxruntime.InferenceSession(model(), options, providers=["CPUExecutionProvider"])

    def case(given: Any) -> Callable[[int], list[float]]:
        return lambda calls: core_seconds(calls, lambda: session.run(None, {"inputs": given}))

    means = {str(count): float(session.run(None, {"inputs": inputs(count)})[0].mean()) for count in CANDIDATES}
    about = {
        "version": metadata.version("onnxruntime"), "means": means,
        "resident_before": before, "resident_after": resident(),
    }  # fmt: skip
    serve({str(count): case(inputs(count)) for count in CANDIDATES}, about)


if __name__ == "__main__":
    main()
