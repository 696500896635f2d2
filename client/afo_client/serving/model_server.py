"""The model server as a process: its program, and what it is told."""

import os
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from afo.errors import Unsupported
from afo.serving import processor_library
from afo_client.serving.config import ServingConfig

NAME = "afo_model_server"
_MIB = 1 << 20
#: TensorFlow's own lines begin at warnings, unless the user says otherwise.
_LOG_LEVEL = ("TF_CPP_MIN_LOG_LEVEL", "1")


def become(config: ServingConfig) -> NoReturn:
    """Serve in the place of this process, until a signal ends it. Raises Unsupported where a part is not installed."""
    program, text = _program(), msgspec.json.encode(arguments(config))
    # Read through an open file: nothing is left behind, however the server ends.
    file = os.memfd_create("serving.json", 0)
    os.write(file, text)
    os.environ.setdefault(*_LOG_LEVEL)
    os.execv(program, [NAME, "--config", f"/proc/self/fd/{file}"])


def arguments(config: ServingConfig) -> dict[str, Any]:
    """What the server reads: the configuration with times in seconds and sizes in bytes, and its libraries."""
    found: dict[str, Any] = msgspec.to_builtins(config, enc_hook=float)
    found["limits"]["request_size"] = int(config.limits.request_size) * _MIB
    found["processor"] |= {"library": str(processor_library.path()), "tensorflow": str(processor_library.tensorflow())}
    return found


def _program() -> str:
    path = Path(processor_library.__file__).parent / NAME
    if not path.exists():
        raise Unsupported(
            f"this installation of afo has no {NAME}; install the manylinux wheel, or `make model-server` in a checkout"
        )
    return str(path)
