"""The model server as a process: its program, and what it is told."""

import os
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from afo.errors import Unsupported
from afo.serving import processor_library
from afo_client.serving.serving_config import ModelConfig, ServingConfig

NAME = "afo_model_server"
_MIB = 1 << 20
#: TensorFlow's own lines begin at errors, unless the user says otherwise: it warns of each request that is at fault.
_LOG_LEVEL = ("TF_CPP_MIN_LOG_LEVEL", "2")


def become(config: ServingConfig) -> NoReturn:
    """Serve in the place of this process, until a signal ends it. Raises Unsupported where a part is not installed."""
    program, text = _program(), msgspec.json.encode(arguments(config))
    # Read through an open file: nothing is left behind, however the server ends.
    file = os.memfd_create("serving.json", 0)
    os.write(file, text)
    os.environ.setdefault(*_LOG_LEVEL)
    os.execv(program, [NAME, "--config", f"/proc/self/fd/{file}"])


def arguments(config: ServingConfig) -> dict[str, Any]:
    """What the server reads (model_server/internal/config): times in seconds, sizes in bytes, and its libraries."""
    limits = config.limits
    found = {
        "models": [_model(model) for model in config.models],
        "processor": {
            **msgspec.to_builtins(config.processor),
            "library": str(processor_library.path()), "tensorflow": str(processor_library.tensorflow()),
        },
        "grpc": msgspec.to_builtins(config.grpc), "rest": msgspec.to_builtins(config.rest),
        "limits": {
            "request_bytes": int(limits.request_size) * _MIB, "request_seconds": float(limits.request_timeout),
            "concurrent_requests": limits.concurrent_requests, "queued_requests": limits.queued_requests,
        },
        "poll_seconds": float(config.file_system_poll_wait), "drain_seconds": float(config.drain_timeout),
        "tokens_file": config.tokens_file, "access_log": config.access_log,
    }  # fmt: skip
    return found if config.tls is None else {**found, "tls": msgspec.to_builtins(config.tls)}


def _model(model: ModelConfig) -> dict[str, Any]:
    policy = model.model_version_policy
    versions: dict[str, Any] = {"all": True}
    if policy.latest:
        versions = {"latest": policy.latest.num_versions}
    elif policy.specific:
        versions = {"specific": policy.specific.versions}
    return {
        "name": model.name, "base_path": model.base_path, "versions": versions, "version_labels": model.version_labels
    }  # fmt: skip


def _program() -> str:
    path = Path(processor_library.__file__).parent / NAME
    if not path.exists():
        raise Unsupported(
            f"this installation of afo has no {NAME}; install the manylinux wheel, or `make model-server` in a checkout"
        )
    return str(path)
