"""Messages of a step: tensors come out as they went in, and bytes that are none are refused in a sentence."""

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

tf = pytest.importorskip("tensorflow")

from afo.embedding.pull_push import DeviceServers, Kind, Narrowed  # noqa: E402
from afo.ops.library import load  # noqa: E402

pytestmark = pytest.mark.tensorflow

TYPES = [np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, bool]
HERE = "/device:CPU:0"
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9)


def encode(*tensors: Any, kind: Kind = Kind.PULL) -> Any:
    return load().afo_encode_message(tensors, wire=[tensor.dtype for tensor in tensors], kind=kind)


def decode(message: Any, *types: Any, kind: Kind = Kind.PULL) -> list[Any]:
    return list(load().afo_decode_message(message, T=types, kind=kind))


@given(arrays=st.lists(st.sampled_from(TYPES).flatmap(lambda kind: hnp.arrays(kind, SHAPES)), max_size=6))
@settings(deadline=None, max_examples=60)
def test_tensors_come_out_as_they_went_in(arrays: list[Any]) -> None:
    tensors = [tf.constant(array) for array in arrays]
    found = decode(encode(*tensors), *(tensor.dtype for tensor in tensors))
    for array, part in zip(arrays, found, strict=True):
        np.testing.assert_array_equal(part.numpy(), array)


@given(values=hnp.arrays(np.float32, hnp.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=300)))
@settings(deadline=None, max_examples=60)
def test_what_is_narrowed_is_what_tensorflow_casts(values: Any) -> None:
    tensor = tf.constant(values)
    message = load().afo_encode_message([tensor], wire=[tf.bfloat16], kind=Kind.ANSWER)
    narrow = tf.cast(tensor, tf.bfloat16)
    for wanted in (narrow, tf.cast(narrow, tf.float32)):
        [part] = decode(message, wanted.dtype, kind=Kind.ANSWER)
        np.testing.assert_array_equal(part.numpy().astype(np.float32), wanted.numpy().astype(np.float32))


def test_a_part_is_used_where_it_lies_and_stays_as_long_as_it_is_used() -> None:
    values = np.arange(200_000, dtype=np.float32)
    parts = decode(encode(tf.constant(values), tf.constant([7], tf.int64)), tf.float32, tf.int64)
    doubled = [part + part for part in parts for _ in range(20)]
    np.testing.assert_array_equal(parts[0].numpy(), values)
    np.testing.assert_array_equal(doubled[0].numpy(), values * 2)
    assert doubled[-1].numpy() == [14]


def test_bytes_that_are_none_are_refused_in_a_sentence() -> None:
    message = encode(tf.constant([1.0, 2.0]), tf.constant(3, tf.int64)).numpy()
    other = message.copy()
    other[4:6] = struct.unpack("2B", struct.pack("<H", 2))
    damaged = message.copy()
    damaged[-64] ^= 1
    cases = [
        (other, Kind.PULL, (tf.float32, tf.int64), "has version 2 where this program reads 1: all containers of a job"),
        (damaged, Kind.PULL, (tf.float32, tf.int64), "a message of a training step is damaged"),
        (message[:20], Kind.PULL, (tf.float32, tf.int64), "is cut off"),
        (message[:-64], Kind.PULL, (tf.float32, tf.int64), "has another length than it says"),
        (message, Kind.PUSH, (tf.float32, tf.int64), "is of another kind"),
        (message, Kind.PULL, (tf.float32,), "has 2 parts where 1 are expected"),
        (message, Kind.PULL, (tf.float32, tf.int32), "part 1 of a message of a training step is of another type"),
    ]
    for given_bytes, kind, types, sentence in cases:
        with pytest.raises(tf.errors.DataLossError, match=sentence):
            decode(tf.constant(given_bytes), *types, kind=kind)
    with pytest.raises(tf.errors.InvalidArgumentError, match="no message carries tensors of type string"):
        encode(tf.constant("text"))


class Doubling:
    """A server's numbers, asked for by their places and changed by a push."""

    def __init__(self) -> None:
        self.held = {0: tf.constant([1.0, 2.0]), 1: tf.constant([3.0, 4.0])}
        self.seen: list[tuple[str, int, list[str]]] = []
        self.answers: list[Any] = []

    def asked_of(self, server: int) -> list[Any]:
        return [tf.constant([server, 1], tf.int64)]

    def answer(self, server: int, asked: Any) -> list[Any]:
        self.seen.append(("answer", server, [part.dtype.name for part in asked]))
        return [Narrowed(tf.gather(self.held[server], asked[0]) + 1e-4, tf.bfloat16)]

    def take(self, answers: Any) -> None:
        self.answers = [part.numpy().tolist() for (part,) in answers]

    def given_to(self, server: int) -> list[Any]:
        return [tf.constant([10.0])] if server else []

    def apply(self, server: int, given: Any) -> list[Any]:
        self.seen.append(("apply", server, [part.dtype.name for part in given]))
        return []


@pytest.mark.parametrize("carries", [True, False])
def test_messages_change_nothing_of_what_is_asked_and_given(carries: bool) -> None:
    servers, asked = DeviceServers((HERE, HERE), HERE, carries), Doubling()
    servers.pull([asked])
    assert asked.answers == [[1.0, 2.0], [4.0, 4.0]], "as bfloat16 has them"
    last = Doubling()
    assert servers.push([asked], [last]) == []
    assert asked.seen[:2] == [("answer", 0, ["int64"]), ("answer", 1, ["int64"])]
    assert asked.seen[2:] == last.seen == [("apply", 0, []), ("apply", 1, ["float32"])]
