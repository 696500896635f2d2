"""Patience of this process with a file system that does not answer: a NameNode that restarts, DataNodes away.

Commands of a user say at once what is wrong, so the default is not to wait. Processes that train wait: an outage that
ends soon should cost a job a pause and no restart.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from afo.errors import AfoError, ClusterUnreachable

T = TypeVar("T")

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 5.0
_log = logging.getLogger(__name__)
_seconds = 0.0


def be_patient(seconds: float) -> None:
    """From now on, in this process, try again for so long after ClusterUnreachable."""
    global _seconds
    _seconds = seconds


def patiently(
    function: Callable[[], T], seconds: float | None = None,
    of: type[AfoError] | tuple[type[AfoError], ...] = ClusterUnreachable,
) -> T:  # fmt: skip
    """The result of `function()`, called as often as it takes. Raises what is `of` these errors once patience is over.

    That is after `seconds`, else after those of this process.
    """
    deadline, pause = time.monotonic() + (_seconds if seconds is None else seconds), _FIRST_PAUSE_S
    while True:
        try:
            return function()
        except of as error:
            if time.monotonic() + pause > deadline:
                raise
            _log.warning("trying again in %.1f s: %s", pause, error)
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)
