"""Calls on a server's store (afo/core/calls.h), as lists of bytes (afo/core/call_list.h).

A list is made by a `Recording`, on which what would be an operation on the server is noted instead of done.
"""

import struct
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import tensorflow as tf

_WHOSE_SHIFT = 30
#: Of `Whose` in afo/core/call_list.h.
_PART, _RESULT = 0, 1
#: What is added to them where they are an earlier message's.
_EARLIER = 2
#: `PartType` of afo/core/message.h, by TensorFlow's names.
_TYPES = {
    name: number
    for number, name in enumerate(
        ("float32", "float64", "bfloat16", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
         "uint64", "bool"), 1
    )
}  # fmt: skip


class Attributes(NamedTuple):
    """Of a call, as the list has them."""

    ints: Sequence[int] = ()
    floats: Sequence[float] = ()
    texts: Sequence[str] = ()


class _Function(NamedTuple):
    """`attributes` of an operation's keywords; `results` are the types of what comes of it."""

    number: int
    attributes: Callable[..., Attributes]
    results: Callable[..., Sequence[Any]] = lambda **_: ()
    #: It must not be done twice.
    changes: bool = False


def _numbers(numbers: Sequence[int]) -> Attributes:
    return Attributes(ints=numbers)


def _none(**_: Any) -> Attributes:
    return Attributes()


def _add_table(
    *, number: int, dim: int, slots: int, seed: int, shard_bits: int, min_count: int, max_element_size: int,
    value_dtype: Any, rule: str, distribution: str, option_names: Sequence[str], options: Sequence[float],
    initializer_names: Sequence[str], initializer: Sequence[float], probability: float, default_value: float,
    false_positive_probability: float,
) -> Attributes:  # fmt: skip
    ints = (number, dim, slots, seed, shard_bits, min_count, max_element_size, type_number(value_dtype), len(options))
    floats = (probability, default_value, false_positive_probability, *options, *initializer)
    return Attributes(ints, floats, (rule, distribution, *option_names, *initializer_names))


def _create_dense(
    *, size: int, slots: int, rule: str, option_names: Sequence[str], options: Sequence[float]
) -> Attributes:
    return Attributes((size, slots), options, (rule, *option_names))


def _evict_rows(
    *, numbers: Sequence[int], unused_steps: Sequence[int], capacities: Sequence[int], l2_weights: Sequence[float]
) -> Attributes:
    return Attributes((len(numbers), *numbers, *unused_steps, *capacities), l2_weights)


def _pool_rows(
    *, insert: bool, T: Any, numbers: Sequence[int], run_tables: Sequence[int], max_norms: Sequence[float]
) -> Attributes:
    return Attributes((int(insert), type_number(T), len(numbers), *numbers, *run_tables), max_norms)


def _apply_pooled(*, numbers: Sequence[int], run_tables: Sequence[int], max_norms: Sequence[float]) -> Attributes:
    return Attributes((len(numbers), *numbers, *run_tables), max_norms)


def _types(T: Sequence[Any]) -> Attributes:
    return Attributes(ints=[type_number(each) for each in T])


_FUNCTIONS = {
    "lookup_rows": _Function(
        1, lambda insert, numbers: Attributes((int(insert), *numbers)), lambda **_: ("float32", "int32")
    ),
    "apply_rows": _Function(2, _numbers, changes=True),
    "pool_rows": _Function(3, _pool_rows, lambda T, **_: (T, "int32")),
    "apply_pooled": _Function(4, _apply_pooled, changes=True),
    "remove_rows": _Function(5, lambda number: Attributes((number,)), lambda **_: ("int64",), changes=True),
    "evict_rows": _Function(6, _evict_rows, lambda **_: ("int64",), changes=True),
    "read_dense": _Function(7, _none, lambda **_: ("float32",)),
    "apply_dense": _Function(8, _none, changes=True),
    "move_dense": _Function(9, _none, changes=True),
    "reset_dense": _Function(10, _none, changes=True),
    "export_dense": _Function(11, _none, lambda **_: ("float32", "float32", "int64")),
    "import_dense": _Function(12, _none, changes=True),
    "create_dense": _Function(13, _create_dense, changes=True),
    "read_progress": _Function(14, _types, lambda T: ("int64", "int64", *T)),
    "advance": _Function(15, _none, lambda **_: ("int64",), changes=True),
    "export_progress": _Function(16, _types, lambda T: ("int64", "int64", "int64", *T)),
    "import_progress": _Function(17, _none, changes=True),
    "add_table": _Function(18, _add_table, changes=True),
    "table_sizes": _Function(19, _numbers, lambda **_: ("int64", "int64")),
    "begin_epoch": _Function(20, _numbers, lambda **_: ("int64", "int64"), changes=True),
    "clear_tables": _Function(21, _numbers, changes=True),
    "forget_removed": _Function(22, _numbers, changes=True),
    "set_powers": _Function(23, _numbers, changes=True),
}


def type_number(dtype: Any) -> int:
    """Of `PartType`."""
    return _TYPES[tf.as_dtype(dtype).name]


class Remote:
    """An array on a server: a part of a message that goes there, or the result of a call."""

    def __init__(self, recording: "Recording", whose: int, number: int, dtype: Any) -> None:
        self.recording, self.whose, self.number = recording, whose, number
        self.dtype = tf.as_dtype(dtype)
        self.shape = tf.TensorShape(None)
        #: What came of it here, if it was sent: once the message is made.
        self.tensor: Any = None

    def set_shape(self, shape: Any) -> None:
        """As that of a tensor."""
        self.shape = tf.TensorShape(shape)


class Recording:
    """Calls of one message to one server, and what of their results is sent back."""

    def __init__(self) -> None:
        #: Tensors that the message carries, and their types on the way.
        self.parts: list[tuple[Any, Any]] = []
        #: The message whose parts and results are named, too.
        self.earlier: Recording | None = None
        #: Of that message, once it is made: a tensor.
        self.sequence: Any = None
        #: Whether it must not be carried out twice.
        self.changes = False
        self._shared: dict[Any, Remote] = {}
        self._calls: list[bytes] = []
        self._results = 0
        self._sent: list[tuple[Remote, Any]] = []

    def part(self, tensor: Any, wire: Any = None) -> Remote:
        """One more tensor of the message; `wire`: its type on the way."""
        tensor = tf.convert_to_tensor(tensor)
        self.parts.append((tensor, tf.as_dtype(wire or tensor.dtype)))
        return Remote(self, _PART, len(self.parts) - 1, tensor.dtype)

    def shared_part(self, tensor: Any, wire: Any) -> Remote:
        """As `part`, and the same one for the same tensor."""
        key = tensor.ref(), tf.as_dtype(wire)
        if key not in self._shared:
            self._shared[key] = self.part(tensor, wire)
        return self._shared[key]

    def call(self, function: str, arguments: Sequence[Any], attributes: dict[str, Any]) -> Any:
        """What the operation would return: nothing, a `Remote`, or a tuple of them."""
        known = _FUNCTIONS[function]
        places = [self._place(each) for each in chain.from_iterable(map(_listed, arguments))]
        self._calls.append(_encode(known.number, places, known.attributes(**attributes)))
        self.changes |= known.changes
        results = tuple(self._result(dtype) for dtype in known.results(**attributes))
        return results if len(results) > 1 else results[0] if results else None

    def send(self, remote: Remote, wire: Any = None) -> None:
        """Have it come back."""
        self._sent.append((remote, tf.as_dtype(wire or remote.dtype)))

    @property
    def sent(self) -> list[Remote]:
        """What comes back, in this order."""
        return [remote for remote, _ in self._sent]

    def encode(self) -> bytes:
        """The list."""
        sent = [(remote.number, type_number(wire)) for remote, wire in self._sent]
        head, tail = struct.pack("<I", len(self._calls)), struct.pack("<I", len(sent))
        return b"".join([head, *self._calls, tail, *(struct.pack("<II", *each) for each in sent)])

    def _result(self, dtype: Any) -> Remote:
        self._results += 1
        return Remote(self, _RESULT, self._results - 1, dtype)

    def _place(self, argument: Any) -> int:
        remote = argument if isinstance(argument, Remote) else self.part(argument)
        whose = remote.whose
        if remote.recording is not self:
            assert self.earlier in (None, remote.recording), "a message names results of one other message"
            self.earlier, whose = remote.recording, whose + _EARLIER
        return whose << _WHOSE_SHIFT | remote.number


def _listed(argument: Any) -> Sequence[Any]:
    return argument if isinstance(argument, list | tuple) else (argument,)


def _encode(function: int, places: Sequence[int], attributes: Attributes) -> bytes:
    ints, floats, texts = attributes
    encoded = [text.encode() for text in texts]
    return b"".join(
        [
            struct.pack("<HHIII", function, len(places), len(ints), len(floats), len(texts)),
            struct.pack(f"<{len(places)}I", *places),
            struct.pack(f"<{len(ints)}q", *map(int, ints)),
            struct.pack(f"<{len(floats)}f", *floats),
            *(struct.pack("<I", len(text)) + text for text in encoded),
        ]
    )
