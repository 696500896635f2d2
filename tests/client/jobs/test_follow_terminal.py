"""Following a job on a real (pseudo) terminal: the line is rewritten, and Ctrl-C asks."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

PROGRAM = """
from afo_client.jobs import follow
from afo_client.jobs.view import JobView

class Watch:
    master = None
    killed = False
    class ref:
        job_id = "local_1_0001"
        class paths:
            events = "no events"
    def look(self, ask_master=True):
        return JobView(job_id="local_1_0001", state="KILLED" if self.killed else "TRAINING", step=5)
    def keep_reason(self, user, reason):
        return False
    def keep_verdict(self, verdict):
        return False
    def costs(self):
        return None
    def kill(self):
        self.killed = True
    def close_log(self):
        pass

follow.POLL_S = 0.05
try:
    print("final", follow.follow(Watch()).state)
except follow.Detached as error:
    print("detached:", error)
"""
PATIENCE_S = 60.0


class Terminal:
    """A program with a terminal of its own."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=_take_terminal,
        )  # fmt: skip
        os.close(slave)
        self.seen = ""

    def expect(self, text: str) -> None:
        """Read until the program has printed `text`."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if select.select([self._master], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self._master, 4096).decode()
                except OSError:  # the program has closed its terminal
                    assert text in self.seen, self.seen

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


def _take_terminal() -> None:
    # Opening a terminal makes it the controlling one of a new session, so that Ctrl-C reaches it.
    os.close(os.open(os.ttyname(0), os.O_RDWR))


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.close()


def test_the_line_is_rewritten_and_ctrl_c_can_detach(terminal: Terminal) -> None:
    terminal.expect("\rTRAINING · step 5")
    terminal.type("\x03")
    terminal.expect("[d]etach (default) or [k]ill?")
    terminal.type("d\n")
    terminal.expect("detached: detached; local_1_0001 goes on")


def test_ctrl_c_can_kill(terminal: Terminal) -> None:
    terminal.expect("TRAINING")
    terminal.type("\x03")
    terminal.expect("[k]ill?")
    terminal.type("k\n")
    terminal.expect("final KILLED")


def test_a_second_ctrl_c_leaves_at_once(terminal: Terminal) -> None:
    terminal.expect("TRAINING")
    terminal.type("\x03")
    terminal.expect("[k]ill?")
    terminal.type("\x03")
    assert terminal.process.wait(PATIENCE_S) == -signal.SIGINT
