"""A client of the Application Master that finds a restarted one by its address file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import cast

import grpc
import msgspec

from afo import storage
from afo.errors import (
    AfoError,
    ClusterUnreachable,
    GenerationOver,
    NotFound,
    PermissionDenied,
    ProtocolError,
    StorageError,
)
from afo.formats import decoding
from afo.formats.decoding import Malformed
from afo.rpc import messages as m
from afo.rpc import tls, wire

_ERROR_OF: dict[grpc.StatusCode, type[AfoError]] = {
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ABORTED: GenerationOver,
    grpc.StatusCode.FAILED_PRECONDITION: ProtocolError,
    grpc.StatusCode.UNAVAILABLE: ClusterUnreachable,
    grpc.StatusCode.DEADLINE_EXCEEDED: ClusterUnreachable,
    grpc.StatusCode.CANCELLED: ClusterUnreachable,
}
_STRANGER = "who answers at its address does not hold this job's secret, or this process does not"
_OPTIONS = (
    *tls.OPTIONS,
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", wire.MAX_MESSAGE_BYTES),
)


class AmAddress(msgspec.Struct, frozen=True):
    """Content of the address file. `incarnation` grows with every start of the AM; the highest one is obeyed."""

    address: str
    incarnation: int

    def text(self) -> str:
        """For an environment variable of a container, whose script takes no quotes."""
        return f"{self.incarnation}@{self.address}"

    @classmethod
    def of_text(cls, text: str) -> AmAddress:
        """The opposite of `text`. Raises `ProtocolError`."""
        incarnation, at, address = text.partition("@")
        if not at or not incarnation.isdecimal():
            raise ProtocolError(f"{text!r} is no address of an Application Master; one looks like 1@host:40123")
        return cls(address, int(incarnation))


def write_address(url: str, address: AmAddress) -> None:
    """Publish where the AM listens."""
    storage.write_bytes(url, msgspec.json.encode(address))


def read_address(url: str) -> AmAddress:
    """Raises `NotFound` before the AM first wrote it, `ProtocolError` for a malformed file."""
    try:
        return decoding.read(url, AmAddress)
    except Malformed as error:
        raise ProtocolError(f"malformed address file: {error}") from error


class AmClient:
    """Calls the AM whose address lies at `address_url`. Thread-safe; `close` it.

    `known`: where it was when this process was started; the file is read once nobody answers there.

    A call that finds nobody reads the address again and is repeated until `patience_s` is over, then raises
    `ClusterUnreachable`, or `PermissionDenied` where one of the two ends does not hold the job's secret. Every call of
    the protocol may safely be repeated.
    """

    def __init__(
        self, address_url: str, secret: str, *, patience_s: float = 120.0, call_s: float = 10.0,
        known: AmAddress | None = None,
    ) -> None:  # fmt: skip
        self._url = address_url
        self._known = known
        self._credentials = tls.channel_credentials(secret)
        self._patience_s = patience_s
        self._call_s = call_s
        self._lock = threading.Lock()
        self._channel: grpc.Channel | None = None
        self._address: AmAddress | None = None

    def close(self) -> None:
        """Drop the connection."""
        with self._lock:
            self._drop()

    def follow(self) -> None:
        """Read the address file; if another AM than the present one has published its own, later calls go there.

        A call that fails does so by itself; this is for an AM that was replaced and still answers. Raises what reading
        the file raises.
        """
        published = read_address(self._url)
        with self._lock:
            if self._address != published:
                self._drop()

    def call(
        self, method: str, request: m.Message | Callable[[], m.Message], *, patience_s: float | None = None
    ) -> m.Message:
        """Send `request`, return the reply of the method's type. Raises the `AfoError` the AM raised.

        Of one that changes while nobody answers, a function makes each try's.
        """
        deadline = time.monotonic() + (self._patience_s if patience_s is None else patience_s)
        delay = 0.1
        while True:
            try:
                return self._call_once(method, request() if callable(request) else request)
            except ClusterUnreachable as error:
                if time.monotonic() + delay > deadline:
                    raise _no_answer_error(error, self._url) from error
            time.sleep(delay)
            delay = min(2 * delay, 2.0)

    def _call_once(self, method: str, request: m.Message) -> m.Message:
        body = wire.encode(request)
        channel = self._connect()
        try:
            send = channel.unary_unary(f"/{wire.SERVICE}/{method}")
            reply = send(body, timeout=self._call_s)
        except grpc.RpcError as error:
            raise self._translate_error(cast(grpc.Call, error), channel) from error
        except ValueError as error:  # so gRPC says that another thread, whose call had failed, closed it in between
            raise ClusterUnreachable("the connection was dropped because of another call") from error
        return wire.decode(reply, wire.METHODS[method][1])

    def _translate_error(self, error: grpc.Call, channel: grpc.Channel) -> AfoError:
        code = error.code()
        kind = _ERROR_OF.get(code, ProtocolError)
        if kind is ClusterUnreachable:
            with self._lock:
                if self._channel is channel:  # else another thread has a new one by now, which may well be a good one
                    self._drop()
        return kind(_words(error.details() or code.name))

    def _connect(self) -> grpc.Channel:
        with self._lock:
            if self._channel is None:
                try:
                    self._address, self._known = self._known or read_address(self._url), None
                except NotFound as error:
                    raise ClusterUnreachable(f"no Application Master has published its address yet: {error}") from error
                except (StorageError, ProtocolError) as error:  # HDFS has trouble; or somebody writes it just now
                    raise ClusterUnreachable(f"its address cannot be read: {error}") from error
                self._channel = grpc.secure_channel(self._address.address, self._credentials, options=_OPTIONS)
            return self._channel

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None


def _words(details: str) -> str:
    """gRPC's, in plain words where the other end is not one of the job's. It may be of another job, on an old port."""
    return f"{_STRANGER} ({details})" if "handshake failed" in details or "CERTIFICATE" in details else details


def _no_answer_error(error: ClusterUnreachable, url: str) -> AfoError:
    """For good: a stranger may have been where the Application Master is no more, but not for so long."""
    kind = PermissionDenied if _STRANGER in str(error) else ClusterUnreachable
    return kind(f"the Application Master does not answer ({url}): {error}")
