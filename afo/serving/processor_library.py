"""The shared library `libafo_processor.so`: found, loaded once a process, its calls with their types (processor.h)."""

import ctypes
import functools
import importlib.util
from pathlib import Path

from afo.errors import Unsupported

NAME = "libafo_processor.so"
#: What it is linked with, of TensorFlow's package; in this order.
_TENSORFLOW = ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2")

Model = ctypes.c_void_p
Output = ctypes.POINTER(ctypes.c_void_p)
Size = ctypes.POINTER(ctypes.c_int)


class ArrowStructs:
    """Room for a schema and an array of Arrow's C data interface, which are 9 and 10 words long; their addresses."""

    def __init__(self) -> None:
        self._room = (ctypes.c_uint64 * 9)(), (ctypes.c_uint64 * 10)()
        self.schema, self.array = map(ctypes.addressof, self._room)


@functools.cache
def load() -> ctypes.CDLL:
    """The library. Raises Unsupported where it was not built, or TensorFlow is not installed."""
    library = path()
    try:
        # Loaded before, they are found by their names, wherever this package lies.
        for name in _TENSORFLOW:
            ctypes.CDLL(str(tensorflow() / name))
        return _typed(ctypes.CDLL(str(library)))
    except OSError as error:
        raise Unsupported(f"{NAME} cannot be loaded beside the TensorFlow that is installed: {error}") from error


def path() -> Path:
    """Of the library. Raises Unsupported where it was not built."""
    found = Path(__file__).parent / NAME
    if not found.exists():
        raise Unsupported(
            f"this installation of afo has no {NAME}; install the manylinux wheel, or build afo again where g++, CMake"
            " and nlohmann-json3-dev (json-devel) are"
        )
    return found


def tensorflow() -> Path:
    """Directory of TensorFlow's libraries. Raises Unsupported where it is not installed."""
    found = importlib.util.find_spec("tensorflow")
    if found is None or found.origin is None:
        raise Unsupported(f"{NAME} needs the libraries of TensorFlow: pip install 'tensorflow-cpu==2.21.*'")
    return Path(found.origin).parent


def _typed(library: ctypes.CDLL) -> ctypes.CDLL:
    library.initialize.restype = Model
    library.initialize.argtypes = [ctypes.c_char_p, ctypes.c_char_p, Size]
    library.initialize_error.restype = ctypes.c_char_p
    library.process.argtypes = [Model, ctypes.c_char_p, ctypes.c_int, Output, Size]
    library.batch_process.argtypes = [Model, ctypes.POINTER(ctypes.c_char_p), Size, Output, Size]
    structs = [ctypes.c_void_p] * 4
    library.process_arrow.argtypes = [Model, ctypes.c_char_p, *structs, Output, Size]
    library.get_serving_model_info.argtypes = [Model, Output, Size]
    for name in ("free_output", "finalize"):
        getattr(library, name).argtypes = [ctypes.c_void_p]
        getattr(library, name).restype = None
    return library
