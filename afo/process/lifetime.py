"""No process outlives the one that started it: Linux's parent-death signal, as a function and as a small program.

As a program, `python -I -S lifetime.py PARENT_PID PROGRAM [ARGUMENT…]` asks for the signal and then becomes
PROGRAM. The kernel keeps the request over `exec`, so it holds from the very first instruction of any program, without
that program's help and without running Python code between `fork` and `exec` of a parent with threads.
This file imports nothing but the standard library, because it is run by its path.
"""

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PTRACER = 0x59616D61
#: How AutoGraph begins the names of modules that it generates.
_GENERATED = "__autograph_generated_file"
#: As a shell has it: the program cannot be started.
EXIT_NOT_FOUND = 127


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process (SIGKILL) when the thread that started it ends. Linux only.

    `parent` is the pid the caller expects to have; if that one is gone already, this process ends at once.
    Raises `OSError` if the kernel refuses.
    """
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Descendants whose parent ends become children of this process, so that it can find and end them. Linux only.

    Raises `OSError` if the kernel refuses.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def allow_tracing(parent: int) -> None:
    """Let `parent`, and what it starts, look into this process where the Yama security module restricts that."""
    with contextlib.suppress(OSError):  # a kernel without Yama knows no such request, and needs none
        _prctl(_PR_SET_PTRACER, parent)


def command(program: list[str], parent: int | None = None) -> list[str]:
    """The command line that starts `program` bound to the life of `parent` (default: the calling process)."""
    return [sys.executable, "-I", "-S", os.path.abspath(__file__), str(parent or os.getpid()), *program]


def end_at_once(code: int) -> None:
    """End this process, its output written, without the interpreter's own end, which joins threads that may hang.

    Of what would be tidied up there, only the code that TensorFlow's AutoGraph generates lies in the machine's /tmp.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith(_GENERATED) and (file := getattr(module, "__file__", None)):
            with contextlib.suppress(OSError):
                os.unlink(file)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl({option}): {os.strerror(code)}")


def main(arguments: list[str]) -> int:
    """Become the program; returns only if that fails."""
    parent = int(arguments[0])
    die_with_parent(parent)
    allow_tracing(parent)
    program = arguments[1:]
    try:
        os.execvp(program[0], program)
    except OSError as error:
        print(f"cannot start {program[0]}: {error.strerror}", file=sys.stderr)
    return EXIT_NOT_FOUND


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
