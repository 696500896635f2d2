"""Save and load requests to several servers at once: one question each, the first error ends all."""

import secrets
from collections.abc import Collection, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TypeVar

import tensorflow as tf

from afo.embedding import desk_messages
from afo.embedding.desk_messages import Answer, Failed, Request, Stopped, StopRequest
from afo.embedding.group import TableGroup
from afo.errors import AfoError, ProtocolError

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
        raise desk_messages.error_of(answer)
    if not isinstance(answer, kind):
        raise ProtocolError(f"server {server} answered {type(answer).__name__} to {type(request).__name__}")
    return answer
