"""A packed environment: complete, the same each time, and refused where it could not run elsewhere."""

import json
import os
import subprocess
import sys
import tarfile
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from afo.errors import NotFound, Unsupported, UsageError
from afo_client.cli.main import run
from afo_client.packing import distributions, pack
from afo_client.packing.archive_layout import SITE, PackedFile
from afo_client.packing.check import check
from afo_client.packing.distributions import Package, choose
from afo_client.packing.libraries import is_glibc
from bare_node import in_bare_namespace, require_namespaces

#: A small environment: what afo needs but for the largest packages, which neither the AM nor the Child import.
SMALL = ["--include", "click", *(word for name in ("pyarrow", "rich", "pygments") for word in ("--exclude", name))]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed") / "env.tar.gz"
    assert run(["env", "pack", "--out", str(path), "--name", "small", *SMALL]) == 0
    return path


def unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="packs on Linux")
def test_it_runs_without_any_python_of_the_machine(archive: Path, tmp_path: Path) -> None:
    root = unpacked(archive, tmp_path / "some where")
    program = (
        "import sys, json, ssl, sqlite3, ctypes, skein, afo_child.main, afo_am.engine.driver\n"
        "maps = {line.split(None, 5)[-1].strip() for line in open('/proc/self/maps') if '.so' in line}\n"
        "json.dump([sys.executable, sys.prefix, sys.path, afo_child.__file__, sorted(maps)], sys.stdout)"
    )
    require_namespaces()
    command = in_bare_namespace(str(root / "bin" / "python"), "-P", "-c", program)
    hidden = subprocess.run(in_bare_namespace(sys.executable, "-V"), capture_output=True, check=False)
    assert hidden.returncode != 0
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    executable, prefix, path, child, maps = json.loads(done.stdout)
    assert (executable, prefix) == (f"{root}/bin/python", str(root))
    assert all(each.startswith(f"{root}/") for each in (*path, child))
    assert {
        name for each in maps if not each.startswith(f"{root}/") and not is_glibc(name := os.path.basename(each))
    } == set()


@pytest.mark.slow
def test_modules_come_compiled_whatever_their_times(archive: Path, tmp_path: Path) -> None:
    root = unpacked(archive, tmp_path)
    command = [str(root / "bin" / "python"), "-v", "-B", "-P", "-c", "import afo_child.main"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={})
    loaded = [line for line in done.stderr.splitlines() if line.startswith(f"# code object from {str(root)!r}"[:-1])]
    assert any("afo_child" in line for line in loaded)
    # Python names the `.pyc` that it read, or the source that it had to compile.
    assert [line for line in loaded if ".pyc" not in line] == []


@pytest.mark.slow
def test_the_same_installation_gives_the_same_bytes(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "deep" / "other.tar.gz"
    assert run(["env", "pack", "--out", str(other), "--name", "small", "--json", *SMALL]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["size"] == other.stat().st_size
    assert "click" in answer["packages"]
    assert "pyarrow" not in answer["packages"]
    assert other.read_bytes() == archive.read_bytes()
    assert os.listdir(other.parent) == [other.name]


@pytest.mark.slow
def test_nothing_in_it_names_this_machine(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        for member in tar:
            assert not member.name.startswith(("/", ".."))
            assert (member.mtime, member.uid, member.uname) == (0, 0, "")
            if member.name.endswith((".pth", ".json")):
                assert sys.prefix not in tar.extractfile(member).read().decode()  # type: ignore[union-attr]
        assert (
            "lib/python3.11/site-packages/afo_child/main.py".replace(
                "3.11", f"{sys.version_info.major}.{sys.version_info.minor}"
            )
            in tar.getnames()
        )


class _Installed:
    """Makes distributions in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, *, requires: str = "", record: str | None = "", origin: str = "") -> None:
        info = self.folder / f"{name}-1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n{requires}")
        if record is not None:
            (info / "RECORD").write_text(f"{name}-1.dist-info/METADATA,,\n{record}")
        if origin:
            (info / "direct_url.json").write_text(origin)

    def all(self) -> list[Distribution]:
        return [Distribution.at(path) for path in sorted(self.folder.glob("*.dist-info"))]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Installed:
    folder = _Installed(tmp_path)
    folder.add("afo", requires="Requires-Dist: base\nRequires-Dist: Tensor_Flow; extra == 'train'\n")
    for name in ("base", "tensor-flow", "alone"):
        folder.add(name)
    folder.add("windows", requires="Requires-Dist: base\n")
    monkeypatch.setattr(distributions, "_list_installed", lambda: iter(folder.all()))
    return folder


@pytest.mark.parametrize(
    ("include", "exclude", "names"),
    [
        ([], [], ["afo", "alone", "base", "tensor-flow", "windows"]),
        ([], ["Tensor.Flow", "windows"], ["afo", "alone", "base"]),
        (["alone"], [], ["afo", "alone", "base"]),
        (["afo[train]"], [], ["afo", "base", "tensor-flow"]),
        (["afo[train]"], ["base"], ["afo", "tensor-flow"]),
    ],
)
def test_which_packages(installed: _Installed, include: list[str], exclude: list[str], names: list[str]) -> None:
    assert [package.name for package in choose(include, exclude)] == names


def test_packages_that_cannot_be_packed(installed: _Installed) -> None:
    with pytest.raises(NotFound, match=r"--include tensorflow: it is not installed in .*; did you mean `tensor-flow`"):
        choose(["tensorflow"])
    with pytest.raises(NotFound, match=r"--exclude gone: it is not installed"):
        choose(exclude=["gone"])
    with pytest.raises(UsageError, match=r"it needs afo"):
        choose(exclude=["afo"])
    with pytest.raises(UsageError, match=r"write a package's name"):
        choose(["==="])
    installed.add("mine", origin='{"url": "file:///x", "dir_info": {"editable": true}}')
    with pytest.raises(UsageError, match=r"mine is installed in editable mode.*--exclude mine"):
        choose()
    installed.add("egg", record=None)
    with pytest.raises(UsageError, match="egg does not say which files"):
        choose(exclude=["mine"])


def test_tensorflow_without_what_the_trainer_needs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(*_: object) -> list[Package]:
        return [Package("tensorflow-cpu", "2", (PackedFile(f"{SITE}/tensorflow/__init__.py", "/x"),))]

    monkeypatch.setattr(sys.modules["afo_client.packing.pack"], "choose", chosen)
    with pytest.raises(UsageError, match=r"needs tensorboard to write summaries.*--include tensorboard"):
        pack(tmp_path / "env.tar.gz", "x", say=print)


@pytest.mark.parametrize(
    ("output", "code", "message"),
    [
        ('{"prefix": "/usr", "path": [], "mapped": []}', 0, "still uses /usr of this machine"),
        ('{"prefix": "ROOT", "path": ["ROOT/lib", "/opt/lib"], "mapped": []}', 0, "still uses /opt/lib"),
        ('{"prefix": "ROOT", "path": [], "mapped": ["/lib/libc.so.6", "/lib/libz.so.1"]}', 0, "uses /lib/libz.so.1 of"),
        ("ImportError: no x", 1, "does not run by itself: ImportError: no x"),
    ],
)
def test_what_does_not_stand_alone_is_refused(tmp_path: Path, output: str, code: int, message: str) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(
        f"#!/bin/sh\ncat <<'end' >&{1 + code}\n{output.replace('ROOT', str(tmp_path))}\nend\nexit {code}\n"
    )
    python.chmod(0o755)
    with pytest.raises(Unsupported) as caught:
        check(tmp_path, [])
    assert message in str(caught.value)
