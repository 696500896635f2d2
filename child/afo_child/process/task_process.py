"""The TensorFlow process: started in a session of its own, watched, and ended with everything it started."""

import contextlib
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, cast

from afo.process import lifetime
from afo.process.orphans import kill_orphans
from afo_child.process.output import Pump, Sink

#: How long output may still flow after the end; only a process that left the session can write so long.
_DRAIN_S = 2.0
_LOG = logging.getLogger(__name__)


class TaskProcess:
    """One start. Must be made in a thread that lives as long as the process may: the kernel kills it with that thread.

    `on_exit` is called from another thread when the process is over. `wait_pipe` is what `progress_pipe` returned.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        work_dir: Path,
        progress_pipe: tuple[int, int],
        sinks: tuple[Sink, Sink, Sink],
        on_exit: Callable[[], None],
    ) -> None:
        """`sinks` take stdout, stderr and progress. Closes both ends of `progress_pipe` in due time."""
        reader, writer = progress_pipe
        try:
            self._popen = subprocess.Popen(
                lifetime.command(list(command)),
                cwd=work_dir, env=dict(environment), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                pass_fds=(writer,), start_new_session=True,
            )  # fmt: skip
        except OSError:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        self.pid = self._popen.pid
        self._ended = threading.Event()
        self._on_exit = on_exit
        stdout, stderr, progress = sinks
        self._pump = Pump(
            {
                _take_descriptor(self._popen.stdout): stdout,
                _take_descriptor(self._popen.stderr): stderr,
                reader: progress,
            }
        )
        self._pump.start()
        threading.Thread(target=self._watch, name="process-watch", daemon=True).start()

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return not self._ended.is_set()

    def finish(self) -> int:
        """Clear up after a process that is over; returns its exit code or -signal. Its output has arrived then."""
        self._ended.wait()
        # The leader is not reaped yet, so its number still names this group and no other.
        self._signal(signal.SIGKILL)
        code = self._popen.wait()
        kill_orphans()
        self._pump.join(_DRAIN_S)
        return code

    def stop(self, grace_s: float) -> int:
        """SIGTERM to the group, SIGKILL after `grace_s`; returns the exit code or -signal."""
        if self.alive:
            self.terminate()
            if not self._ended.wait(grace_s):
                _LOG.warning("process %d ignored SIGTERM for %g s", self.pid, grace_s)
                self._signal(signal.SIGKILL)
        return self.finish()

    def terminate(self) -> None:
        """SIGTERM to the group, without waiting. May be called from any thread."""
        if self.alive:
            self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to the group, without waiting. May be called from any thread."""
        if self.alive:
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def _watch(self) -> None:
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        self._ended.set()
        self._on_exit()


def _take_descriptor(stream: IO[bytes] | None) -> int:
    """A descriptor of our own of one of Popen's pipes, whose object is closed."""
    with cast(IO[bytes], stream) as file:
        return os.dup(file.fileno())
