"""A gRPC server for the protocol: one handler a method, for holders of the job's secret alone."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from afo.errors import AfoError, ClusterUnreachable, GenerationOver, NotFound, PermissionDenied, ProtocolError
from afo.process import descriptors
from afo.process.hosts import host_port
from afo.rpc import tls, wire
from afo.rpc.messages import Message

Handler = Callable[[Any], Message]

#: How long a connection may take to show that it holds the secret.
HANDSHAKE_S = 10.0
#: After so long a silence a peer is asked whether it is there: connections of dead machines must not count for hours.
_KEEPALIVE_S = 60.0

#: The client turns a code back into the same class of error (see `afo.rpc.client`).
STATUS_OF: tuple[tuple[type[AfoError], grpc.StatusCode], ...] = (
    (PermissionDenied, grpc.StatusCode.PERMISSION_DENIED),
    (NotFound, grpc.StatusCode.NOT_FOUND),
    (GenerationOver, grpc.StatusCode.ABORTED),
    (ProtocolError, grpc.StatusCode.FAILED_PRECONDITION),
    (ClusterUnreachable, grpc.StatusCode.UNAVAILABLE),
    (AfoError, grpc.StatusCode.INVALID_ARGUMENT),
)


class RpcServer:
    """Serves `handlers` (method name → function of the request) on `host`:`port`; port 0 picks a free one.

    No more than `connections` are open at a time, those without a finished handshake included, and fewer where the
    process has no descriptors for them: what comes then is closed at once.
    """

    def __init__(
        self, handlers: dict[str, Handler], secret: str, host: str, port: int = 0, threads: int = 8,
        connections: int = 1024, handshake_s: float = HANDSHAKE_S,
    ) -> None:  # fmt: skip
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="rpc")
        options = [
            ("grpc.max_receive_message_length", wire.MAX_MESSAGE_BYTES),
            ("grpc.so_reuseport", 0),
            # Who has no secret gets no further than the handshake, and may not fill this process with it.
            ("grpc.server_handshake_timeout_ms", int(handshake_s * 1000)),
            ("grpc.max_allowed_incoming_connections", min(connections, descriptors.for_connections())),
            ("grpc.keepalive_time_ms", int(_KEEPALIVE_S * 1000)),
        ]
        self._server = grpc.server(self._pool, options=options)
        methods = {name: _method(name, handler) for name, handler in handlers.items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(wire.SERVICE, methods),))
        try:
            self.port = self._server.add_secure_port(host_port(host, port), tls.server_credentials(secret))
        except RuntimeError as error:
            raise ClusterUnreachable(f"cannot listen on {host_port(host, port)}: {error}") from error
        self.address = host_port(host, self.port)

    def start(self) -> None:
        """Begin to answer."""
        self._server.start()

    def stop(self, grace: float = 1.0) -> None:
        """Stop answering; calls under way get `grace` seconds."""
        self._server.stop(grace).wait()
        self._pool.shutdown(wait=True)


def _method(name: str, handler: Handler) -> grpc.RpcMethodHandler:
    request_type = wire.METHODS[name][0]

    def call(body: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            return wire.encode(handler(wire.decode(body, request_type)))
        except AfoError as error:
            code = next(code for kind, code in STATUS_OF if isinstance(error, kind))
            context.abort(code, str(error))
            raise  # abort raises already; this line only tells the type checker so

    return grpc.unary_unary_rpc_method_handler(call)
