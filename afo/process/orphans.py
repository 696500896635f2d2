"""Processes below this one that nobody waits for any more."""

import contextlib
import logging

import psutil

_LOG = logging.getLogger(__name__)


def kill_orphans() -> None:
    """End and reap every process below this one.

    Complete for a process that called `afo.process.lifetime.adopt_orphans`: what left its session is found too.
    """
    while strays := psutil.Process().children(recursive=True):
        for stray in strays:
            with contextlib.suppress(psutil.NoSuchProcess):
                _LOG.warning("killing process %d (%s), left behind", stray.pid, stray.name())
                stray.kill()
        psutil.wait_procs(strays)
