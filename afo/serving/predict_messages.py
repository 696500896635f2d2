"""Messages of TensorFlow Serving's Predict API, out of arrays and into arrays.

They are declared here by field (`tensorflow_serving/apis/predict.proto`, `tensorflow/core/framework/tensor.proto`) in a
pool of their own: the packages that have them generated import TensorFlow.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from afo.errors import AfoError, SpecError

_Field = descriptor_pb2.FieldDescriptorProto
#: DataType of TensorFlow by numpy's name; strings are apart.
_NUMBERS = {"float32": 1, "int32": 3, "int64": 9, "bool": 10}
_STRING = 7
#: Field of TensorProto that has the values of a type, its number, its own type, and whether it is repeated. On the wire
#: packed numbers of a fixed size are bytes, as they lie in an array: read as such none of them becomes an object.
_VALUES = {
    "float32": ("float_val", 5, _Field.TYPE_BYTES, False), "int32": ("int_val", 7, _Field.TYPE_INT32, True),
    "int64": ("int64_val", 10, _Field.TYPE_INT64, True), "bool": ("bool_val", 11, _Field.TYPE_BYTES, False),
}  # fmt: skip
_BY_TYPE = {_NUMBERS[name]: (field, repeated, np.dtype(name)) for name, (field, _, _, repeated) in _VALUES.items()}


def request_of(inputs: Mapping[str, Any], signature: str = "") -> bytes:
    """A serialized PredictRequest. An input: an array of float32, int32, int64 or bool, or a sequence of bytes or str.

    `signature`: empty, as the model's configuration says.
    Raises SpecError for one that no request can have.
    """
    request = _REQUEST()
    if signature:
        request.model_spec.signature_name = signature
    for name, value in inputs.items():
        _fill(request.inputs[name], name, value)
    return bytes(request.SerializeToString())


def outputs_of(response: bytes) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs of a serialized PredictResponse, its values packed. Raises AfoError if it is none."""
    message = _RESPONSE()
    try:
        message.ParseFromString(response)
    except DecodeError as error:
        raise AfoError(f"the answer of the processor is no PredictResponse: {error}") from error
    return {name: _array(tensor) for name, tensor in message.outputs.items()}


def _fill(tensor: Any, name: str, value: Any) -> None:
    if isinstance(value, list | tuple) and set(map(type, value)) == {bytes}:
        # An array of them would be two copies more.
        tensor.dtype = _STRING
        tensor.string_val.extend(value)
        tensor.tensor_shape.dim.add().size = len(value)
        return
    array = np.asarray(value)
    if array.dtype.kind in "SUO":
        texts = [each.encode() if isinstance(each, str) else each for each in np.asarray(value, object).ravel()]
        if not all(isinstance(each, bytes) for each in texts):
            raise SpecError(f"input `{name}` is neither numbers nor bytes")
        tensor.dtype = _STRING
        tensor.string_val.extend(texts)
    elif array.dtype.name in _NUMBERS:
        tensor.dtype = _NUMBERS[array.dtype.name]
        tensor.tensor_content = np.ascontiguousarray(array).tobytes()
    else:
        raise SpecError(f"input `{name}` is {array.dtype.name}; allowed are {', '.join(_NUMBERS)} and bytes")
    for size in array.shape:
        tensor.tensor_shape.dim.add().size = size


def _array(tensor: Any) -> np.ndarray[Any, Any]:
    field, repeated, dtype = _BY_TYPE[tensor.dtype]
    values = getattr(tensor, field)
    # A copy of its own, which may be written.
    flat = np.array(values, dtype) if repeated else np.frombuffer(bytearray(values), dtype)
    dims = tensor.tensor_shape.dim
    return flat if len(dims) == 1 and dims[0].size == flat.size else flat.reshape([dim.size for dim in dims])


def _field(name: str, number: int, kind: Any, *, repeated: bool = False, of: str = "") -> Any:
    label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
    field = _Field(name=name, number=number, type=kind, label=label)
    if of:
        field.type_name = f".{_PACKAGE}.{of}"
    return field


def _map_entry(name: str) -> Any:
    """The entries of a map of tensors."""
    fields = [_field("key", 1, _Field.TYPE_STRING), _field("value", 2, _Field.TYPE_MESSAGE, of="TensorProto")]
    return descriptor_pb2.DescriptorProto(
        name=name, field=fields, options=descriptor_pb2.MessageOptions(map_entry=True)
    )


def _of_tensors(message: str, field: str, number: int, entry: str, *more: Any) -> Any:
    """A message with a map of tensors, and what `more` of its fields matters here."""
    return descriptor_pb2.DescriptorProto(
        name=message, nested_type=[_map_entry(entry)],
        field=[_field(field, number, _Field.TYPE_MESSAGE, repeated=True, of=f"{message}.{entry}"), *more],
    )  # fmt: skip


def _messages() -> Sequence[Any]:
    """Those of which this module reads or writes fields."""
    plain = {
        "ModelSpec": [_field("signature_name", 3, _Field.TYPE_STRING)],
        "Dim": [_field("size", 1, _Field.TYPE_INT64)],
        "TensorShapeProto": [_field("dim", 2, _Field.TYPE_MESSAGE, repeated=True, of="Dim")],
        "TensorProto": [
            _field("dtype", 1, _Field.TYPE_INT32),
            _field("tensor_shape", 2, _Field.TYPE_MESSAGE, of="TensorShapeProto"),
            _field("tensor_content", 4, _Field.TYPE_BYTES),
            _field("string_val", 8, _Field.TYPE_BYTES, repeated=True),
            *(_field(name, number, kind, repeated=repeated) for name, number, kind, repeated in _VALUES.values()),
        ],
    }
    spec = _field("model_spec", 1, _Field.TYPE_MESSAGE, of="ModelSpec")
    return [
        *(descriptor_pb2.DescriptorProto(name=name, field=fields) for name, fields in plain.items()),
        _of_tensors("PredictRequest", "inputs", 2, "InputsEntry", spec),
        _of_tensors("PredictResponse", "outputs", 1, "OutputsEntry"),
    ]


def _declared() -> tuple[Any, Any]:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(
        descriptor_pb2.FileDescriptorProto(
            name="predict.proto", package=_PACKAGE, syntax="proto3", message_type=_messages()
        )
    )
    first, second = (pool.FindMessageTypeByName(f"{_PACKAGE}.Predict{kind}") for kind in ("Request", "Response"))
    return message_factory.GetMessageClass(first), message_factory.GetMessageClass(second)


_PACKAGE = "afo.serving"
_REQUEST, _RESPONSE = _declared()
