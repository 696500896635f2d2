"""Build of the C++ while afo is installed: a hook of hatchling, and nothing that runs later.

Where there is no g++, or TensorFlow has no wheel for the system or the Python, afo is installed without them: the AM,
the history server and the client need none, and `afo.ops.library` says what is missing.
"""

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SOURCES = Path(__file__).parent
#: For servers (afo/serving/processor_library.py), in the package and in the directory of the build.
_PROCESSOR, _PROCESSOR_BUILT = "afo/serving/libafo_processor.so", "serving/libafo_processor.so"
#: For parameter servers (afo/psplus/server_library.py).
_SERVER, _SERVER_BUILT = "afo/psplus/_afo_server.so", "_afo_server.so"
#: Of `make model-server`; it is packed where it was made.
_MODEL_SERVER = "afo/serving/afo_model_server"
#: What hosts in C are compiled with.
_HEADER = "afo/serving/processor.h"
#: Only its headers and its library's name are used; `tensorflow` with GPUs has the same.
_NEEDED = ["cmake>=3.25", "tensorflow-cpu==2.21.*; python_version < '3.14'"]


class OperationsHook(BuildHookInterface):  # type: ignore[misc]  # hatchling is not there when types are checked
    """Adds the shared libraries to an editable install and to a wheel, whose tag then names the platform."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What the build needs beside hatchling."""
        return _NEEDED if _is_possible() and self.target_name == "wheel" else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Builds. A compiler that fails is an error: half an installation would be found out at night."""
        # The project's own package is not installed yet; this module of it needs the standard library alone.
        sys.path.insert(0, self.root)
        from afo.ops.library import LISTEN, file_name, installed_tensorflow

        tensorflow = installed_tensorflow()
        if not _is_possible() or tensorflow is None:
            self.app.display_warning(
                "afo is installed without native operations: they need g++, and TensorFlow on glibc and x86-64"
            )
            return
        work = Path(self.root) / "build" / "ops"
        _compile(work)
        libraries = {f"afo/ops/{file_name(tensorflow)}": "_afo_ops.so", f"afo/ops/{LISTEN}": LISTEN}
        # Each is left out where something is missing that it alone needs, of which CMake has told.
        if (work / _SERVER_BUILT).exists():
            libraries[_SERVER] = _SERVER_BUILT
        if (work / _PROCESSOR_BUILT).exists():
            libraries[_PROCESSOR] = _PROCESSOR_BUILT
            if version == "standard":  # of an editable install it is in the sources
                build_data["force_include"][str(Path(self.root) / _HEADER)] = _HEADER
        if (Path(self.root) / _MODEL_SERVER).exists():
            build_data["artifacts"].append(f"/{_MODEL_SERVER}")
        for target, built in libraries.items():
            _replace(Path(self.root) / target, work / built)
            build_data["artifacts"].append(f"/{target}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def _replace(target: Path, built: Path) -> None:
    """A new file under the name: one that is written over takes the code from under the processes that run it."""
    beside = target.with_suffix(f".{os.getpid()}")
    shutil.copy2(built, beside)
    beside.replace(target)


def _compile(work: Path) -> None:
    """Make the libraries in `work`."""
    found = importlib.util.find_spec("tensorflow")
    if found is None or found.origin is None:
        raise RuntimeError("TensorFlow is installed and cannot be found")
    cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if cmake is None:
        raise RuntimeError("CMake is missing: pip install cmake")
    where = f"-DTENSORFLOW={Path(found.origin).parent}"
    subprocess.run([cmake, "-S", str(_SOURCES), "-B", str(work), where, "-DCMAKE_BUILD_TYPE=Release"], check=True)
    subprocess.run([cmake, "--build", str(work), "--parallel", str(os.cpu_count() or 1)], check=True)


def _is_possible() -> bool:
    is_served = sysconfig.get_platform() == "linux-x86_64" and platform.libc_ver()[0] == "glibc"
    return is_served and shutil.which("g++") is not None
