"""State of a process: the kernel's letter for it, as in proc(5), and its stacks by its own hand, on request."""

import faulthandler
import signal
from pathlib import Path

#: States in which it does nothing, in words.
_WORDS = {"T": "stopped by a signal", "t": "stopped by a debugger", "D": "waiting for a disk or a file system"}
#: The signal on which a process appends its stacks to the file in its working directory.
STACKS_FILE = "stacks.txt"
STACKS_SIGNAL = signal.SIGUSR2


def kernel_state(pid: int) -> str:
    """The letter of a process, such as T or D; empty if it is over."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def state_in_brackets(state: str) -> str:
    """Words about a letter for the end of a sentence; empty for no letter."""
    if state in _WORDS:
        return f" ({_WORDS[state]}, state {state})"
    return f" (state {state})" if state else ""


def write_stacks_on_request(work_dir: str) -> None:
    """Have this process answer `STACKS_SIGNAL` until its end, whatever its threads are doing. Raises `OSError`."""
    file = open(Path(work_dir, STACKS_FILE), "ab", buffering=0)  # noqa: SIM115 - open as long as the process lives
    faulthandler.register(STACKS_SIGNAL, file=file, all_threads=True)
