"""Stack traces of a process: of all its threads, read from outside, or else what can be had without that.

1. pystack reads Python and native frames of every thread; the kernel must allow it (`ptrace`).
2. Otherwise the process is asked to write its Python stacks into a file (`afo.process.state`), which one that is
   stopped or that holds Python's lock in native code cannot do; beside them, what /proc says of each thread.
"""

import os
import re
import signal
import sys
import time
from pathlib import Path

from afo.process.bounded_command import Ran
from afo.process.state import STACKS_FILE, STACKS_SIGNAL

#: The file of the process is complete when it has not grown for so long.
_SETTLED_S = 0.3
_WAIT_S = 5.0
_FRAME = re.compile(r'^\s*(?:\(Python\) )?File "([^"]+)", line (\d+),? in (\S+)')
_THREAD = re.compile(r"^(?:Traceback for thread (\d+) |(?:Current t|T)hread 0x)")
#: Code that is seldom to blame: libraries and the standard library; of afo itself only what waits for an answer.
_FOREIGN = re.compile(
    r"/(?:site|dist)-packages/(?!afo(?:_\w+)?/)|/lib/python3\.\d+/(?!site-packages)|^<frozen|/afo/rpc/\w+\.py$"
)


def reader_command(pid: int) -> list[str]:
    """The command that prints the stacks of a process."""
    return [sys.executable, "-m", "pystack", "--no-color", "remote", "--native-all", str(pid)]


def describe(pid: int, ran: Ran, work_dir: Path) -> str:
    """All that can be said of the process; `ran` is what became of `reader_command`."""
    if ran.code == 0 and "Traceback for thread" in ran.output:
        return ran.output
    reason = ran.output.strip().splitlines()[-1:] or [f"exit code {ran.code}"]
    head = f"Native stacks cannot be read here: {reason[0]}"
    return "\n\n".join((head, python_stacks(pid, work_dir), threads(pid)))


def python_stacks(pid: int, work_dir: Path) -> str:
    """Python stacks by the process's own hand, or why there are none."""
    if not catches(pid, STACKS_SIGNAL):
        return "Its Python stacks are unknown: the process does not tell them on request."
    path = work_dir / STACKS_FILE
    before = path.stat().st_size if path.exists() else 0
    os.kill(pid, STACKS_SIGNAL)
    size, deadline = before, time.monotonic() + _WAIT_S
    while time.monotonic() < deadline:
        time.sleep(_SETTLED_S)
        grown = path.stat().st_size if path.exists() else 0
        if grown > before and grown == size:
            return path.read_bytes()[before:].decode(errors="replace")
        size = grown
    return "Its Python stacks are unknown: the process does not answer; it is stopped, or inside of native code."


def threads(pid: int) -> str:
    """Name, state and place in the kernel of each thread."""
    lines = ["Threads (state, place in the kernel, name):"]
    for task in sorted(Path(f"/proc/{pid}/task").glob("*"), key=lambda path: int(path.name)):
        try:
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            lines.append(f"{task.name} {state} {_place(task)} {(task / 'comm').read_text().strip()}")
        except OSError:  # it has ended in between
            continue
    return "\n".join(lines)


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler for a signal, which would end it otherwise."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt")), "0")
    return bool(int(caught, 16) & 1 << (number - 1))


def place(text: str, pid: int) -> str:
    """The Python code that the main thread is in, out of the text of `describe`; '' where it is unknown."""
    frames = _main_thread(text, pid)
    if not frames:
        return ""
    own = next((frame for frame in frames if not _FOREIGN.search(frame[0])), None)
    words = _words(frames[0])
    return words if own in (None, frames[0]) else f"{words}, called from {_words(own)}"


def _words(frame: tuple[str, str, str]) -> str:
    path, line, function = frame
    return f"{'/'.join(Path(path).parts[-3:]).removeprefix('//')}:{line} in {function}"


def _main_thread(text: str, pid: int) -> list[tuple[str, str, str]]:
    """(file, line, function) of the main thread, innermost first."""
    newest_first = "most recent call first" in text  # faulthandler, which names the main thread last
    found: list[tuple[str, str, str]] = []
    main = False
    for line in text.splitlines():
        if thread := _THREAD.match(line):
            main = newest_first or thread.group(1) == str(pid)
            found = [] if main else found
        elif main and (frame := _FRAME.match(line)):
            found.append((frame.group(1), frame.group(2), frame.group(3)))
    return found if newest_first else found[::-1]


def _place(task: Path) -> str:
    try:
        return (task / "wchan").read_text().strip() or "-"
    except OSError:
        return "-"
