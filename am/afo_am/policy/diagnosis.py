"""Message of a task's end: out of its Child's report, or else out of YARN's words. Pure."""

import re

from afo.failures.causes import CAUSES
from afo.failures.classify import last_exception
from afo.formats.units import Memory
from afo.rpc.messages import ExitReport

_JAVA_FRAME = re.compile(r"\n\s+(at |\.\.\. \d+ more).*")

#: Characters of an exception's line that are repeated wherever the task's end is told.
_EXCEPTION_CHARACTERS = 500

#: Ends after which the next attempt gets more memory.
MEMORY_CAUSES = frozenset({"memory_limit", "out_of_memory"})


def without_frames(diagnostics: str) -> str:
    """What YARN says, without where in its code."""
    return _JAVA_FRAME.sub("", diagnostics)


def message_of(report: ExitReport, given: Memory) -> str:
    """A line for people: the exception that the process ended with, else what its cause means in general.

    After a lack of memory with the most that the task was seen to use of what it was given.
    """
    words = last_exception(report.tail) if report.code > 0 else ""
    words = words[:_EXCEPTION_CHARACTERS] or CAUSES[report.cause].summary
    if report.cause in MEMORY_CAUSES and report.usage.peak_rss:
        words = f"{words.rstrip('.')}: it used {report.usage.peak_rss / 2**20:,.0f} MiB of {given}"
    return words
