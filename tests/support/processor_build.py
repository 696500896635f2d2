"""Whether afo's processor was built: it takes a header that nothing else needs."""

import os
from pathlib import Path

import pytest

from afo.serving import processor_library


def require_processor() -> None:
    """Skips where it was not built, but fails in continuous integration."""
    if (Path(processor_library.__file__).parent / processor_library.NAME).exists():
        return
    words = "the processor was not built: .ci/system-packages serving, then `make install` anew"
    if os.environ.get("CI"):
        pytest.fail(words)
    pytest.skip(words)
