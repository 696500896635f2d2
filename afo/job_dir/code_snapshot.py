"""The user's own code as a job was submitted with it: `code.json` in the job's directory, to compare jobs by.

What is kept is text within bounds; of anything else the checksum tells whether it is the same.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct

from afo.formats import decoding
from afo.job import Job
from afo.job.entry_point import own_code

#: Files that are named; bytes of a text that is kept, of all of them, and of what is read for checksums.
MOST_FILES, MOST_TEXT, MOST_TEXTS, MOST_READ = 500, 128 << 10, 1 << 20, 256 << 20
#: Bytes of a `code.json`: JSON may write a byte as six. Lines of one text that are told.
MOST_BYTES, MOST_LINES = 8 << 20, 10_000
_SKIPPED = ("__pycache__",)


class CodeFile(Struct, frozen=True, kw_only=True):
    """A file by its place beside the program. `sha256` '': not read; `text` None: none, or beyond the bounds."""

    path: str
    size: int = 0
    sha256: str = ""
    text: str | None = None


class CodeSnapshot(Struct, frozen=True, kw_only=True):
    """The files, sorted by their paths; `left_out` more are not named."""

    files: tuple[CodeFile, ...] = ()
    left_out: int = 0


class LineChanges(Struct, frozen=True, kw_only=True):
    """Lines that one of two texts has and the other has not, with their numbers from 1; the first `MOST_LINES`."""

    removed: tuple[tuple[int, str], ...]
    added: tuple[tuple[int, str], ...]


class CodeDifference(Struct, frozen=True, kw_only=True):
    """A file that is not the same in all jobs: of each its checksum, '' where it has none; `lines` of two texts."""

    path: str
    sha256: tuple[str, ...]
    lines: LineChanges | None = None


def snapshot(job: Job) -> CodeSnapshot:
    """What the job names, as it lies on this machine now; what is elsewhere or cannot be read is named alone."""
    found = sorted(dict(_files(job)).items())
    texts, read, files = MOST_TEXTS, MOST_READ, []
    for place, path in found[:MOST_FILES]:
        file = _file(place, path, min(texts, MOST_TEXT), read)
        texts -= file.size if file.text is not None else 0
        read -= file.size if file.sha256 else 0
        files.append(file)
    return CodeSnapshot(files=tuple(files), left_out=len(found) - len(files))


def encode_snapshot(code: CodeSnapshot) -> bytes:
    """The file."""
    return msgspec.json.encode(code)


def decode_snapshot(data: bytes, where: str) -> CodeSnapshot:
    """Of the file `where`. Raises `Malformed`, also for one of over MOST_BYTES."""
    if len(data) > MOST_BYTES:
        raise decoding.Malformed(f"{where}: larger than {MOST_BYTES >> 20} MiB")
    code = decoding.from_json(data, CodeSnapshot, where)
    if len(code.files) > MOST_FILES or sum(len(file.text or "") for file in code.files) > MOST_TEXTS:
        raise decoding.Malformed(f"{where}: more than {MOST_FILES} files, or {MOST_TEXTS >> 20} MiB of their texts")
    return code


def compare_snapshots(found: Mapping[str, CodeSnapshot | None]) -> tuple[list[CodeDifference] | None, str]:
    """Files that differ, None where that is not known, and what cannot be told, or ''. By job what was kept of it."""
    known = {job_id: code for job_id, code in found.items() if code is not None}
    if not known:
        return [], ""
    if without := next((job_id for job_id in found if job_id not in known), ""):
        return None, f"the code is not compared: {without} was submitted without any, or by an older afo that kept none"
    cut = [f"{code.left_out:,} files of {job_id} are not compared" for job_id, code in known.items() if code.left_out]
    return code_differences(list(known.values())), "; ".join(cut)


def code_differences(codes: Sequence[CodeSnapshot]) -> list[CodeDifference]:
    """Files that differ, by their paths. Where the content was not read the size decides."""
    by_path = [{file.path: file for file in code.files} for code in codes]
    rows = []
    for path in sorted({path for files in by_path for path in files}):
        found = [files.get(path) for files in by_path]
        if len({_content(file) for file in found}) > 1:
            sums = tuple("" if file is None else file.sha256 or "not read" for file in found)
            rows.append(CodeDifference(path=path, sha256=sums, lines=_changes(found)))
    return rows


def line_changes(a: str, b: str) -> LineChanges:
    """In linear time, unlike a shortest edit script: lines that only moved are in neither list."""
    left, right = a.splitlines(), b.splitlines()
    removed, added = (islice(_missing(*both), MOST_LINES) for both in ((left, right), (right, left)))
    return LineChanges(removed=tuple(removed), added=tuple(added))


def _missing(lines: Sequence[str], others: Sequence[str]) -> Iterator[tuple[int, str]]:
    there = Counter(others)
    for number, line in enumerate(lines, 1):
        there[line] -= 1
        if there[line] < 0:
            yield number, line


def _changes(found: Sequence[CodeFile | None]) -> LineChanges | None:
    if len(found) != 2:
        return None
    a, b = (("" if file is None else file.text) for file in found)
    return None if a is None or b is None else line_changes(a, b)


def _content(file: CodeFile | None) -> tuple[str, int] | None:
    return None if file is None else (file.sha256, file.size)


def _files(job: Job) -> Iterator[tuple[str, str]]:
    """(place beside the program, path here) of each file; links to folders are not followed."""
    own = own_code(job)
    for named in (*((own.path,) if own else ()), *job.environment.files):
        path = named.removeprefix("file://").rstrip("/")
        top = os.path.basename(path)
        yield from ((os.path.join(top, inner), os.path.join(path, inner)) for inner in _walk_files(path))
        if not os.path.isdir(path):
            yield top, path


def _walk_files(folder: str) -> Iterator[str]:
    for directory, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if each not in _SKIPPED and not each.startswith("."))
        for name in files:
            yield os.path.relpath(os.path.join(directory, name), folder)


def _file(place: str, path: str, most_text: int, most_read: int) -> CodeFile:
    if not os.path.isfile(path):
        return CodeFile(path=place)
    try:
        size = os.path.getsize(path)
        if size > most_read:
            return CodeFile(path=place, size=size)
        data = Path(path).read_bytes() if size <= most_text else None
        return CodeFile(path=place, size=size, sha256=_checksum(path, data), text=_text(data))
    except OSError:
        return CodeFile(path=place)


def _checksum(path: str, data: bytes | None) -> str:
    if data is not None:
        return hashlib.sha256(data).hexdigest()
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _text(data: bytes | None) -> str | None:
    if data is None or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
