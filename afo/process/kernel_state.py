"""State of a process in the kernel, by the letters of proc(5)."""

from pathlib import Path

#: States in which it does nothing, in words.
_WORDS = {"T": "stopped by a signal", "t": "stopped by a debugger", "D": "waiting for a disk or a file system"}


def letter(pid: int) -> str:
    """Such as T or D; empty if it is over."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def in_brackets(state: str) -> str:
    """For the end of a sentence; empty for no letter."""
    if state in _WORDS:
        return f" ({_WORDS[state]}, state {state})"
    return f" (state {state})" if state else ""
