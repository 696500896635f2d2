"""The user's own code as it is kept with a job: what is read, what is not, how two of them are told apart."""

import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afo.formats.decoding import Malformed
from afo.job import Data, Environment, Job, Model, RoleSpec
from afo.job_dir import code_snapshot as cs


def job(folder: Path, *files: str, entry: str = "model.py") -> Job:
    model = Model(kind="entry", entry=f"{folder / entry}:build")
    return Job(
        name="a", roles={"ps": RoleSpec(), "worker": RoleSpec()}, data=Data(schema="s", train=("a",)), model=model,
        environment=Environment(files=tuple(str(folder / each) if "://" not in each else each for each in files)),
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text("def build():\n    return 1\n")
    (tmp_path / "lib/.git").mkdir(parents=True)
    (tmp_path / "lib/__pycache__").mkdir()
    for name, data in ((".git/x", b"x"), ("__pycache__/y.pyc", b"y"), ("layers.py", b"x = 1\n"), ("rows.bin", b"\0\1")):
        (tmp_path / "lib" / name).write_bytes(data)
    return tmp_path


def test_files_by_their_place_beside_the_program(folder: Path) -> None:
    os.mkfifo(folder / "lib" / "pipe")
    (folder / "lib" / "gone").symlink_to(folder / "nowhere")
    found = {each.path: each for each in cs.snapshot(job(folder, "lib/", "hdfs://n/a/env.txt")).files}
    assert sorted(found) == ["env.txt", "lib/gone", "lib/layers.py", "lib/pipe", "lib/rows.bin", "model.py"]
    assert found["lib/layers.py"].text == "x = 1\n"
    assert (found["lib/rows.bin"].text, found["lib/rows.bin"].size, len(found["lib/rows.bin"].sha256)) == (None, 2, 64)
    assert all(found[each].sha256 == "" for each in ("lib/pipe", "lib/gone", "env.txt"))


def test_nothing_of_a_job_without_code(folder: Path) -> None:
    plain = Job(name="a", roles={"ps": RoleSpec(), "worker": RoleSpec()}, data=Data(schema="s", train=("a",)))
    assert cs.snapshot(plain) == cs.CodeSnapshot()


def test_what_is_beyond_the_bounds_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cs, "MOST_FILES", 3)
    monkeypatch.setattr(cs, "MOST_TEXTS", 8)
    monkeypatch.setattr(cs, "MOST_READ", 40)
    for name, size in (("a", 6), ("b", 4), ("c", 90), ("d", 1)):
        (folder / f"lib/{name}.py").write_text("x" * size)
    code = cs.snapshot(job(folder, "lib"))
    assert [(each.path, each.text is not None, bool(each.sha256)) for each in code.files] == [
        ("lib/a.py", True, True), ("lib/b.py", False, True), ("lib/c.py", False, False),
    ]  # fmt: skip
    assert code.left_out == 4


def test_two_of_them(folder: Path) -> None:
    before = cs.snapshot(job(folder, "lib"))
    (folder / "model.py").write_text("def build():\n    return 2\n    # new\n")
    (folder / "lib/layers.py").unlink()
    after = cs.decode_snapshot(cs.encode_snapshot(cs.snapshot(job(folder, "lib"))), "code.json")
    gone, changed = cs.code_differences([before, after])
    assert (gone.path, gone.sha256[1], changed.path) == ("lib/layers.py", "", "model.py")
    assert gone.lines == cs.LineChanges(removed=((1, "x = 1"),), added=())
    assert changed.lines == cs.LineChanges(
        removed=((2, "    return 1"),), added=((2, "    return 2"), (3, "    # new"))
    )
    assert cs.code_differences([after, after, after]) == []
    assert [each.lines for each in cs.code_differences([before, after, after])] == [None, None]


@pytest.mark.parametrize("data", [b"{", b'{"files": [{"path": 7}]}', b" " * (cs.MOST_BYTES + 1)])
def test_what_is_no_snapshot_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed, match=r"code\.json"):
        cs.decode_snapshot(data, "code.json")


@pytest.mark.parametrize("texts", [(cs.MOST_FILES + 1, "x"), (9, "x" * (cs.MOST_TEXTS // 8))])
def test_a_file_of_more_than_is_written_is_refused(texts: tuple[int, str]) -> None:
    number, text = texts
    code = cs.CodeSnapshot(files=tuple(cs.CodeFile(path=f"{each}", text=text) for each in range(number)))
    with pytest.raises(Malformed, match=f"more than {cs.MOST_FILES} files, or 1 MiB"):
        cs.decode_snapshot(cs.encode_snapshot(code), "code.json")


def test_no_more_lines_are_told_than_may_be() -> None:
    changes = cs.line_changes("a\n" * (cs.MOST_LINES + 5), "b\n")
    assert (len(changes.removed), len(changes.added)) == (cs.MOST_LINES, 1)


def test_what_is_compared() -> None:
    code = cs.CodeSnapshot(files=(cs.CodeFile(path="a.py", sha256="1"),))
    assert cs.compare_snapshots({"A": None, "B": None}) == ([], "")
    differ, problem = cs.compare_snapshots({"A": code, "B": None})
    assert (differ, "B was submitted without any" in problem) == (None, True)
    differ, problem = cs.compare_snapshots({"A": code, "B": cs.CodeSnapshot(files=code.files, left_out=7)})
    assert (differ, problem) == ([], "7 files of B are not compared")


@given(st.lists(st.sampled_from("abcd")), st.lists(st.sampled_from("abcd")))
def test_lines_that_differ_are_those_of_the_multisets(a: list[str], b: list[str]) -> None:
    changes = cs.line_changes("\n".join(a), "\n".join(b))
    assert Counter(line for _, line in changes.removed) == Counter(a) - Counter(b)
    assert Counter(line for _, line in changes.added) == Counter(b) - Counter(a)
    assert all(a[number - 1] == line for number, line in changes.removed)
