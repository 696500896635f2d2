"""A process's own stacks on request: `SIGNAL` makes it append them to `FILE` in its working directory."""

import faulthandler
import signal
from pathlib import Path

FILE = "stacks.txt"
SIGNAL = signal.SIGUSR2


def write_on_request(work_dir: str) -> None:
    """Have this process do so until its end, whatever its threads are doing. Raises `OSError`."""
    file = open(Path(work_dir, FILE), "ab", buffering=0)  # noqa: SIM115 - open as long as the process lives
    faulthandler.register(SIGNAL, file=file, all_threads=True)
