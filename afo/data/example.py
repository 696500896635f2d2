"""`tf.Example` records without TensorFlow.

The message is `Example { Features features = 1 }`, `Features { map<string, Feature> feature = 1 }`,
`Feature { oneof { BytesList = 1, FloatList = 2, Int64List = 3 } }`, each list with a repeated `value = 1`; it is built
here at run time, in a descriptor pool of its own, so that it never collides with TensorFlow's.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
from numpy.typing import NDArray

from afo.errors import DataError

#: The values of one feature of one record: integers, real numbers, or byte strings.
Values = NDArray[np.int64] | NDArray[np.float32] | list[bytes]

#: Which list of a `tf.Example` holds them.
ListKind = Literal["int64", "float", "bytes"]

_Field = descriptor_pb2.FieldDescriptorProto
_LISTS = (("bytes_list", "BytesList"), ("float_list", "FloatList"), ("int64_list", "Int64List"))
_VALUE_TYPE = {"BytesList": _Field.TYPE_BYTES, "FloatList": _Field.TYPE_FLOAT, "Int64List": _Field.TYPE_INT64}


def _message_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="afo/example.proto", package="afo.example", syntax="proto3")
    for name, value_type in _VALUE_TYPE.items():
        file.message_type.add(name=name).field.add(name="value", number=1, label=_Field.LABEL_REPEATED, type=value_type)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (field, name) in enumerate(_LISTS, 1):
        _add(feature, field, number, f".afo.example.{name}").oneof_index = 0
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=_Field.LABEL_OPTIONAL, type=_Field.TYPE_STRING)
    _add(entry, "value", 2, ".afo.example.Feature")
    _add(features, "feature", 1, ".afo.example.Features.FeatureEntry").label = _Field.LABEL_REPEATED
    _add(file.message_type.add(name="Example"), "features", 1, ".afo.example.Features")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("afo.example.Example"))


def _add(
    parent: descriptor_pb2.DescriptorProto, name: str, number: int, kind: str
) -> descriptor_pb2.FieldDescriptorProto:
    return parent.field.add(
        name=name, number=number, label=_Field.LABEL_OPTIONAL, type=_Field.TYPE_MESSAGE, type_name=kind
    )


_Example = _message_class()


def encode(features: Mapping[str, Values | Sequence[int] | Sequence[float] | Sequence[str]]) -> bytes:
    """A serialized `tf.Example`, the same bytes for the same features.

    Integers become an int64 list, real numbers a float list, bytes and text (as UTF-8) a bytes list. Raises DataError
    for anything else and for integers beyond 64 bits.
    """
    example = _Example()
    for name, values in features.items():
        _fill(example.features.feature[name], name, values)
    return bytes(example.SerializeToString(deterministic=True))


def _fill(feature: Any, name: str, values: Any) -> None:
    kind = kind_of(values)
    plain = values.tolist() if isinstance(values, np.ndarray) else values
    try:
        if kind == "int64":
            feature.int64_list.value.extend(plain)
        elif kind == "float":
            feature.float_list.value.extend(plain)
        else:
            feature.bytes_list.value.extend(value.encode() if isinstance(value, str) else value for value in plain)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"feature `{name}`: {error}") from error


def kind_of(values: Values | Sequence[int] | Sequence[float] | Sequence[str]) -> ListKind:
    """Which list of a `tf.Example` holds these values; an empty plain list counts as bytes."""
    if isinstance(values, np.ndarray):
        return "int64" if values.dtype.kind == "i" else "float"
    first = values[0] if values else b""
    if isinstance(first, int):
        return "int64"
    return "float" if isinstance(first, float) else "bytes"


def decode(record: bytes, only: Collection[str] | None = None) -> dict[str, Values]:
    """The features of a serialized `tf.Example` by name; a feature without a list is left out.

    With `only`, other features are there without their values: one record may hold thousands. Raises DataError when
    the bytes are no `tf.Example`.
    """
    try:
        example = _Example.FromString(record)
    except message.DecodeError as error:
        raise DataError(f"not a tf.Example: {error}") from error
    return {
        name: values
        for name, feature in example.features.feature.items()
        if (values := _values(feature) if only is None or name in only else []) is not None
    }


def _values(feature: Any) -> Values | None:
    kind = feature.WhichOneof("kind")
    if kind == "int64_list":
        return np.asarray(feature.int64_list.value, dtype=np.int64)
    if kind == "float_list":
        return np.asarray(feature.float_list.value, dtype=np.float32)
    return list(feature.bytes_list.value) if kind == "bytes_list" else None
