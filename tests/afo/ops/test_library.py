"""Which machines and which TensorFlow the operations refuse, and what they say."""

from pathlib import Path

import pytest

from afo.errors import Unsupported
from afo.ops import library

SKYLAKE = "flags\t\t: fpu sse4_2 avx2 bmi1 bmi2 f16c fma abm movbe avx512f\n"


def test_the_library_is_that_of_the_minor_version(tmp_path: Path) -> None:
    (tmp_path / "_afo_ops.tensorflow-2.21.so").touch()
    assert library.find(tmp_path, "2.21.3").name == "_afo_ops.tensorflow-2.21.so"


def test_another_version_is_named(tmp_path: Path) -> None:
    (tmp_path / "_afo_ops.tensorflow-2.21.so").touch()
    with pytest.raises(Unsupported, match=r"built for TensorFlow 2\.21, and TensorFlow 2\.22\.0 is installed; install"):
        library.find(tmp_path, "2.22.0")


def test_an_installation_without_operations_says_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=r"no native operations .* where g\+\+, CMake and hatchling are"):
        library.find(tmp_path, "2.21.0")


def test_an_older_processor_is_refused_by_what_it_lacks() -> None:
    library.check_cpu(SKYLAKE)
    with pytest.raises(Unsupported, match="this one lacks avx2, fma"):
        library.check_cpu(SKYLAKE.replace("avx2 ", "").replace("fma ", ""))
    with pytest.raises(Unsupported, match="this one lacks avx2"):
        library.check_cpu("")


def test_what_would_be_loaded_is_known_without_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "installed_tensorflow", lambda: "2.20.1")
    with pytest.raises(Unsupported, match=r"TensorFlow 2\.20\.1 is installed|no native operations"):
        library.available()
    monkeypatch.setattr(library, "installed_tensorflow", lambda: None)
    with pytest.raises(Unsupported, match="TensorFlow is not installed"):
        library.available()


def test_a_new_build_leaves_the_file_alone_that_processes_run(tmp_path: Path) -> None:
    hook = pytest.importorskip("afo.ops.build_hook", reason="hatchling is not installed")
    target, built = tmp_path / "_afo_ops.tensorflow-2.21.so", tmp_path / "built"
    target.write_bytes(b"running")
    built.write_bytes(b"new")
    with target.open("rb") as mapped:
        hook._replace(target, built)
        assert mapped.read() == b"running"
    assert target.read_bytes() == b"new"
    assert sorted(path.name for path in tmp_path.iterdir()) == [target.name, "built"]


@pytest.mark.parametrize(
    ("system", "libc"), [("linux-aarch64", "glibc"), ("linux-x86_64", ""), ("macosx-14.0-x86_64", "")]
)
def test_where_tensorflow_has_no_wheel_the_build_asks_for_none(
    monkeypatch: pytest.MonkeyPatch, system: str, libc: str
) -> None:
    hook = pytest.importorskip("afo.ops.build_hook", reason="hatchling is not installed")
    monkeypatch.setattr(hook.shutil, "which", lambda program: f"/usr/bin/{program}")
    assert hook._is_possible()
    monkeypatch.setattr(hook.sysconfig, "get_platform", lambda: system)
    monkeypatch.setattr(hook.platform, "libc_ver", lambda: (libc, "2.36"))
    assert not hook._is_possible()


@pytest.mark.tensorflow
def test_a_library_of_another_build_is_an_error_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tf = pytest.importorskip("tensorflow")
    path = tmp_path / library.file_name(tf.__version__)
    path.write_bytes(b"no library")
    monkeypatch.setattr(library, "find", lambda directory, version: path)
    with pytest.raises(Unsupported, match="cannot load _afo_ops"):
        library.load.__wrapped__()
