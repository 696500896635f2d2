"""The cause of a task's end: out of its Child's report, or else out of YARN's words. Pure."""

import re

from afo.errors import Orphaned
from afo.failures.causes import CAUSES
from afo.failures.classify import last_exception
from afo.formats.units import Memory
from afo.rpc.messages import ExitReport

#: Texts of Hadoop 2.10 to 3.4 (ContainerExitStatus, ContainersMonitorImpl, SchedulerUtils) and of skein.
_WORDS = (
    (re.compile(r"preempted", re.I), "preempted"),
    (re.compile(r"lost\W+node|node.{0,20}(is lost|decommissioned|unusable)", re.I), "node_lost"),
    (re.compile(r"beyond (the )?'?(physical|virtual)'? ?memory|(physical|virtual) memory used", re.I), "memory_limit"),
    (re.compile(r"no space (left on device|available in any of the local)", re.I), "disk_full"),
    # A file that cannot be fetched is told as the exception of what fetches it.
    (re.compile(r"exitcode=-1000|failed to (download|localize)|localiz\w+ fail|FSDownload|ContainerLocalizer", re.I),
     "launch_failed"),
    (re.compile(rf"exit ?code:? ?{Orphaned.exit_code}\b", re.I), "orphaned"),
)  # fmt: skip
_JAVA_FRAME = re.compile(r"\n\s+(at |\.\.\. \d+ more).*")

#: Characters of an exception's line that are repeated wherever the task's end is told.
_EXCEPTION_CHARACTERS = 500

#: Ends after which the next attempt gets more memory.
MEMORY_CAUSES = frozenset({"memory_limit", "out_of_memory"})


def cause_of(diagnostics: str, exit_code: int | None = None) -> str:
    """A name of `afo.failures.causes.CAUSES`. YARN has the exit code of a container in its words alone."""
    if exit_code == Orphaned.exit_code:
        return "orphaned"
    return next((cause for words, cause in _WORDS if words.search(diagnostics)), "container_lost")


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
