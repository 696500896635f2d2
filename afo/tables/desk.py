"""The desk of a parameter server's process: threads that save and load its own tables when the chief asks for it.

A request is a string that an operation on the server takes (afo/ops/desk) and that a thread here answers, so there is
no other port, and nobody else may ask than who may train.
"""

import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from afo.errors import AfoError
from afo.logs.task_log import LOG, one_line
from afo.ops import own_tables
from afo.ops.own_tables import OwnTables
from afo.tables import desk_messages, rows_files
from afo.tables.desk_messages import Answer, LoadRequest, Request, SaveRequest, Stopped

#: The longest time between two looks whether an attendant is still wanted. Seconds.
_POLL_S = 0.2


def attend() -> None:
    """Answer this process's requests from now on, by threads of their own, as long as it lives."""
    own_tables.open_desk()
    threading.Thread(target=_answer_all, name="desk", daemon=True).start()


@contextmanager
def attended() -> Iterator[None]:
    """Answer this process's requests meanwhile: for a client whose tables are in its own process."""
    own_tables.open_desk()
    done = threading.Event()
    attendant = threading.Thread(target=_answer_until, args=(done,), name="desk", daemon=True)
    attendant.start()
    try:
        yield
    finally:
        done.set()
        own_tables.close_desk()
        attendant.join()


def _answer_all() -> None:
    while True:
        taken = own_tables.take(_POLL_S)
        if taken is not None:
            threading.Thread(target=_answer, args=taken, name="desk request", daemon=True).start()


def _answer_until(done: threading.Event) -> None:
    """Answers others' requests as well: theirs may be answering this one's."""
    while not done.is_set():
        taken = own_tables.take(_POLL_S)
        if taken is not None:
            _answer(*taken)


def _answer(tables: OwnTables, words: bytes) -> None:
    """Whatever happens, an answer: the client waits for one as long as this process lives."""
    answer: Answer = desk_messages.failure_of(AfoError("a request ended without an answer"))
    try:
        answer = _do(tables, desk_messages.decode_request(words))
    except AfoError as error:
        answer = failed = desk_messages.failure_of(error)
        LOG.warning("what was asked of these tables could not be done: %s", one_line(failed.text))
    except Exception as error:
        traceback.print_exc()
        answer = desk_messages.failure_of(error)
    finally:
        tables.answer(desk_messages.encode(answer))


def _do(tables: OwnTables, request: Request) -> Answer:
    if isinstance(request, SaveRequest):
        saved = rows_files.save(tables, request)
        LOG.info("saved %s bytes of tables to %s", f"{saved.times.bytes:,}", request.url)
        return saved
    if isinstance(request, LoadRequest):
        loaded = rows_files.load(tables, request)
        LOG.info("loaded %s rows from %s", f"{loaded.rows:,}", ", ".join(source.url for source in request.sources))
        return loaded
    return Stopped()
