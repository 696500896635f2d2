"""Telemetry of the server itself, in Prometheus' text format."""

import time
from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Summary, generate_latest

from afo_history_server.model.job_history import STATES

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Telemetry:
    """Numbers of one server. Safe for threads."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._jobs = Gauge("afo_history_jobs", "Jobs by state at the last scan.", ["state"], registry=self._registry)
        self._scan = Summary("afo_history_scan_seconds", "Time taken to list all jobs.", registry=self._registry)
        self._errors = Counter(
            "afo_history_parse_errors", "Lines and files of jobs that could not be understood.", registry=self._registry
        )

    @contextmanager
    def scan(self) -> Iterator[None]:
        """Time a scan, failed ones too."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self._scan.observe(time.monotonic() - begun)

    def count_jobs(self, states: Iterable[str]) -> None:
        """The states of all jobs, one for each."""
        self._jobs.clear()
        for state, number in Tally(states).items():
            self._jobs.labels(state=_state_label(state)).inc(number)

    def count_errors(self, number: int) -> None:
        """More things that could not be understood."""
        self._errors.inc(number)

    def text(self) -> bytes:
        """All numbers."""
        return generate_latest(self._registry)


def _state_label(state: str) -> str:
    # A label is for ever: a damaged log must not make one for each of its words.
    return state if state in STATES else "other"
