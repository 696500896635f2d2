"""The calls of the protocol, without a connection."""

from typing import Any

import pytest

from afo.rpc import master
from afo.rpc import messages as m
from afo.rpc.master import Master


def test_an_end_that_is_told_late_says_how_long_ago_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    now, tries = [100.0], []

    class Client:
        """Reaches somebody with the third try, 20 s later."""

        def call(self, method: str, request: Any) -> m.Message:
            for _ in range(3):
                tries.append((method, request().idle_s))
                now[0] += 10
            return m.ExitReply()

    monkeypatch.setattr(master, "time", type("Time", (), {"monotonic": staticmethod(lambda: now[0])}))
    client: Any = Client()
    task = m.TaskId(role="worker", index=0, attempt=0)
    report = m.ExitReport(task=task, generation=1, code=1, cause="failed", tail="", idle_s=0.5)
    Master(client).report_exit(report)
    assert tries == [("ReportExit", 0.5), ("ReportExit", 10.5), ("ReportExit", 20.5)]
