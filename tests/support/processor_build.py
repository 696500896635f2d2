"""Whether afo's processor and model server were built: each takes something that nothing else needs."""

import importlib.util
import os
from pathlib import Path

import pytest

from afo.serving import processor_library
from afo_client.serving import model_server


def require_processor() -> None:
    """Skips where it was not built, but fails in continuous integration."""
    if (Path(processor_library.__file__).parent / processor_library.NAME).exists():
        return
    words = "the processor was not built: .ci/system-packages serving, then `make install` anew"
    if os.environ.get("CI"):
        pytest.fail(words)
    pytest.skip(words)


def require_model_server() -> None:
    """The same for the model server, and TensorFlow Serving's own client."""
    require_processor()
    path = Path(processor_library.__file__).parent / model_server.NAME
    if path.exists() and importlib.util.find_spec("tensorflow_serving"):
        return
    words = f"{path.name} or tensorflow-serving-api is missing: make model-server"
    if os.environ.get("CI"):
        pytest.fail(words)
    pytest.skip(words)
