"""Names and encoding of the calls: `afo.Master/<Method>`, msgpack bodies; and secrets."""

import secrets
from pathlib import Path
from typing import TypeVar

import msgspec

from afo.errors import PermissionDenied, ProtocolError
from afo.formats.decoding import UNDECODABLE, known, reason
from afo.rpc import messages as m

SERVICE = "afo.Master"
MAX_MESSAGE_BYTES = 4 * 1024 * 1024

#: Method name: (request type, reply type).
METHODS: dict[str, tuple[type[m.Message], type[m.Message]]] = {
    "Register": (m.RegisterRequest, m.Directive),
    "Heartbeat": (m.HeartbeatRequest, m.Directive),
    "Tokens": (m.TokensRequest, m.TokensReply),
    "ReportExit": (m.ExitReport, m.ExitReply),
    "NextSplit": (m.SplitRequest, m.SplitReply),
    "AckSplit": (m.SplitAck, m.Empty),
    "ReportReady": (m.ReadyReport, m.Empty),
    "Ready": (m.ReadyRequest, m.ReadyReply),
    "Servers": (m.ServersRequest, m.ServersReply),
    "ReportSaving": (m.SavingReport, m.Empty),
    "ReportCheckpoint": (m.CheckpointReport, m.CheckpointReply),
    "NextVersion": (m.VersionRequest, m.VersionReply),
    "ReportVersion": (m.VersionReport, m.Empty),
    "Export": (m.ExportRequest, m.ExportReply),
    "ReportEval": (m.EvalReport, m.Empty),
    "Status": (m.StatusRequest, m.StatusReply),
    "Kill": (m.KillRequest, m.Empty),
    "Scale": (m.ScaleRequest, m.ScaleReply),
    "GiveOrder": (m.OrderRequest, m.OrderReply),
    "OrderStatus": (m.OrderStatusRequest, m.OrderStatusReply),
    "ReportOrder": (m.OrderResult, m.Empty),
}

_T = TypeVar("_T", bound=m.Message)


def decode(body: bytes, kind: type[_T]) -> _T:
    """Raises `ProtocolError` naming the message and the field that does not fit."""
    try:
        return msgspec.msgpack.decode(body, type=known(kind))
    except UNDECODABLE as error:
        raise ProtocolError(f"malformed {kind.__name__}: {reason(error)}") from error


def encode(message: m.Message) -> bytes:
    """The bytes of a message."""
    return msgspec.msgpack.encode(message)


def new_secret() -> str:
    """A fresh secret of 256 bits: of a job, or of a history server."""
    return secrets.token_hex(32)


def read_secret(path: str | Path) -> str:
    """A secret from its file. Raises `PermissionDenied` if it cannot be read or is empty."""
    try:
        text = Path(path).read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise PermissionDenied(f"cannot read the secret from {path}: {error}") from error
    if not text:
        raise PermissionDenied(f"the file of the secret, {path}, is empty")
    return text
