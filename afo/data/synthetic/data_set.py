"""Files of a data set that afo writes: `part-00000.tfrecord`, `part-00001.tfrecord`, …, and `answer.json`.

The answer of a synthetic one is the best that can be reached. Written last: its data set is complete.
"""

import re
from collections.abc import Sequence
from typing import Literal, TypeVar

import msgspec

from afo import storage
from afo.data.io.record_index import index_url
from afo.errors import AlreadyExists, DataError, NotFound
from afo.formats import decoding
from afo.formats.decoding import Malformed

_SUFFIX = {"none": ".tfrecord", "gzip": ".tfrecord.gz", "zlib": ".tfrecord.zlib"}
_OWN = re.compile(rf"part-\d{{5,}}({'|'.join(map(re.escape, _SUFFIX.values()))})")
ANSWER = "answer.json"

_Answer = TypeVar("_Answer", bound=msgspec.Struct)


def check_counts(part: str, records: int, files: int) -> None:
    """Raises DataError where a file would hold no record."""
    if not 1 <= files <= records:
        raise DataError(f"{part}: {records} records in {files} files; give at least one file, and a record a file")


def part_urls(directory: str, count: int, compression: Literal["none", "gzip", "zlib"]) -> list[str]:
    """The URLs of `count` part files in a directory."""
    return [storage.join(directory, f"part-{number:05d}{_SUFFIX[compression]}") for number in range(count)]


def existing_parts(directory: str) -> set[str]:
    """Names of the part files that afo wrote into a directory: those of Spark and Hadoop begin alike."""
    names = {storage.name(file.url) for file in storage.glob(storage.join(directory, "part-*"))}
    return {name for name in names if _OWN.fullmatch(name)}


def check_free(directory: str) -> None:
    """Raises AlreadyExists where part files lie that `delete_other_parts` would delete."""
    if found := sorted(existing_parts(directory)):
        more = f" and {len(found) - 1:,} more" if len(found) > 1 else ""
        raise AlreadyExists(
            f"{directory} holds {found[0]}{more}; name another directory, or have them replaced with --overwrite"
        )


def delete_other_parts(directory: str, keep: Sequence[str]) -> None:
    """Deletes part files of an earlier, larger writing, which would be read along with the new ones."""
    for name in existing_parts(directory) - {storage.name(url) for url in keep}:
        url = storage.join(directory, name)
        storage.delete(url)
        storage.delete(index_url(url))


def read_answer(directory: str, kind: type[_Answer]) -> _Answer | None:
    """The answer of the data set in a directory, or None where there is no complete one. Raises DataError."""
    url = storage.join(directory, ANSWER)
    try:
        return decoding.read(url, kind, what="answer file")
    except NotFound:
        return None
    except Malformed as error:
        raise DataError(f"{error}; delete it to write the data anew") from error


def write_answer(directory: str, answer: msgspec.Struct) -> None:
    """Say that the data set is complete. Raises StorageError."""
    storage.write_bytes(storage.join(directory, ANSWER), msgspec.json.format(msgspec.json.encode(answer)) + b"\n")


def delete_answer(directory: str) -> None:
    """Say that the data set is not complete, or no more. Raises StorageError."""
    storage.delete(storage.join(directory, ANSWER))
