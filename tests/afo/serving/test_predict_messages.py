"""Messages of the Predict API beside those that TensorFlow's own classes write and read."""

from typing import Any

import numpy as np
import pytest

from afo.errors import AfoError
from afo.serving.predict_messages import outputs_of, request_of

pytestmark = pytest.mark.tensorflow

OUTPUTS = {
    "float32": ("float_val", np.float32([[0.5, -1.25, np.inf], [1e-40, 0.0, -0.0]])),
    "int32": ("int_val", np.int32([-1, 0, 300])),
    "int64": ("int64_val", np.int64([[-(2**63)], [2**63 - 1]])),
    "bool": ("bool_val", np.array([True, False, True])),
}


def _part(number: int, content: bytes) -> bytes:
    """A field of a message; of less than 128 bytes."""
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def _response(name: str, tensor: Any) -> bytes:
    return _part(1, _part(1, name.encode()) + _part(2, tensor.SerializeToString()))


def _tensor(field: str, array: np.ndarray[Any, Any]) -> Any:
    from tensorflow.core.framework import tensor_pb2
    from tensorflow.python.framework.dtypes import as_dtype

    tensor = tensor_pb2.TensorProto(dtype=as_dtype(array.dtype).as_datatype_enum)
    getattr(tensor, field).extend(array.ravel().tolist())
    for size in array.shape:
        tensor.tensor_shape.dim.add().size = size
    return tensor


@pytest.mark.parametrize("dtype", OUTPUTS)
def test_outputs_of_each_type_are_read_to_the_bit(dtype: str) -> None:
    field, array = OUTPUTS[dtype]
    found = outputs_of(_response("out", _tensor(field, array)))
    assert list(found) == ["out"]
    assert found["out"].dtype == array.dtype
    assert found["out"].shape == array.shape
    assert found["out"].tobytes() == array.tobytes()
    found["out"][...] = 0  # the caller's own


def test_an_output_without_rows_is_read() -> None:
    field, array = "float_val", np.zeros((0, 3), np.float32)
    assert outputs_of(_response("none", _tensor(field, array)))["none"].shape == (0, 3)


def test_what_is_no_response_is_refused() -> None:
    with pytest.raises(AfoError, match="is no PredictResponse"):
        outputs_of(b"\x0a\x05x")


def test_bytes_of_any_kind_are_the_same_request() -> None:
    records = [b"one", b"", b"\x00\xff\x00"]
    expected = request_of({"examples": records})
    for kind in (tuple(records), np.array(records, object), [np.bytes_(records[0]), *records[1:]]):
        assert request_of({"examples": kind}) == expected
    assert request_of({"examples": ["one", b"two"]}) == request_of({"examples": [b"one", b"two"]})
