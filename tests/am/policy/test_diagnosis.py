"""What is said of a task's end."""

import pytest
from msgspec import structs

from afo.failures.causes import CAUSES
from afo.formats.units import Memory
from afo.rpc.messages import ExitReport, TaskId, Usage
from afo_am.policy.lifecycle import message_of, without_frames

GIVEN = Memory(2048)
NOISE = "I0000 00:00:1795224228.030663 20140 port.cc:153] oneDNN custom operations are on.\n"


def report(code: int, cause: str, tail: str) -> ExitReport:
    return ExitReport(
        task=TaskId(role="worker", index=0, attempt=0), generation=1, code=code, cause=cause, tail=NOISE + tail
    )


def test_an_exception_says_more_than_its_cause() -> None:
    line = "afo.errors.DataError: part-2: the record at offset 5 is damaged"
    assert message_of(report(1, "data_error", f"{line}\nW0000 after it\n"), GIVEN) == line
    assert len(message_of(report(1, "user_exception", f"ValueError: {'x' * 10_000}"), GIVEN)) == 500


@pytest.mark.parametrize(("code", "tail"), [(-9, "ValueError: caught long before"), (1, "no exception here")])
def test_without_one_the_cause_is_explained(code: int, tail: str) -> None:
    assert message_of(report(code, "killed_by_signal", tail), GIVEN) == CAUSES["killed_by_signal"].summary


def test_a_lack_of_memory_is_told_with_its_peak() -> None:
    killed = structs.replace(report(-9, "out_of_memory", ""), usage=Usage(peak_rss=2043 * 2**20))
    assert message_of(killed, GIVEN) == "The task needed more memory than it was given: it used 2,043 MiB of 2 GiB"


CHANGED = """[2026-11-21 18:40:43.809]Resource hdfs://nn:9000/x.json changed on src filesystem - expected: "1", was: "2"
java.io.IOException: Resource hdfs://nn:9000/x.json changed on src filesystem - expected: "1", was: "2"
\tat org.apache.hadoop.yarn.util.FSDownload.verifyAndCopy(FSDownload.java:290)
\tat org.apache.hadoop.yarn.util.FSDownload.call(FSDownload.java:430)
Caused by: java.io.IOException: x
\t... 14 more
"""


def test_where_in_yarns_code_is_not_told() -> None:
    said = without_frames(CHANGED)
    assert said.splitlines() == [line for line in CHANGED.splitlines() if not line.startswith("\t")]
