"""Packs the environment that afo runs in: collect, place, patch, compile, try, archive."""

import hashlib
import os
import platform
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from afo import __version__
from afo.errors import AfoError, UsageError, unwritable
from afo.process.scratch import scratch_folder
from afo_client.packing import interpreter, libraries
from afo_client.packing.archive import write_archive
from afo_client.packing.archive_layout import MANIFEST, PYTHON, PYTHON_NAMES, SITE, STDLIB, SYSTEM, PackedFile, put
from afo_client.packing.check import check
from afo_client.packing.distributions import Package, choose

#: Most of an environment is machine code, which the higher levels hardly make smaller but much slower.
_LEVEL = 4
_COMPILE_LIMIT_S = 1800
#: What the AM's and the tasks' containers begin with, and the parts of Python that need libraries of the machine.
_MODULES = ("ssl", "ctypes", "lzma", "bz2", "zlib", "afo_am.engine.driver", "afo_child.main", "skein", "hdfs_native")


class Packed(Struct, frozen=True):
    """An archive that was made. `size` in bytes, `sha256` of its content, which the cache in HDFS knows it by."""

    file: str
    size: int
    sha256: str
    name: str
    python: str
    packages: dict[str, str]


def pack(
    out: Path, name: str, *, include: Sequence[str] = (), exclude: Sequence[str] = (), say: Callable[[str], None]
) -> Packed:
    """Write the archive `out`, whole or not at all; `say` hears what is going on.

    The same installation gives the same bytes. Raises `NotFound`, `UsageError`, `Unsupported`, `PermissionDenied`.
    """
    packages = choose(include, exclude)
    modules = (*_MODULES, *_of_training(packages))
    with scratch_folder("afo-pack-") as folder:
        root = Path(folder).resolve()
        _place(root, name, packages, say)
        say("compiling …")
        _compile(root)
        say("trying it with an empty environment …")
        check(root, modules)
        say(f"writing {out} …")
        size, digest = _write(root, out)
    versions = {package.name: package.version for package in packages}
    return Packed(str(out), size, digest, name, platform.python_version(), versions)


def _place(root: Path, name: str, packages: list[Package], say: Callable[[str], None]) -> None:
    library = interpreter.standard_library()
    python = put(interpreter.binary(), root, own=True)
    python.chmod(0o755)
    for alias in PYTHON_NAMES:
        (root / alias).symlink_to(Path(PYTHON).name)
    for package in packages:
        for file in package.files:
            put(file, root)
    extensions = [put(file, root, own=True) for file in library if interpreter.is_extension(file)]
    for file in library:
        if not interpreter.is_extension(file):
            put(file, root)
    say(f"placed Python {platform.python_version()} and {len(packages)} packages; looking for shared libraries …")
    modules = [path for path in root.rglob("*.so*") if path.is_file() and not path.is_symlink()]
    found = libraries.find_libraries([python, *sorted(modules)], root)
    system = [put(PackedFile(f"{SYSTEM}/{name}", found[name]), root, own=True) for name in sorted(found)]
    libraries.set_search_path(python, os.path.relpath(SYSTEM, os.path.dirname(PYTHON)), [*extensions, *system])
    _describe(root, name, packages)


def _describe(root: Path, name: str, packages: list[Package]) -> None:
    facts = {
        "name": name,
        "afo": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "glibc": platform.libc_ver()[1],
        "packages": {package.name: package.version for package in packages},
    }
    (root / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(facts), indent=1))


def _compile(root: Path) -> None:
    """Byte code beside the sources, valid whatever their times: a node may not write into what YARN unpacked.

    One process, in order, with a fixed seed of hashes: else the same source may give different bytes.
    """
    options = ["-f", "-q", "-q", "-s", str(root), "--invalidation-mode", "unchecked-hash"]
    subprocess.run(
        [str(root / PYTHON), "-s", "-P", "-B", "-m", "compileall", *options, str(root / STDLIB)],
        env={"PYTHONHASHSEED": "0"}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        timeout=_COMPILE_LIMIT_S, check=False,  # a package may hold templates that are no Python
    )  # fmt: skip


def _of_training(packages: list[Package]) -> tuple[str, ...]:
    """What the trainer begins with, if TensorFlow is packed. Raises `UsageError` where a part of it is left out."""
    targets = {file.target for package in packages for file in package.files}
    if f"{SITE}/tensorflow/__init__.py" not in targets:
        return ()
    if f"{SITE}/tensorboard/__init__.py" not in targets:
        raise UsageError("TensorFlow needs tensorboard to write summaries, and it is left out; --include tensorboard")
    return ("tensorflow", "tensorboard.plugins.scalar.summary_v2")


def _write(root: Path, out: Path) -> tuple[int, str]:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=out.parent, prefix=f".{out.name}.", delete=False) as file:
            try:
                write_archive(root, sorted(root.rglob("*")), file, level=_LEVEL)
                file.flush()
                os.chmod(file.name, 0o644)
                os.replace(file.name, out)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        if isinstance(error, AfoError):
            raise
        raise unwritable(error, f"cannot write {out}: {error}; give another --out") from error
    with out.open("rb") as written:
        return out.stat().st_size, hashlib.file_digest(written, "sha256").hexdigest()
