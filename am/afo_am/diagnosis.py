"""Why a container ended, out of YARN's words, when its Child had no last word. Pure."""

import re

#: Texts of Hadoop 2.10 to 3.4 (ContainerExitStatus, ContainersMonitorImpl, SchedulerUtils) and of skein.
_WORDS = (
    (re.compile(r"preempted", re.I), "preempted"),
    (re.compile(r"lost\W+node|node.{0,20}(is lost|decommissioned|unusable)", re.I), "node_lost"),
    (re.compile(r"beyond (the )?'?(physical|virtual)'? ?memory|(physical|virtual) memory used", re.I), "memory_limit"),
    (re.compile(r"exitcode=-1000|failed to (download|localize)|localiz\w+ fail", re.I), "launch_failed"),
)

#: Ends after which the next attempt gets more memory.
MEMORY_CAUSES = frozenset({"memory_limit", "out_of_memory"})


def cause_of(diagnostics: str) -> str:
    """A name of `afo.exits.CAUSES`."""
    return next((cause for words, cause in _WORDS if words.search(diagnostics)), "container_lost")
