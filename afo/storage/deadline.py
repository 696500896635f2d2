"""A bound in time for calls that have none of their own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from afo.errors import WaitTimeout

T = TypeVar("T")


def call(seconds: float, function: Callable[[], T]) -> T:
    """The result of `function()`, or what it raised; WaitTimeout when it took longer than `seconds`.

    The call runs in a daemon thread of its own (about 0.1 ms), since nothing can interrupt native code. A call that
    overran is left behind, and its late result dropped: only give functions for which that is harmless. Ctrl-C is
    answered while waiting.
    """
    outcome: queue.SimpleQueue[tuple[T, None] | tuple[None, BaseException]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put((function(), None))
        except BaseException as error:  # a Rust panic is no Exception, and the caller must see it
            outcome.put((None, error))

    threading.Thread(target=run, name="afo-storage-call", daemon=True).start()
    try:
        result, error = outcome.get(timeout=seconds)
    except queue.Empty:
        raise WaitTimeout(f"no answer within {seconds:g} s") from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]  # the pair holds a result whenever it holds no error
