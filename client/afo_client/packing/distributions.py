"""The installed packages to pack, and their files."""

import difflib
import importlib.metadata
import importlib.util
import json
import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution
from pathlib import Path

from msgspec import Struct

from afo.errors import NotFound, UsageError
from afo_client.packing.archive_layout import SITE, PackedFile

#: afo itself: the AM and the Child run from the environment.
_OWN = "afo"
_OWN_PACKAGES = ("afo", "afo_am", "afo_child", "afo_client", "afo_history_server")
#: Commands (they name this machine's interpreter), C headers, and compiled modules, which are made anew.
_LEFT_OUT_FOLDERS = frozenset({"bin", "Scripts", "include", "__pycache__"})


class Package(Struct, frozen=True, order=True):
    """An installed distribution."""

    name: str
    version: str
    files: tuple[PackedFile, ...]


def choose(include: Sequence[str] = (), exclude: Sequence[str] = ()) -> list[Package]:
    """All packages installed beside afo, or afo, those of `include` and what they need; less those of `exclude`.

    `include` takes extras: `afo[train]`. Raises `NotFound` for a package that is not installed, `UsageError` for one
    whose files are unknown.
    """
    installed = {
        _normal(distribution.metadata["Name"]): distribution for distribution in reversed(list(_list_installed()))
    }
    chosen = _find_needed((_OWN, *include), installed) if include else set(installed)
    for name in exclude:
        chosen.discard(_require_installed(name, installed, "--exclude"))
    if _OWN not in chosen:
        raise UsageError("--exclude afo: the AM and the Child run from the environment, it needs afo; leave it in")
    return sorted(_package(installed[name]) for name in chosen)


def _list_installed() -> Iterator[Distribution]:
    folders = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    return iter(importlib.metadata.distributions(path=list(folders)))


def _find_needed(roots: Sequence[str], installed: dict[str, Distribution]) -> set[str]:
    """Names of the roots and of all that they require, by the markers of this machine."""
    try:
        from packaging.requirements import InvalidRequirement, Requirement
    except ImportError as error:
        raise NotFound("--include needs the package `packaging`; pip install 'afo[pack]'") from error
    found: set[tuple[str, str]] = set()
    try:
        waiting = [Requirement(root) for root in roots]
    except InvalidRequirement as error:
        raise UsageError(f"--include {', '.join(roots)}: {error}; write a package's name, e.g. 'afo[train]'") from error
    for root in waiting:
        _require_installed(root.name, installed, "--include")
    while waiting:
        requirement = waiting.pop()
        name = _normal(requirement.name)
        for extra in {"", *requirement.extras}:
            # What a package names but this environment works without is not needed here.
            if (name, extra) not in found and name in installed:
                found.add((name, extra))
                needs = (Requirement(text) for text in installed[name].requires or ())
                waiting += [need for need in needs if not need.marker or need.marker.evaluate({"extra": extra})]
    return {name for name, _ in found}


def _require_installed(name: str, installed: dict[str, Distribution], option: str) -> str:
    normal = _normal(name)
    if normal not in installed:
        near = difflib.get_close_matches(normal, installed, 1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        raise NotFound(f"{option} {name}: it is not installed in {sys.prefix}{hint}")
    return normal


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _package(distribution: Distribution) -> Package:
    name = distribution.metadata["Name"]
    if distribution.files is None:
        raise UsageError(f"{name} does not say which files are its own; install it by pip, or --exclude {name}")
    files = set(_list_files(distribution))
    if _is_editable(distribution):
        if _normal(name) != _OWN:
            raise UsageError(
                f"{name} is installed in editable mode, so its files lie elsewhere; `pip install` it without -e, "
                f"or --exclude {name} and list its folder in `environment.files`"
            )
        files = {file for file in files if not file.target.endswith(".pth")} | set(_own_files())
    return Package(name, distribution.version, tuple(sorted(files)))


def _is_editable(distribution: Distribution) -> bool:
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    return bool(origin.get("dir_info", {}).get("editable"))


def _list_files(distribution: Distribution) -> Iterator[PackedFile]:
    folders = {os.path.normpath(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}
    for file in distribution.files or ():
        path = os.path.normpath(str(file.locate()))
        # direct_url.json names a folder of this machine; a name in RECORD may have been removed since.
        if _LEFT_OUT_FOLDERS & set(file.parts) or file.name == "direct_url.json" or not os.path.isfile(path):
            continue
        site = next((folder for folder in folders if path.startswith(f"{folder}/")), None)
        if site is not None:
            yield PackedFile(f"{SITE}/{os.path.relpath(path, site)}", path)
        elif path.startswith(f"{sys.prefix}/"):
            yield PackedFile(os.path.relpath(path, sys.prefix), path)


def _own_files() -> Iterator[PackedFile]:
    for package in _OWN_PACKAGES:
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in sorted(Path(folder).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    yield PackedFile(f"{SITE}/{package}/{path.relative_to(folder)}", str(path))
