"""Why a process ended, and the catalogue of causes."""

import errno
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afo.failures.causes import CAUSES
from afo.failures.classify import classify_container, classify_process, classify_start

TRACEBACK = 'Traceback (most recent call last):\n  File "m.py", line 3, in f\n'


@pytest.mark.parametrize(
    ("code", "tail", "kills", "cause"),
    [
        (0, "Traceback (most recent call last):", 0, "succeeded"),
        (75, "", 0, "parameter_server_lost"),
        (-signal.SIGKILL, "", 0, "killed_by_signal"),
        (-signal.SIGKILL, "", 1, "out_of_memory"),
        (-signal.SIGILL, "", 0, "illegal_instruction"),
        (-signal.SIGSEGV, "", 1, "segmentation_fault"),
        (-signal.SIGABRT, "F0000 check failed", 0, "aborted"),
        (-signal.SIGABRT, "terminate called after throwing 'std::bad_alloc'", 0, "out_of_memory"),
        (-(int(signal.SIGRTMIN) + 3), "", 0, "killed_by_signal"),
        (127, "cannot start /x/python: No such file or directory", 0, "python_not_found"),
        (3, "goodbye", 0, "failed"),
        (1, TRACEBACK + "ValueError: no", 0, "user_exception"),
        (1, TRACEBACK + "Boom", 0, "user_exception"),
        (1, "  lost the head of it\nMemoryError", 0, "out_of_memory"),
        (1, TRACEBACK + "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM", 0, "out_of_memory"),
        (1, TRACEBACK + "afo.errors.DataError: part-3 at 17: bad checksum", 0, "data_error"),
        (1, TRACEBACK + "afo.errors.PermissionDenied: no", 0, "permission_denied"),
        (1, TRACEBACK + "tensorflow.python.framework.errors_impl.UnavailableError: x", 0, "parameter_server_lost"),
        (1, TRACEBACK + "OSError: [Errno 28] No space left on device: 'x'", 0, "disk_full"),
        (1, "afo.errors.StorageError: cannot write /a: No space left on device", 0, "disk_full"),
        (1, "afo.errors.StorageError: cannot write /a: Disk quota exceeded", 0, "disk_full"),
        (1, TRACEBACK + "OSError: [Errno 30] Read-only file system: '/c'", 0, "not_writable"),
        (1, "afo.errors.PermissionDenied: cannot write /a: Read-only file system", 0, "not_writable"),
        (1, "afo.errors.StorageError: cannot write /a: File too large", 0, "not_writable"),
        (1, TRACEBACK + "ValueError: file too large, give a smaller one", 0, "user_exception"),
        (1, TRACEBACK + "errors_impl.UnknownError: Could not start gRPC server", 0, "port_in_use"),
        (1, "KeyError: 'a'\nDuring handling\n" + TRACEBACK + "my.DataLossError: b\nE0001 noise", 0, "data_error"),
    ],
)
def test_table(code: int, tail: str, kills: int, cause: str) -> None:
    assert classify_process(code, tail, kills) == cause


def test_a_program_has_exit_codes_of_its_own() -> None:
    assert classify_process(75, "", own_program=True) == "failed"
    assert classify_process(75, TRACEBACK + "ValueError: no", own_program=True) == "user_exception"


@given(st.integers(-64, 255), st.text(), st.integers(0, 2))
def test_every_end_has_a_cause_of_the_catalogue(code: int, tail: str, kills: int) -> None:
    assert classify_process(code, tail, kills) in CAUSES


def test_the_catalogue_is_complete() -> None:
    for name, cause in CAUSES.items():
        assert cause.name == name
        assert cause.summary.endswith(".")
        assert cause.advice.endswith(".")


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (
            "java.io.IOException: x changed\n\tat org.apache.hadoop.yarn.util.FSDownload.call(FSDownload.java:430)",
            "launch_failed",
        ),
        ("Exception from container-launch\nExitCode=-1000", "launch_failed"),
        ("Exception from container-launch.\nExit code: 76\n", "orphaned"),
        ("Exception from container-launch.\nExit code: 1\n", "container_lost"),
        ("DiskChecker: No space available in any of the local directories\n\tat x.FSDownload.y(Z:1)", "disk_full"),
        ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException: /user/ann\n\tat x.FSDownload.y(Z:1)", "disk_full"),
        ("768.3 MB of 768 MB physical memory used", "memory_limit"),
        ("Container failed during execution, see logs for more information.", "container_lost"),
    ],
)
def test_the_words_of_yarn(words: str, cause: str) -> None:
    assert classify_container(words) == cause


@pytest.mark.parametrize(
    ("error", "cause"),
    [(OSError(errno.ENOSPC, "full"), "disk_full"), (OSError(errno.EDQUOT, "quota"), "disk_full"),
     (OSError(errno.EROFS, "read-only"), "not_writable"), (OSError(errno.EFBIG, "large"), "not_writable"),
     (OSError(errno.ENOEXEC, "no program"), "child_error")],
)  # fmt: skip
def test_a_process_that_cannot_be_started(error: OSError, cause: str) -> None:
    assert classify_start(error) == cause
