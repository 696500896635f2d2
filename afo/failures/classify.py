"""Classification of ends as causes (`afo.failures.causes`): of a process, a container, a start that failed. Pure."""

import errno
import re
import signal

from afo.errors import Orphaned, has_no_space
from afo.process.lifetime import EXIT_NOT_FOUND
from afo.protocol.train_task import EXIT_RESTART

#: The line that ends a Python traceback: `module.Class: message` or `SomeError: message`, the message optional.
_EXCEPTION = re.compile(r"^((?:\w+\.)+[A-Z]\w*|[A-Z]\w*(?:Error|Exception))(?::|$)")

_SIGNALS: dict[int, str] = {
    signal.SIGILL: "illegal_instruction",
    signal.SIGSEGV: "segmentation_fault",
    signal.SIGBUS: "segmentation_fault",
    signal.SIGABRT: "aborted",
    signal.SIGFPE: "aborted",
}

#: Last name of an exception's class → cause.
_EXCEPTIONS = {
    "MemoryError": "out_of_memory",
    "ResourceExhaustedError": "out_of_memory",
    "DataError": "data_error",
    "DataLossError": "data_error",
    "SpecError": "spec_error",
    "Unsupported": "spec_error",
    "GateRefused": "quality_gate",
    "ModelError": "model_error",
    "CheckpointLost": "checkpoint_lost",
    "NotFinite": "not_finite",
    "NotFound": "file_not_found",
    "FileNotFoundError": "file_not_found",
    "PermissionDenied": "permission_denied",
    "PermissionError": "permission_denied",
    "ClusterUnreachable": "storage_unreachable",
    "UnavailableError": "parameter_server_lost",
    "AbortedError": "parameter_server_lost",
}

_NO_SPACE = re.compile(
    r"no space left on device|disk quota exceeded|DSQuotaExceeded|no space available in any of the local", re.I
)
#: The system's words for EROFS and EFBIG, as it writes them.
_NOT_WRITABLE = re.compile(r"\b(Read-only file system|File too large)\b")
#: What a process prints that says more than the class of the exception, or that native code prints before it ends. Here
#: and below the first that matches counts.
_PRINTED = (
    (_NO_SPACE, "disk_full"),
    (_NOT_WRITABLE, "not_writable"),
    (re.compile("Address already in use|Could not start gRPC server"), "port_in_use"),
    (re.compile("std::bad_alloc"), "out_of_memory"),
)
#: Texts of Hadoop 2.10 to 3.4 (ContainerExitStatus, ContainersMonitorImpl, SchedulerUtils) and of skein.
_DIAGNOSTICS = (
    (re.compile(r"preempted", re.I), "preempted"),
    (re.compile(r"lost\W+node|node.{0,20}(is lost|decommissioned|unusable)", re.I), "node_lost"),
    (re.compile(r"beyond (the )?'?(physical|virtual)'? ?memory|(physical|virtual) memory used", re.I), "memory_limit"),
    (_NO_SPACE, "disk_full"),
    (_NOT_WRITABLE, "not_writable"),
    # A file that cannot be fetched is told as the exception of what fetches it.
    (re.compile(r"exitcode=-1000|failed to (download|localize)|localiz\w+ fail|FSDownload|ContainerLocalizer", re.I),
     "launch_failed"),
    (re.compile(rf"exit ?code:? ?{Orphaned.exit_code}\b", re.I), "orphaned"),
)  # fmt: skip


def classify_container(diagnostics: str, exit_code: int | None = None) -> str:
    """The cause of a container's end by YARN's diagnostics, where its Child had no last word.

    YARN has the exit code of a container in its words alone.
    """
    if exit_code == Orphaned.exit_code:
        return "orphaned"
    return next((cause for words, cause in _DIAGNOSTICS if words.search(diagnostics)), "container_lost")


def classify_start(error: OSError) -> str:
    """The cause of a process that could not be started."""
    if has_no_space(error):
        return "disk_full"
    return "not_writable" if error.errno in (errno.EROFS, errno.EFBIG) else "child_error"


def classify_process(code: int, tail: str, memory_kills: int = 0, *, own_program: bool = False) -> str:
    """The cause of a process's end by what it left.

    `code` is the exit code, or -signal; `tail` the last lines of stderr; `memory_kills` how many processes of its
    control group the kernel has killed for memory since the process began. The exit codes of a user's `own_program`
    mean what that user likes.
    """
    if code == 0:
        return "succeeded"
    if code == EXIT_RESTART and not own_program:
        return "parameter_server_lost"
    if -code == signal.SIGKILL and memory_kills > 0:
        return "out_of_memory"
    worded = next((cause for words, cause in _PRINTED if words.search(tail)), None)
    if code < 0:
        return worded or _SIGNALS.get(-code, "killed_by_signal")
    if code == EXIT_NOT_FOUND:
        return "python_not_found"
    return worded or _by_exception(tail)


def last_exception(tail: str) -> str:
    """The last line of `tail` that names an exception: `module.Class: message`; '' if there is none."""
    return next((line for line in reversed(tail.splitlines()) if _EXCEPTION.match(line)), "")


def _by_exception(tail: str) -> str:
    """By the last exception named in `tail` (a long traceback may have lost its head); `failed` if there is none."""
    match = _EXCEPTION.match(last_exception(tail))
    if match:
        return _EXCEPTIONS.get(match.group(1).rpartition(".")[2], "user_exception")
    return "user_exception" if "Traceback (most recent call last)" in tail else "failed"
