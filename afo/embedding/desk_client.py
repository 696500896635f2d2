"""Save and load requests to several servers at once: one question each, the first error ends all."""

import secrets
from collections.abc import Collection, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TypeVar, cast

import tensorflow as tf

from afo import errors
from afo.embedding.group import TableGroup
from afo.errors import AfoError, ProtocolError
from afo.tables import desk_messages
from afo.tables.desk_messages import Answer, Failed, Request, Stopped, StopRequest

_Kind = TypeVar("_Kind", bound=Answer)


def ask(group: TableGroup, requests: Mapping[int, Request], kind: type[_Kind]) -> list[_Kind]:
    """The answers in the servers' order. All of them work at the same time.

    Raises the error that a server answered first, or TensorFlow's where one is gone; the others have ended then, too.
    """
    if not requests:
        return []
    with ThreadPoolExecutor(len(requests), thread_name_prefix="desk client") as pool:
        asker = secrets.token_hex(8)
        asked = {
            server: pool.submit(_ask_one, group, server, asker, request, kind) for server, request in requests.items()
        }
        done, others = wait(asked.values(), return_when=FIRST_EXCEPTION)
        _stop(group, asker, [server for server, each in asked.items() if each in others])
        for each in done:
            each.result()
        return [asked[server].result() for server in sorted(asked)]


def _stop(group: TableGroup, asker: str, servers: Collection[int]) -> None:
    """Has these servers end what was asked of them; returns when none of them goes on. One that is gone does not."""

    def end(server: int) -> None:
        with suppress(tf.errors.OpError, AfoError):
            _ask_one(group, server, asker, StopRequest(), Stopped)

    if servers:
        with ThreadPoolExecutor(len(servers), thread_name_prefix="desk client") as pool:
            list(pool.map(end, servers))


def _ask_one(group: TableGroup, server: int, asker: str, request: Request, kind: type[_Kind]) -> _Kind:
    answer = desk_messages.decode_answer(group.server(server).ask(asker, desk_messages.encode(request)))
    if isinstance(answer, Failed):
        raise error_of(answer)
    if not isinstance(answer, kind):
        raise ProtocolError(f"server {server} answered {type(answer).__name__} to {type(request).__name__}")
    return answer


def error_of(failed: Failed) -> Exception:
    """The error that was `failed`, to be raised here."""
    if failed.error == desk_messages.NO_MEMORY:
        return cast(Exception, tf.errors.ResourceExhaustedError(None, None, failed.text))
    known: dict[str, type[AfoError]] = {
        kind.__name__: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AfoError)
    }
    return known.get(failed.error, AfoError)(failed.text)
