"""Classification of a process's end by what it left: exit code or signal, last lines, memory kills. Pure."""

import re
import signal

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

#: Words that say more than the class of the exception, or that native code prints before it ends.
_WORDS = (
    ("No space left on device", "disk_full"),
    ("Disk quota exceeded", "disk_full"),
    ("DSQuotaExceeded", "disk_full"),
    ("Address already in use", "port_in_use"),
    ("Could not start gRPC server", "port_in_use"),
    ("std::bad_alloc", "out_of_memory"),
)


def classify(code: int, tail: str, memory_kills: int = 0, *, own_program: bool = False) -> str:
    """A name of `afo.failures.causes.CAUSES`.

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
    worded = next((cause for words, cause in _WORDS if words in tail), None)
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
