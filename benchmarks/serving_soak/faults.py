"""Faults of a server, of its versions and of who writes them, one at a time, at random times."""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from serving_soak.checker import Checker
from serving_soak.expected import ExpectedAnswers
from serving_soak.hdfs_copies import CopiesInHDFS
from serving_soak.place import VersionsPlace
from serving_soak.server import Server

#: Kinds in which requests may fail; in all others none may.
STOPS_ANSWERS = ("server killed", "server stopped", "memory short")
#: A server that answers nothing for so long after a fault has not come back.
BACK_S = 120.0
_PAUSE_S = (10.0, 45.0)
_POLL_S = 0.05
_DAMAGED_BYTES = 64


class Fault(NamedTuple):
    """One of them: from `began` to `lifted`, and when an answer came again."""

    kind: str
    began: float
    lifted: float
    back: float
    note: str = ""

    @property
    def until(self) -> float:
        """Until when it explains a request that failed: a client that lost its server waits up to as long again."""
        return self.back + 2.0 + (self.back - self.began)


class Faults:
    """Brings them about until a time."""

    def __init__(
        self, server: Server, place: VersionsPlace, copies: CopiesInHDFS, checker: Checker,
        expected: ExpectedAnswers, seed: int,
    ) -> None:  # fmt: skip
        self._server, self._place, self._checker, self._expected = server, place, checker, expected
        self._copies = copies
        self._chance = random.Random(seed)
        self.kinds: dict[str, Callable[[], str]] = {
            "server killed": self._kill,
            "server stopped": self._stop,
            "version damaged": self._damage,
            "base_path gone": self._take_away,
            "version rolled back": self._roll_back,
            "HDFS gone": self._take_namenode,
        }
        if place.is_own:
            self.kinds["disk full"] = self._fill
        if server.group is not None:
            self.kinds["memory short"] = self._bound_memory
        self.done: list[Fault] = []

    def run(self, seconds: float, check: Callable[[], None]) -> None:
        """`check` raises where something has ended that goes on by itself."""
        began, waiting = time.time(), list[str]()
        while True:
            pause = time.time() + self._chance.uniform(*_PAUSE_S)
            while time.time() < pause:
                check()
                time.sleep(1.0)
                if time.time() - began > seconds:
                    return
            waiting = waiting or self._chance.sample(list(self.kinds), len(self.kinds))
            self._bring_about(waiting.pop())

    def _bring_about(self, kind: str) -> None:
        began = time.time()
        note = self.kinds[kind]()
        lifted = time.time()
        while not self._checker.is_answered_since(lifted) and time.time() - lifted < BACK_S:
            time.sleep(_POLL_S)
        self.done.append(Fault(kind, began, lifted, time.time(), note))
        print(f"{time.strftime('%H:%M:%S', time.gmtime(began))} {kind}: {note}", flush=True)

    def _hold(self, low: float, high: float) -> str:
        seconds = self._chance.uniform(low, high)
        time.sleep(seconds)
        return f"for {seconds:.0f} s"

    def _kill(self) -> str:
        os.kill(self._server.pid, signal.SIGKILL)
        return f"process {self._server.pid}"

    def _stop(self) -> str:
        pid = self._server.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            return self._hold(1.0, 8.0)
        finally:
            os.kill(pid, signal.SIGCONT)

    def _take_away(self) -> str:
        self._place.take_away()
        try:
            return self._hold(3.0, 25.0)
        finally:
            self._place.bring_back()

    def _take_namenode(self) -> str:
        if self._chance.random() < 0.5:
            self._copies.pause()
            try:
                return f"NameNode stopped {self._hold(5.0, 40.0)}"
            finally:
                self._copies.go_on()
        self._copies.kill()
        try:
            return f"NameNode killed {self._hold(1.0, 20.0)}, then started"
        finally:
            self._copies.start_again()

    def _fill(self) -> str:
        self._place.fill()
        try:
            return self._hold(20.0, 40.0)
        finally:
            self._place.empty()

    def _bound_memory(self) -> str:
        """A little more than the process has of its own: files are read again and again, a version may be too much."""
        group = self._server.group
        assert group is not None
        pid, limit = self._server.pid, group / "memory.limit_in_bytes"
        words = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        bound = int(words["total_rss"]) + (self._chance.randrange(4, 64) << 20)
        with suppress(OSError):  # the kernel refuses a bound below what it cannot take back
            limit.write_text(str(bound))
        is_bound = int(limit.read_text()) < bound + (1 << 20)
        try:
            held = self._hold(15.0, 40.0)
        finally:
            limit.write_text("-1")
        how = f"{bound >> 20} MiB {held}" if is_bound else "refused by the kernel"
        return how + ("" if self._server.pid == pid else ", the kernel ended the process")

    def _damage(self) -> str:
        """A copy of the newest version with a damaged file, put there at once as the next version; an operator takes it
        away after a while."""
        newest = self._place.numbers()[-1]
        beside, target = self._place.base_path / ".damaged", self._place.base_path / str(newest + 1)
        shutil.rmtree(beside, ignore_errors=True)
        try:
            shutil.copytree(self._place.base_path / str(newest), beside)
            how = self._damage_file(beside)
            beside.rename(target)
        except OSError as error:
            shutil.rmtree(beside, ignore_errors=True)
            return f"not done: {error}"
        self._hold(5.0, 25.0)
        shutil.rmtree(target)
        return f"{how} of {target.name}"

    def _damage_file(self, version: Path) -> str:
        files = [*version.glob("assets/*.rows"), *version.glob("variables/*"), version / "saved_model.pb"]
        file = self._chance.choice([each for each in files if each.stat().st_size > _DAMAGED_BYTES])
        size = file.stat().st_size
        at = self._chance.randrange(size - _DAMAGED_BYTES)
        # The graph has no checksum: a SavedModel with other operations in it is another model.
        if file.name == "saved_model.pb" or self._chance.random() < 0.5:
            os.truncate(file, at)
            return f"{file.name} cut off at {at:,} of {size:,}"
        with file.open("r+b") as changed:
            changed.seek(at)
            before = changed.read(_DAMAGED_BYTES)
            changed.seek(at)
            changed.write(bytes(byte ^ 0xFF for byte in before))
        return f"{file.name} changed at {at:,} of {size:,}"

    def _roll_back(self) -> str:
        """Delete the newest version while it is served, and see the one before it answer."""
        deadline = time.time() + 30
        while time.time() < deadline:
            newest = self._place.numbers()[-1]
            if self._checker.newest_version() == newest and newest in self._expected.found():
                break
            time.sleep(0.2)
        else:
            return "not done: the newest version was not served"
        gone = self._place.base_path / ".rolled-back"
        (self._place.base_path / str(newest)).rename(gone)
        shutil.rmtree(gone)
        deadline = time.time() + 10
        while self._checker.newest_version() == newest and time.time() < deadline:
            time.sleep(_POLL_S)
        with suppress(IndexError):
            return f"{newest} deleted, {self._checker.newest_version()} answered then"
        return f"{newest} deleted"
