"""The model server as a process: its program, and what it is told."""

import os
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from afo.errors import Unsupported
from afo.serving import processor_library
from afo.storage.private_files import make_private
from afo_client.serving.serving_config import ServingConfig

NAME = "afo_model_server"
_MIB = 1 << 20
#: TensorFlow's own lines begin at errors, unless the user says otherwise: it warns of each request that is at fault.
_LOG_LEVEL = ("TF_CPP_MIN_LOG_LEVEL", "2")


def become(config: ServingConfig, state_dir: Path) -> NoReturn:
    """Serve in the place of this process, until a signal ends it. Raises Unsupported where a part is not installed."""
    program, text = _program(), msgspec.json.encode(arguments(config, state_dir))
    make_private(servers(state_dir))
    # Read through an open file: nothing is left behind, however the server ends.
    file = os.memfd_create("serving.json", 0)
    os.write(file, text)
    os.environ.setdefault(*_LOG_LEVEL)
    os.execv(program, [NAME, "--config", f"/proc/self/fd/{file}"])


def servers(state_dir: Path) -> Path:
    """Directory of what is kept of each server, by its name: `NAME.sock`, to steer it by, and `NAME.json`."""
    return state_dir.absolute() / "servers"


def arguments(config: ServingConfig, state_dir: Path) -> dict[str, Any]:
    """What the server reads (model_server/internal/config): times in seconds, sizes in bytes, and its libraries."""
    found: dict[str, Any] = msgspec.to_builtins(_without_absent(config), enc_hook=float)
    found["limits"]["request_size"] = int(config.limits.request_size) * _MIB
    of = servers(state_dir) / config.name
    found["control"] = {"socket": f"{of}.sock", "state_file": f"{of}.json"}
    found["processor"] |= {"library": str(processor_library.path()), "tensorflow": str(processor_library.tensorflow())}
    return found


def _without_absent(value: Any) -> Any:
    """A tree of sections whose fields of None are not there."""
    if isinstance(value, msgspec.Struct):
        fields = ((name, getattr(value, name)) for name in value.__struct_fields__)
        return {name: _without_absent(field) for name, field in fields if field is not None}
    return [_without_absent(each) for each in value] if isinstance(value, tuple) else value


def _program() -> str:
    path = Path(processor_library.__file__).parent / NAME
    if not path.exists():
        raise Unsupported(
            f"this installation of afo has no {NAME}; install the manylinux wheel, or `make model-server` in a checkout"
        )
    return str(path)
