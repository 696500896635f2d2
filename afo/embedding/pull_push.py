"""Pull and push: all that a step asks of a server is one message, its answer is one, and all that it gives is one.

Their bytes are those of afo/core/message.h. A server of this process gets the tensors themselves.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from afo.embedding.calls import Remote
from afo.ops.library import load


class Kind(IntEnum):
    """As `MessageKind` of afo/core/message.h."""

    PULL = 1
    ANSWER = 2
    PUSH = 3


class Narrowed(NamedTuple):
    """A tensor of float32 that goes to the other side as `wire`, bfloat16 or float32, and is float32 there."""

    tensor: Any
    wire: Any


class Request(Protocol):
    """What is asked of the servers, and what is made of their answers."""

    def asked_of(self, server: int) -> Sequence[Any]:
        """What the server has to know, tensors on the client."""

    def answer(self, server: int, asked: Sequence[Any]) -> Sequence[Any]:
        """Build the operations on the server, whose device is set; returns what goes back: tensors, or `Narrowed`."""

    def take(self, answers: Sequence[Sequence[Any]]) -> None:
        """Take the answers of all servers, tensors on the client."""


class Update(Protocol):
    """What is given to the servers."""

    def given_to(self, server: int) -> Sequence[Any]:
        """Tensors on the client, or `Narrowed`."""

    def apply(self, server: int, given: Sequence[Any]) -> Sequence[Any]:
        """Build the operations on the server, whose device is set; returns those that have to be waited for."""


class Servers(Protocol):
    """All servers of a step."""

    @property
    def devices(self) -> tuple[str, ...]:
        """Of each of them."""

    def pull(self, requests: Sequence[Request]) -> None:
        """Ask each server once for what all of `requests` want."""

    def push(self, updates: Sequence[Update], last: Sequence[Update] = ()) -> list[Any]:
        """Give each server what `updates` have for it, in their order, and, when these are applied, `last`.

        Returns the operations that are the end of it.
        """


class DeviceServers(NamedTuple):
    """TensorFlow's servers by their devices, and that of the process that asks them.

    `carries`: whether messages are encoded; the native operations are then on all of them.
    """

    devices: tuple[str, ...]
    client: str
    carries: bool

    def pull(self, requests: Sequence[Request]) -> None:
        """See `Servers`."""
        answers = [_ask(self, number, requests) for number in range(len(self.devices))]
        for place, request in enumerate(requests):
            request.take([of_server[place] for of_server in answers])

    def push(self, updates: Sequence[Update], last: Sequence[Update] = ()) -> list[Any]:
        """See `Servers`. What is `last` waits for the updates on all servers."""
        return _push(self, updates, last)


def servers_of(devices: Sequence[str], client: str) -> DeviceServers:
    """Servers that have the native operations; those of other processes get messages."""
    jobs = {tf.DeviceSpec.from_string(device).job for device in devices}
    return DeviceServers(tuple(devices), client, carries=not jobs <= {None, "localhost"})


def value_of(answered: Any) -> Any:
    """The tensor that became of what an update's `apply` has returned, once it was pushed."""
    return answered.tensor if isinstance(answered, Remote) else answered


def _push(servers: DeviceServers, updates: Sequence[Update], last: Sequence[Update]) -> list[Any]:
    there = [
        _move(servers, Kind.PUSH, servers.client, device, [each.given_to(number) for each in (*updates, *last)])
        for number, device in enumerate(servers.devices)
    ]
    applied = _apply(servers, updates, [given[: len(updates)] for given in there])
    if not last:
        return applied
    with tf.control_dependencies(applied):
        return _apply(servers, last, [given[len(updates) :] for given in there])


def _ask(servers: DeviceServers, number: int, requests: Sequence[Request]) -> list[list[Any]]:
    device = servers.devices[number]
    asked = [request.asked_of(number) for request in requests]
    there = _move(servers, Kind.PULL, servers.client, device, asked)
    with tf.device(device):
        answers = [request.answer(number, part) for request, part in zip(requests, there, strict=True)]
    return _move(servers, Kind.ANSWER, device, servers.client, answers)


def _apply(servers: DeviceServers, updates: Sequence[Update], given: Sequence[Sequence[Sequence[Any]]]) -> list[Any]:
    """For each server an operation that comes after what it has to apply: others wait for one, and not for all."""
    ends = []
    for number, (device, parts) in enumerate(zip(servers.devices, given, strict=True)):
        with tf.device(device):
            made = [each for update, part in zip(updates, parts, strict=True) for each in update.apply(number, part)]
            # Where functions run at once there is no operation to wait for.
            if operations := [each for each in made if each is not None]:
                with tf.control_dependencies(operations):
                    ends.append(tf.no_op())
    return ends


def _move(servers: DeviceServers, kind: Kind, start: str, to: str, groups: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The tensors of `groups` on the device `to`, each different one sent once."""
    sent = [[narrowed(each) for each in group] for group in groups]
    flat = {_key(each): each for group in sent for each in group}
    if not servers.carries or not flat:
        return [[_round(each) for each in group] for group in sent]
    tensors = [each.tensor for each in flat.values()]
    with tf.device(start):
        message = load().afo_encode_message(tensors, wire=[each.wire for each in flat.values()], kind=kind)
    with tf.device(to):
        parts = load().afo_decode_message(message, T=[tensor.dtype for tensor in tensors], kind=kind)
    for part, tensor in zip(parts, tensors, strict=True):
        part.set_shape(tensor.shape)
    there = dict(zip(flat, parts, strict=True))
    return [[there[_key(each)] for each in group] for group in sent]


def narrowed(given: Any) -> Narrowed:
    """What is given with its type on the way."""
    return given if isinstance(given, Narrowed) else Narrowed(given, given.dtype)


def _key(sent: Narrowed) -> Any:
    return sent.tensor.ref(), tf.as_dtype(sent.wire)


def _round(sent: Narrowed) -> Any:
    """What is there of it where nothing is sent."""
    return sent.tensor if sent.wire == sent.tensor.dtype else tf.cast(tf.cast(sent.tensor, sent.wire), tf.float32)
