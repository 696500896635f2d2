"""The JVM of an ApplicationMaster, watched from outside by the process table and the JDK's own tools."""

import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil

_DEADLINE_S = 400.0

Numbers = dict[str, Any]


def until(condition: Callable[[], Any], what: str, every_s: float = 0.2) -> Any:
    """The first true value of a condition."""
    deadline = time.monotonic() + _DEADLINE_S
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {_DEADLINE_S:g} s: {what}")
        time.sleep(every_s)
    return value


class Master:
    """The JVM of an ApplicationMaster, watched from outside."""

    def __init__(self, main_class: str, application: str) -> None:
        self.process = until(lambda: self._find(main_class, application.removeprefix("application_")), main_class)
        self.peak_rss = 0
        threading.Thread(target=self._watch, daemon=True).start()

    @staticmethod
    def _find(main_class: str, number: str) -> psutil.Process | None:
        for process in psutil.process_iter(["name", "cmdline"]):
            java = process.info["name"] == "java" and main_class in (process.info["cmdline"] or ())
            if java and number in process.environ().get("CONTAINER_ID", ""):
                return process
        return None

    def _watch(self) -> None:
        try:
            while True:
                self.peak_rss = max(self.peak_rss, self.process.memory_info().rss)
                time.sleep(0.5)
        except psutil.NoSuchProcess:
            return

    def numbers(self) -> Numbers:
        """Memory in MB, seconds of CPU and of garbage collection so far; `live` is what a full collection leaves."""
        usage, memory = self.process.cpu_times(), self.process.memory_info().rss
        before = self._heap()
        subprocess.run(["jcmd", str(self.process.pid), "GC.run"], check=True, capture_output=True)
        return {"cpu_s": usage.user + usage.system, "rss_mb": memory / 1e6, "peak_rss_mb": self.peak_rss / 1e6,
                "heap_mb": before["used"], "gc_s": before["gc_s"], "live_mb": self._heap()["used"],
                "threads": self.process.num_threads()}  # fmt: skip

    def _heap(self) -> dict[str, float]:
        done = subprocess.run(["jstat", "-gc", str(self.process.pid)], check=True, capture_output=True, text=True)
        names, values = (line.split() for line in done.stdout.splitlines()[:2])
        now = {name: float(value) if value != "-" else 0.0 for name, value in zip(names, values, strict=True)}
        return {"used": sum(now[name] for name in ("S0U", "S1U", "EU", "OU")) / 1024, "gc_s": now["GCT"]}
