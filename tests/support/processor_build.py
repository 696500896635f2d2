"""Whether afo's processor, model server and parameter server were built: each takes what nothing else needs."""

import importlib.util
import os
from pathlib import Path

import pytest

from afo.psplus import server_library
from afo.serving import processor_library
from afo_client.serving import model_server


def require_processor() -> None:
    """Skips where it was not built, but fails in continuous integration."""
    if not (Path(processor_library.__file__).parent / processor_library.NAME).exists():
        _fail_or_skip("the processor was not built: .ci/system-packages serving, then `make install` anew")


def require_parameter_server() -> None:
    """The same for the parameter server's library."""
    if not (Path(server_library.__file__).parent / server_library.NAME).exists():
        _fail_or_skip("the parameter server was not built: .ci/system-packages psplus, then `make install` anew")


def require_model_server() -> None:
    """The same for the model server, and TensorFlow Serving's own client."""
    require_processor()
    path = Path(processor_library.__file__).parent / model_server.NAME
    if path.exists() and importlib.util.find_spec("tensorflow_serving"):
        return
    _fail_or_skip(f"{path.name} or tensorflow-serving-api is missing: make model-server")


def _fail_or_skip(words: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(words)
    pytest.skip(words)
