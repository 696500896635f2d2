"""skein's connections to its driver and ApplicationMaster, never through a proxy of the environment."""

from typing import Any

import grpc
import skein

#: skein's certificates are made out to this name.
_NAME = "skein-internal"
_OPTIONS = (
    ("grpc.ssl_target_name_override", _NAME),
    ("grpc.default_authority", _NAME),
    ("grpc.enable_http_proxy", 0),
)


def direct() -> None:
    """From now on. gRPC would ask `http_proxy` for the way to 127.0.0.1, and no call of skein's takes an option."""
    skein.core.secure_channel = _channel


def _channel(address: str, security: Any) -> grpc.Channel:
    certificate, key = security._get_bytes("cert"), security._get_bytes("key")
    credentials = grpc.ssl_channel_credentials(certificate, key, certificate)
    return grpc.secure_channel(address, credentials, options=_OPTIONS)
