"""The supervisor of the Application Master: `python -m afo_am.supervisor AM_CONFIG_JSON`.

Runs `python -m afo_am AM_CONFIG_JSON` and starts it again when it dies, a bounded number of times: the AM replays its
journal, containers and training go on meanwhile. Ends when the AM exits with a code of `FINAL_CODES`.

- AFO_AM_INCARNATION tells the AM the number of its start, 1, 2, …, and AFO_AM_PREVIOUS_END how the one before ended.
- What the AM says on stderr is passed on, 64 MiB at most and then the last lines of each start alone; on YARN it is
  copied to the job's directory. When there is no use in another start, YARN gets the end of it as the application's
  diagnostics, unless the AM has reported a verdict itself.
- An AM that comes to a halt, by SIGSTOP for one, is killed and started again (`afo_am.supervisor.pulse`).
- SIGTERM is passed on; an AM that does not end within `STOP_S` is killed.
- The AM never outlives its supervisor. On YARN the supervisor never outlives the container's main process, which
  started it; a `local` job's supervisor is on its own.
"""

import collections
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

import msgspec

from afo.errors import AfoError, DataError, PermissionDenied, SpecError, UsageError
from afo.job.paths import JobPaths
from afo.logs.capped import CAP_BYTES, LastLines
from afo.process.lifetime import adopt_orphans
from afo.process.lifetime import command as bound_to_us
from afo.process.state import kernel_state
from afo_am.runtime.application_attempt import application_attempt
from afo_am.runtime.master_log import DESCRIPTOR, MasterLog, Relay
from afo_am.supervisor import pulse

#: Exit codes of the AM after which another start would change nothing: the job has its verdict, the submission itself
#: is wrong, or the journal is damaged.
FINAL_CODES = frozenset({0, UsageError.exit_code, SpecError.exit_code, DataError.exit_code, PermissionDenied.exit_code})
#: Exit code of the supervisor after SIGTERM, as a shell would say it.
EXIT_TERMINATED = 128 + signal.SIGTERM

STOP_S = 20.0
_POLL_S = 1.0
_LAST_LINES = 10
#: gRPC else writes a line for each stranger whose handshake fails. What it reads once, when it is imported.
_QUIET = {"GRPC_VERBOSITY": "ERROR"}
#: How long the pipe of an AM that ended may stay open, if something that it left behind holds it.
_RELAY_S = 5.0


class RestartBound:
    """At most `most` starts in any `window_s` seconds, with a growing pause before each but the first."""

    def __init__(
        self, most: int = 10, window_s: float = 600.0, first_pause_s: float = 0.5, longest_pause_s: float = 10.0
    ) -> None:
        self._most = most
        self._window_s = window_s
        self._first_pause_s = first_pause_s
        self._longest_pause_s = longest_pause_s
        self._starts: collections.deque[float] = collections.deque()

    def next_pause(self, now: float) -> float | None:
        """Seconds to wait before the start that is made now; None when the bound is reached."""
        while self._starts and now - self._starts[0] > self._window_s:
            self._starts.popleft()
        if len(self._starts) >= self._most:
            return None
        self._starts.append(now)
        restarts = len(self._starts) - 1
        return min(self._first_pause_s * 2 ** (restarts - 1), self._longest_pause_s) if restarts else 0.0


class Supervisor:
    """Runs `command` until it is done.

    `parent` is the process without which there is no use in going on, or 0; `log` gets a copy of what is said, and our
    own stderr its first `room` bytes.
    """

    def __init__(
        self, command: list[str], bound: RestartBound, parent: int = 0, stop_s: float = STOP_S,
        log: MasterLog | None = None, silent_s: float = pulse.SILENT_S,
        room: int = CAP_BYTES,
    ) -> None:  # fmt: skip
        self._command = command
        self._bound = bound
        self._parent = parent
        self._stop_s = stop_s
        self._stopping = False
        self._log = log
        self._silent_s = silent_s
        self._last = LastLines()
        self._room, self._left_out = room, 0
        #: How the AM ended that ran last.
        self._previous_end = ""
        #: Wakes the loop as soon as a child ends or SIGTERM comes.
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> int:
        """The exit code to end with."""
        adopt_orphans()
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._stop)
        incarnation, code = 0, 0
        while not self._over:
            pause = self._bound.next_pause(time.monotonic())
            if pause is None:
                self._say(f"the Application Master died too often; giving up with its last exit code {code}")
                return code if code > 0 else 1
            self._pause(pause)
            incarnation += 1
            code = self._run_once(incarnation)
            if code in FINAL_CODES:
                return code
            if not self._over:
                self._say(f"the Application Master (start {incarnation}): {self._previous_end}")
        return EXIT_TERMINATED

    def _run_once(self, incarnation: int) -> int:
        if self._over:
            return EXIT_TERMINATED
        self._last = LastLines()
        ours, theirs = socket.socketpair()
        with theirs:
            asks = {DESCRIPTOR: str(theirs.fileno())} if self._log else {}
            listener = pulse.Listener(self._silent_s)
            try:
                process = subprocess.Popen(
                    bound_to_us(self._command),
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                    pass_fds=[theirs.fileno(), listener.theirs],
                    env={**_QUIET, **os.environ, "AFO_AM_INCARNATION": str(incarnation), **asks,
                         "AFO_AM_PREVIOUS_END": self._previous_end, pulse.DESCRIPTOR: str(listener.theirs)},
                )  # fmt: skip
            finally:
                os.close(listener.theirs)
        assert process.stderr is not None
        relay = Relay(process.stderr, ours, self._take, self._copy)
        relay.start()
        code = self._await_end(process, listener)
        relay.join(_RELAY_S)
        listener.close()
        self._tell_left_out()
        return code

    @property
    def last_words(self) -> str:
        """The last lines that an AM wrote to stderr."""
        return self._last.lines(_LAST_LINES)

    def _take(self, data: bytes) -> None:
        self._last.feed(data)
        if self._log:
            self._log.feed(data)
        passed = data[: self._room]
        self._room -= len(passed)
        _write(2, passed)
        if len(passed) < len(data) and not self._left_out:
            _write(2, b"\n[afo: the log is full; the last lines follow when the Application Master ends]\n")
        self._left_out += len(data) - len(passed)

    def _tell_left_out(self) -> None:
        """The end of what one AM said; the reason of its end is there."""
        if self._left_out:
            note = f"[afo: {self._left_out} bytes are left out, but for the last lines]"
            _write(2, f"{note}\n{self.last_words}\n".encode())
        self._left_out = 0

    def _copy(self) -> None:
        if self._log:
            self._log.copy()

    def _say(self, text: str) -> None:
        line = f"afo supervisor: {text}\n".encode()
        if self._log:
            self._log.feed(line)
        _write(1, line)

    def _await_end(self, process: "subprocess.Popen[bytes]", listener: pulse.Listener) -> int:
        deadline, silence = None, ""
        while (code := self._poll_exit(process)) is None:
            if self._over and deadline is None:
                process.terminate()
                deadline = time.monotonic() + self._stop_s
            elif deadline is not None and time.monotonic() > deadline:
                process.kill()
            elif not silence and listener.is_silent(time.monotonic()):
                state = kernel_state(process.pid) or "?"
                silence = f"silent for {self._silent_s:g} s, in state {state}"
                self._say(f"the Application Master was {silence}; killing it")
                process.kill()
            self._doze(_POLL_S)
        end = f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        self._previous_end = f"{silence}, and killed" if silence else end
        return code

    @staticmethod
    def _poll_exit(process: "subprocess.Popen[bytes]") -> int | None:
        # One waitpid for all: containers of a dead AM are children of this process now, and must be reaped too.
        process.returncode = _reap_all().get(process.pid)
        return process.returncode

    @property
    def _over(self) -> bool:
        return self._stopping or (self._parent != 0 and os.getppid() != self._parent)

    def _stop(self, _number: int, _frame: object) -> None:
        self._stopping = True

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self._over:
            self._doze(left)

    def _doze(self, seconds: float) -> None:
        if select.select([self._wake_read], [], [], min(seconds, _POLL_S))[0]:
            os.read(self._wake_read, 4096)


class _Timeouts(msgspec.Struct):
    orphan: float


class _Job(msgspec.Struct):
    timeouts: _Timeouts


class _Settings(msgspec.Struct):
    """The part of `afo.protocol.am_config.AmConfig` that matters here."""

    runtime: Literal["local", "yarn"]
    jobs_root: str
    job: _Job
    job_id: str = ""

    @property
    def silent_s(self) -> float:
        """How long the AM may be silent."""
        return pulse.bound(self.job.timeouts.orphan)


def _write(descriptor: int, data: bytes) -> None:
    """To stdout or stderr; a full disk behind them loses words, neither the AM nor its next start."""
    with contextlib.suppress(OSError):
        os.write(descriptor, data)


def _reap_all() -> dict[int, int]:
    """Exit codes (or -signal) by process id of children that have ended."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            ended[found[0]] = os.waitstatus_to_exitcode(found[1])
    return ended


def main(arguments: list[str]) -> int:
    """Supervise the AM of one job."""
    settings = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=_Settings)
    command = [sys.executable, "-P", "-m", "afo_am", arguments[0]]
    if settings.runtime == "yarn":
        return _on_yarn(command, settings)
    return Supervisor(command, RestartBound(), silent_s=settings.silent_s).run()


def _on_yarn(command: list[str], settings: _Settings) -> int:
    paths = JobPaths(settings.jobs_root, settings.job_id or os.environ["SKEIN_APPLICATION_ID"])
    log = MasterLog(Path("am-log"), paths, application_attempt())
    supervisor = Supervisor(command, RestartBound(), os.getppid(), log=log, silent_s=settings.silent_s)
    code = supervisor.run()
    log.close()
    if code not in (0, EXIT_TERMINATED):
        _tell_yarn(supervisor.last_words or f"the Application Master ended with exit code {code}")
    return code


def _tell_yarn(diagnostics: str) -> None:
    from afo_am.runtime.yarn import YarnRuntime  # slow to import, and seldom needed

    try:
        YarnRuntime().finish("FAILED", diagnostics)
    except AfoError as error:
        _write(1, f"afo supervisor: YARN could not be told why the job failed: {error}\n".encode())
