"""A client of the Application Master that finds a restarted one by its address file."""

import threading
import time
from typing import cast

import grpc
import msgspec

from afo import storage
from afo.errors import AfoError, ClusterUnreachable, NotFound, PermissionDenied, ProtocolError, StorageError
from afo.rpc import messages as m
from afo.rpc import wire

_ERROR_OF: dict[grpc.StatusCode, type[AfoError]] = {
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.FAILED_PRECONDITION: ProtocolError,
    grpc.StatusCode.UNAVAILABLE: ClusterUnreachable,
    grpc.StatusCode.DEADLINE_EXCEEDED: ClusterUnreachable,
    grpc.StatusCode.CANCELLED: ClusterUnreachable,
}


class AmAddress(msgspec.Struct, frozen=True):
    """Content of the address file. `incarnation` grows with every start of the AM; the highest one is obeyed."""

    address: str
    incarnation: int


def write_address(url: str, address: AmAddress) -> None:
    """Publish where the AM listens."""
    storage.write_bytes(url, msgspec.json.encode(address))


def read_address(url: str) -> AmAddress:
    """Raises `NotFound` before the AM first wrote it, `ProtocolError` for a malformed file."""
    try:
        return msgspec.json.decode(storage.read_bytes(url), type=AmAddress)
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"malformed address file {url}: {error}") from error


class AmClient:
    """Calls the AM whose address lies at `address_url`. Thread-safe; `close` it.

    A call that finds nobody reads the address again and is repeated until `patience_s` is over, then raises
    `ClusterUnreachable`. Every call of the protocol may safely be repeated.
    """

    def __init__(self, address_url: str, secret: str, *, patience_s: float = 120.0, call_s: float = 10.0) -> None:
        self._url = address_url
        self._metadata = ((wire.SECRET_HEADER, secret),)
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

    def call(self, method: str, request: m.Message, *, patience_s: float | None = None) -> m.Message:
        """Send `request`, return the reply of the method's type. Raises the `AfoError` the AM raised."""
        deadline = time.monotonic() + (self._patience_s if patience_s is None else patience_s)
        delay = 0.1
        while True:
            try:
                return self._once(method, request)
            except ClusterUnreachable as error:
                if time.monotonic() + delay > deadline:
                    raise ClusterUnreachable(
                        f"the Application Master does not answer ({self._url}): {error}"
                    ) from error
            time.sleep(delay)
            delay = min(2 * delay, 2.0)

    def _once(self, method: str, request: m.Message) -> m.Message:
        body = wire.encode(request)
        channel = self._connect()
        try:
            send = channel.unary_unary(f"/{wire.SERVICE}/{method}")
            reply = send(body, timeout=self._call_s, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._translated(cast(grpc.Call, error), channel) from error
        except ValueError as error:  # so gRPC says that another thread, whose call had failed, closed it in between
            raise ClusterUnreachable("the connection was dropped because of another call") from error
        return wire.decode(reply, wire.METHODS[method][1])

    def _translated(self, error: grpc.Call, channel: grpc.Channel) -> AfoError:
        code = error.code()
        kind = _ERROR_OF.get(code, ProtocolError)
        if kind is ClusterUnreachable:
            with self._lock:
                if self._channel is channel:  # else another thread has a new one by now, which may well be a good one
                    self._drop()
        return kind(error.details() or code.name)

    def _connect(self) -> grpc.Channel:
        with self._lock:
            if self._channel is None:
                try:
                    self._address = read_address(self._url)
                except NotFound as error:
                    raise ClusterUnreachable(f"no Application Master has published its address yet: {error}") from error
                except (StorageError, ProtocolError) as error:  # HDFS has trouble; or somebody writes it just now
                    raise ClusterUnreachable(f"its address cannot be read: {error}") from error
                options = [("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", wire.MAX_MESSAGE_BYTES)]
                self._channel = grpc.insecure_channel(self._address.address, options=options)
            return self._channel

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
