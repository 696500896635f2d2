"""A directory and its copy: what can be read at the URL is complete at any time."""

import os
from pathlib import Path

import pytest

from afo import storage
from afo_child.model_dir.mirror import Mirror


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The local side."""
    path = tmp_path / "model"
    path.mkdir()
    return path


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The other side."""
    return str(tmp_path / "saved")


def write(model: Path, step: int, at: int) -> None:
    """A checkpoint as TensorFlow writes it: the files, then the one that names them, then the older ones go."""
    for number, (name, text) in enumerate(
        ((f"ckpt-{step}.data", f"data {step}"), (f"ckpt-{step}.index", f"index {step}"), ("checkpoint", f"ckpt-{step}"))
    ):
        (model / name).write_text(text)
        os.utime(model / name, ns=(at + number, at + number))
    for old in model.glob("ckpt-*"):
        if not old.name.startswith(f"ckpt-{step}."):
            old.unlink()


def complete(url: str) -> str:
    """The checkpoint that a reader at the URL finds; fails if a file of it is missing or another's."""
    named = storage.read_bytes(storage.join(url, "checkpoint")).decode()
    step = named.partition("-")[2]
    assert storage.read_bytes(storage.join(url, f"{named}.data")).decode() == f"data {step}"
    assert storage.read_bytes(storage.join(url, f"{named}.index")).decode() == f"index {step}"
    return named


def names(directory: Path | str) -> set[str]:
    """Files of a directory."""
    return {path.name for path in Path(directory).iterdir()}


def test_only_changes_are_copied(model: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    upload = storage.upload
    monkeypatch.setattr(storage, "upload", lambda path, to: (copied.append(Path(path).name), upload(path, to)))
    mirror = Mirror(model, url)
    write(model, 1, at=10)
    assert mirror.save()
    assert copied == ["ckpt-1.data", "ckpt-1.index", "checkpoint"]
    assert mirror.save()
    assert len(copied) == 3
    write(model, 2, at=20)
    assert mirror.save()
    assert copied[3:] == ["ckpt-2.data", "ckpt-2.index", "checkpoint"]
    assert names(url) == {"ckpt-2.data", "ckpt-2.index", "checkpoint"}


@pytest.mark.parametrize("moment", range(6))
def test_a_checkpoint_that_appears_during_a_copy_never_tears_it(
    model: Path, url: str, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = Mirror(model, url)
    write(model, 1, at=10)
    assert mirror.save()
    write(model, 2, at=20)
    looks = iter(range(10**6))
    upload = storage.upload

    def disturbed(path: str, to: str) -> None:
        look = next(looks)
        if look == moment // 2 and moment % 2 == 0:
            write(model, 3, at=30)
        upload(path, to)
        if look == moment // 2 and moment % 2 == 1:
            write(model, 3, at=30)

    monkeypatch.setattr(storage, "upload", disturbed)
    for _ in range(4):
        done = mirror.save()
        assert complete(url) in ("ckpt-1", "ckpt-2", "ckpt-3")
        if done:
            break
    assert complete(url) == "ckpt-3"
    assert names(url) - {"ckpt-2.data", "ckpt-2.index"} == names(model)


def test_a_file_that_vanishes_while_it_is_copied_is_left_out(
    model: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = Mirror(model, url)
    (model / "going").write_text("x")
    upload = storage.upload

    def vanishing(path: str, to: str) -> None:
        (model / "going").unlink(missing_ok=True)
        upload(path, to)

    monkeypatch.setattr(storage, "upload", vanishing)
    assert not mirror.save()
    assert mirror.save()


def test_restore_makes_the_directory_what_was_saved(model: Path, url: str, tmp_path: Path) -> None:
    write(model, 1, at=10)
    (model / "deep" / "er").mkdir(parents=True)
    (model / "deep" / "er" / "file").write_text("below")
    saver = Mirror(model, url)
    assert saver.save()
    other = tmp_path / "other"
    other.mkdir()
    (other / "stray").write_text("of nobody")
    reader = Mirror(other, url)
    reader.restore()
    assert names(other) == {"ckpt-1.data", "ckpt-1.index", "checkpoint", "deep"}
    assert (other / "deep" / "er" / "file").read_text() == "below"
    (other / "checkpoint").write_text("changed here")
    write(model, 2, at=20)
    assert saver.save()
    reader.restore()
    assert (other / "checkpoint").read_text() == "ckpt-2"
    assert "ckpt-1.data" not in names(other)


def test_what_was_not_saved_is_not_restored(model: Path, url: str) -> None:
    mirror = Mirror(model, url)
    write(model, 1, at=10)
    assert mirror.save()
    write(model, 2, at=20)
    mirror.restore()
    assert (model / "checkpoint").read_text() == "ckpt-1"
    assert names(model) == {"ckpt-1.data", "ckpt-1.index", "checkpoint"}


def test_nothing_saved_is_an_empty_directory(model: Path, url: str) -> None:
    (model / "stray").write_text("x")
    Mirror(model, url).restore()
    assert names(model) == set()
