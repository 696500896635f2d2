"""`answer.json` of a synthetic data set: the best that can be reached. Written last: its data set is complete."""

from typing import TypeVar

import msgspec

from afo import storage
from afo.errors import DataError, NotFound
from afo.formats import decoding
from afo.formats.decoding import Malformed

ANSWER = "answer.json"

_Answer = TypeVar("_Answer", bound=msgspec.Struct)


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
