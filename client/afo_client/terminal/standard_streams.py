"""stdin, stdout and stderr as the command finds them: closed, full, without a reader, or of few characters.

As of other commands: nobody reads any more, and it ends quietly by what a shell calls SIGPIPE; a result that cannot be
written is an error with a code of its own; words for a person that nobody can read are left out; a character that the
encoding lacks becomes a question mark.
"""

import errno
import io
import os
import signal
import sys
from typing import BinaryIO, TextIO

#: The reader has gone: as a shell counts SIGPIPE.
EXIT_NO_READER = 128 + signal.SIGPIPE
#: A result could not be written; EX_IOERR of sysexits.h.
EXIT_NOT_WRITTEN = 74


class OutputError(BaseException):
    """Output could not be written. Like KeyboardInterrupt it is no business of who catches errors on the way."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message)
        self.code = code


class _Output(io.TextIOWrapper):
    """A stream whose errors end the command, or are no matter; afterwards it takes everything and keeps nothing."""

    def __init__(self, buffer: BinaryIO, encoding: str, *, demanded: bool) -> None:
        super().__init__(buffer, encoding=encoding, errors="replace", line_buffering=True)
        self._demanded = demanded

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._fail_writing(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._fail_writing(error)

    def _fail_writing(self, error: OSError) -> None:
        # What is buffered would fail again when the interpreter ends.
        _place(os.open(os.devnull, os.O_WRONLY), self.fileno())
        if error.errno == errno.EPIPE:
            raise OutputError(EXIT_NO_READER) from error
        if self._demanded:
            why = "it is closed" if error.errno == errno.EBADF else error.strerror
            raise OutputError(EXIT_NOT_WRITTEN, f"cannot write to stdout: {why}") from error


def set_up() -> None:
    """Make the three streams of this process what this module says."""
    if _is_closed(sys.stdin, 0, os.O_RDONLY):
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process lives
    # Of the null device, but for reading: it takes the place, which the next file would get, and writing fails.
    sys.stdout = _output(sys.stdout, 1, os.O_RDONLY, demanded=True)
    sys.stderr = _output(sys.stderr, 2, os.O_WRONLY, demanded=False)


def _output(stream: TextIO, number: int, flags: int, *, demanded: bool) -> TextIO:
    if _is_closed(stream, number, flags):
        return _Output(open(number, "wb", closefd=False), "utf-8", demanded=demanded)
    return _Output(stream.buffer, stream.encoding, demanded=demanded)


def _is_closed(stream: TextIO | None, number: int, flags: int) -> bool:
    """Whether it was when the process began, and so is None; its place is then the null device's."""
    if stream is not None:
        return False
    try:
        os.fstat(number)
    except OSError:
        _place(os.open(os.devnull, flags), number)
    return True


def _place(descriptor: int, number: int) -> None:
    if descriptor != number:
        os.dup2(descriptor, number)
        os.close(descriptor)
