"""Parameter servers of our own, asked by messages: what a step does, and what is asked outside of one.

What would be operations on a server is recorded, and becomes one message (`afo.embedding.calls`).
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

import tensorflow as tf

from afo.embedding.calls import Recording, Remote
from afo.embedding.pull_push import Narrowed, Request, Update, narrowed
from afo.embedding.stores import RecordedStore, Store
from afo.ops.handles import run_independently
from afo.ops.library import load

#: The device of this process, and so of operations that ask. A server has none here.
_HERE = "/device:CPU:0"
#: How long a question may go unanswered while its server comes back: one of a step, about whole tables, and to a desk,
#: which takes its time. Seconds.
STEP_DEADLINE_S, CONTROL_DEADLINE_S, DESK_DEADLINE_S = 60.0, 300.0, 7 * 24 * 3600.0


class RequestKind(IntEnum):
    """As `RequestKind` of afo/psplus/store_service.h."""

    PULL = 1
    PUSH = 2
    CONTROL = 3


class PlusServer:
    """See `afo.embedding.stores.Server`."""

    def __init__(self, client: str, number: int) -> None:
        """`client`: the name under which this process is connected (`afo.embedding.plus_client`)."""
        self._client, self._number = client, number
        self._operations = load()
        self.calls = RecordedStore()

    def store(self) -> Store:
        """One for all parts of a step, which go into one message."""
        return self.calls

    def trace(self, question: Callable[..., Any], *signature: Any) -> Callable[..., Any]:
        """Its calls are one message, which is sent whenever the function is called."""

        def call(*given: Any) -> Any:
            with self.calls.recording() as recording:
                tensors = [tf.cast(each, spec.dtype) for each, spec in zip(given, signature, strict=True)]
                answer = question(self.calls, *(recording.part(tensor) for tensor in tensors))
            remotes = tf.nest.flatten(answer) if answer is not None else []
            for remote in remotes:
                recording.send(remote)
            self.send(RequestKind.CONTROL, recording, once=recording.changes)
            if answer is None:
                return None
            return tf.nest.pack_sequence_as(answer, [remote.tensor for remote in remotes])

        return call

    def send(self, kind: RequestKind, recording: Recording, *, once: bool) -> Any:
        """Build the operation that has it done; the tensors of what is sent back are set. Returns its end."""
        earlier = recording.earlier
        deadline_s = CONTROL_DEADLINE_S if kind is RequestKind.CONTROL else STEP_DEADLINE_S
        with tf.device(_HERE):
            asked = self._operations.afo_ask_server(
                tf.constant(0, tf.int64) if earlier is None else earlier.sequence,
                [tensor for tensor, _ in recording.parts],
                wire=[wire for _, wire in recording.parts],
                answers=[remote.dtype for remote in recording.sent],
                client=self._client,
                server=self._number,
                kind=kind,
                once=once,
                calls=recording.encode(),
                deadline_ms=int(deadline_s * 1000),
            )
        recording.sequence = asked.sequence
        _free(asked.sequence)
        for remote, tensor in zip(recording.sent, asked.results, strict=True):
            tensor.set_shape(remote.shape)
            remote.tensor = tensor
        return asked.sequence

    def ask_desk(self, asker: str, request: bytes) -> bytes:
        """In a message of its own."""
        return bytes(
            self._operations.afo_ask_server_desk(
                asker, request, client=self._client, server=self._number, deadline_ms=int(DESK_DEADLINE_S * 1000)
            ).numpy()
        )


class PlusServers:
    """See `afo.embedding.pull_push.Servers`. One message to each server for a pull, and one for a push."""

    def __init__(self, client: str, count: int) -> None:
        self.servers = tuple(PlusServer(client, number) for number in range(count))

    @property
    def devices(self) -> tuple[str, ...]:
        """Operations that ask are here."""
        return (_HERE,) * len(self.servers)

    def pull(self, requests: Sequence[Request]) -> None:
        """See `Servers`."""
        answers = [_pull(server, number, requests) for number, server in enumerate(self.servers)]
        for place, request in enumerate(requests):
            request.take([of_server[place] for of_server in answers])

    def push(self, updates: Sequence[Update], last: Sequence[Update] = ()) -> list[Any]:
        """See `Servers`. What is `last` on a server waits for its own updates alone: they are one message."""
        return [_push(server, number, (*updates, *last)) for number, server in enumerate(self.servers)]


def _pull(server: PlusServer, number: int, requests: Sequence[Request]) -> list[list[Any]]:
    with server.calls.recording() as recording:
        answers: list[list[Narrowed]] = []
        for request in requests:
            asked = _parts(recording, request.asked_of(number))
            answers.append([narrowed(each) for each in request.answer(number, asked)])
    for answer in answers:
        for remote, wire in answer:
            recording.send(remote, wire)
    server.send(RequestKind.PULL, recording, once=False)
    return [[remote.tensor for remote, _ in answer] for answer in answers]


def _push(server: PlusServer, number: int, updates: Sequence[Update]) -> Any:
    with server.calls.recording() as recording:
        for update in updates:
            for answer in update.apply(number, _parts(recording, update.given_to(number))):
                if answer is not None:
                    recording.send(answer)
    return server.send(RequestKind.PUSH, recording, once=True)


def _parts(recording: Recording, given: Sequence[Any]) -> list[Remote]:
    """Tensors that go there, each different one once."""
    return [recording.shared_part(*narrowed(each)) for each in given]


def _free(tensor: Any) -> None:
    """Nothing else of the function waits for its operation: see `run_independently`."""
    if not tf.executing_eagerly():
        run_independently(tensor)
