"""A SavedModel in this process, asked by the calls of `libafo_processor.so`."""

import ctypes
import json
import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np

from afo.errors import AfoError, SpecError
from afo.serving.predict_messages import outputs_of, request_of
from afo.serving.processor_library import ArrowStructs, load

_OK, _BAD_REQUEST = 200, 400


class Processor:
    """A SavedModel, for any number of threads.

    `savedmodel_dir`: a directory of this machine. `config`: the other keys of `model_config` (docs/serving.md), for
    example `signature_name` or `intra_op_parallelism_threads`. Raises SpecError if the model cannot be served so, and
    Unsupported where the library is not.
    """

    def __init__(self, savedmodel_dir: str, **config: Any) -> None:
        self._library = load()
        state = ctypes.c_int(-1)
        text = json.dumps({"savedmodel_dir": savedmodel_dir, **config})
        model = self._library.initialize(b"", text.encode(), ctypes.byref(state))
        if not model:
            raise SpecError(self._library.initialize_error().decode(errors="replace"))
        self._model = model
        self._close = weakref.finalize(self, self._library.finalize, model)

    def predict(self, inputs: Mapping[str, Any], signature: str = "") -> dict[str, np.ndarray[Any, Any]]:
        """Outputs by name, for inputs by name: arrays of float32, int32, int64 or bool, or sequences of bytes or str.

        `signature`: empty, `signature_name` of the configuration. Raises SpecError if the inputs do not fit it.
        """
        return outputs_of(self.process(request_of(inputs, signature)))

    def predict_arrow(self, batch: Any, signature: str = "predict") -> Any:
        """Outputs as a pyarrow.RecordBatch, for the rows of one with a column for each input (docs/serving.md).

        Raises SpecError if a column does not fit.
        """
        import pyarrow  # 45 MiB that no other call needs

        if not isinstance(batch, pyarrow.RecordBatch):
            raise SpecError(f"the batch is a {type(batch).__name__}; allowed is a pyarrow.RecordBatch")
        model, answer = self._open(), ArrowStructs()
        output, size = ctypes.c_void_p(), ctypes.c_int()
        given = ArrowStructs()
        batch._export_to_c(given.array, given.schema)
        status = self._library.process_arrow(
            model, signature.encode(), given.schema, given.array, answer.schema, answer.array,
            ctypes.byref(output), ctypes.byref(size),
        )  # fmt: skip
        if status != _OK:
            self._taken(status, output.value, size.value)
        return pyarrow.RecordBatch._import_from_c(answer.array, answer.schema)

    def process(self, request: bytes) -> bytes:
        """A serialized PredictResponse for a PredictRequest of TensorFlow Serving.

        Raises SpecError if the request is at fault, AfoError if the model is.
        """
        output, size = ctypes.c_void_p(), ctypes.c_int()
        status = self._library.process(self._open(), request, len(request), ctypes.byref(output), ctypes.byref(size))
        return self._taken(status, output.value, size.value)

    def batch_process(self, requests: Sequence[bytes]) -> list[bytes]:
        """As `process` for each of several requests of the same inputs, computed as one batch."""
        count = len(requests)
        if count == 0:
            return []
        data = (ctypes.c_char_p * (count + 1))(*requests, None)
        sizes = (ctypes.c_int * count)(*map(len, requests))
        outputs, output_sizes = (ctypes.c_void_p * count)(), (ctypes.c_int * count)()
        status = self._library.batch_process(self._open(), data, sizes, outputs, output_sizes)
        taken = zip(outputs, output_sizes, strict=True)
        return [self._taken(status, output, size) for output, size in taken]

    def info(self) -> dict[str, Any]:
        """What is served: its path, signatures with inputs and outputs, and what its export says of itself."""
        output, size = ctypes.c_void_p(), ctypes.c_int()
        status = self._library.get_serving_model_info(self._open(), ctypes.byref(output), ctypes.byref(size))
        found: dict[str, Any] = json.loads(self._taken(status, output.value, size.value))
        return found

    def close(self) -> None:
        """Give the model back; no other call may be under way. Again: nothing."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> Any:
        if not self._close.alive:
            raise AfoError("this Processor was closed")
        return self._model

    def _taken(self, status: int, output: int | None, size: int) -> bytes:
        """The bytes of an output, which is given back."""
        if output is None:
            raise AfoError(f"the processor had no answer (status {status})")
        try:
            found = ctypes.string_at(output, size)
        finally:
            self._library.free_output(output)
        if status == _OK:
            return found
        text = found.decode(errors="replace")
        raise SpecError(text) if status == _BAD_REQUEST else AfoError(text)
