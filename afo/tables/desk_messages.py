"""Save and load requests to a parameter server's desk, and its answers: JSON with a version, unknown fields refused."""

from typing import Annotated, cast

import msgspec
from msgspec import Meta

from afo import errors
from afo.errors import AfoError, ProtocolError
from afo.formats.decoding import known
from afo.job.section import MOST_INT
from afo.rpc.messages import ServerPart
from afo.tables.saved_tables import Count, RowsFile, TablesManifest
from afo.tables.slot_map import SlotMap

#: One program starts all processes of a generation, so both sides have the same.
VERSION = 2
#: The class of an answer for want of memory.
NO_MEMORY = "ResourceExhausted"
#: Characters of an answer's text: a request may be as long as it likes, and its error quotes it.
_MOST_TEXT = 4000

#: The desk's functions take what is beyond these for another number.
_Table = Annotated[int, Meta(ge=0, le=MOST_INT)]
_Epoch = Annotated[int, Meta(ge=-1, le=(1 << 63) - 1)]


class _Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    version: int = VERSION


class SaveRequest(_Message, frozen=True, tag="save"):
    """Write the rows of server `server` into the directory `url`, which is there, as `parts` files.

    `since`: for each table the epoch of the first change, or -1 for all rows.
    """

    url: str
    server: Count
    parts: Annotated[int, Meta(ge=1, le=256)]
    since: tuple[_Epoch, ...]


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where rows of table `saved` of a manifest go: to table `number`, with their slots or without."""

    saved: _Table
    number: _Table
    weights_only: bool = False


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The manifest at `url`; of its files those that hold a part of this server's rows."""

    url: str
    manifest: TablesManifest


class LoadRequest(_Message, frozen=True, tag="load"):
    """Overwrite rows of the slots of server `server` by those of `sources`, one source after another."""

    server: Count
    slots: SlotMap
    sources: tuple[Source, ...]
    targets: tuple[Target, ...]

    def __post_init__(self) -> None:
        if self.server >= self.slots.servers:
            raise ProtocolError(
                f"a load request is for server {self.server}, and its slot map has {self.slots.servers} servers, which"
                " are counted from 0"
            )


class StopRequest(_Message, frozen=True, tag="stop"):
    """End what an earlier request has begun; the answer comes when nothing of it goes on."""


class SavedRows(_Message, frozen=True, tag="saved"):
    """What a save request has written, and how long it took."""

    files: tuple[RowsFile, ...]
    times: ServerPart


class LoadedRows(_Message, frozen=True, tag="loaded"):
    """How many rows of a load request are here now."""

    rows: Count


class Stopped(_Message, frozen=True, tag="stopped"):
    """Nothing goes on."""


class Failed(_Message, frozen=True, tag="failed"):
    """A request ended by an error of this class of `afo.errors`."""

    error: str
    text: str


Request = SaveRequest | LoadRequest | StopRequest
Answer = SavedRows | LoadedRows | Stopped | Failed


def encode(message: Request | Answer) -> bytes:
    """What the other side's `decode_…` reads."""
    return msgspec.json.encode(message)


def decode_request(content: bytes) -> Request:
    """Raises ProtocolError for a request of another version, or what is none."""
    return cast(Request, _decode(content, Request, "request"))


def decode_answer(content: bytes) -> Answer:
    """Raises ProtocolError for an answer of another version, or what is none."""
    return cast(Answer, _decode(content, Answer, "answer"))


class _Version(msgspec.Struct):
    version: int


def _decode(content: bytes, kind: object, word: str) -> object:
    try:
        version = msgspec.json.decode(content, type=known(_Version)).version
        if version != VERSION:
            raise ProtocolError(f"a save or load {word} of version {version} reached a process that knows {VERSION}")
        return msgspec.json.decode(content, type=known(kind))
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"this is no save or load {word}: {error}") from error


def failure_of(error: Exception) -> Failed:
    """What is answered in place of raising `error`."""
    if isinstance(error, MemoryError):
        return Failed(error=NO_MEMORY, text=str(error)[:_MOST_TEXT])
    known = (kind.__name__ for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
    return Failed(error=next(known, AfoError.__name__), text=errors.in_words(error)[:_MOST_TEXT])
