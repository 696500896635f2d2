"""What the soak of serving makes of its observations: which fault explains a failed request, and what does not hold."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from serving_soak import checker, expected, faults, report, server

    return SimpleNamespace(
        Answer=checker.Answer, Verified=checker.Verified, verify=checker.verify, Expected=expected.Expected,
        Fault=faults.Fault, Sample=server.Sample, Seen=report.Seen, Soak=report.Soak, report=report,
    )  # fmt: skip


def test_a_failed_request_is_explained_by_a_fault_that_it_overlaps_with(soak: Any) -> None:
    faults = [soak.Fault("version damaged", 100.0, 110.0, 110.1), soak.Fault("server killed", 200.0, 200.0, 203.0)]
    answers = {
        "ghz": [
            soak.Answer(10.0, 10.1, ""),
            soak.Answer(50.0, 50.1, "Unavailable"),
            soak.Answer(105.0, 105.1, "Unavailable"),
            soak.Answer(199.0, 200.2, "Unavailable"),
            soak.Answer(207.5, 207.6, "Unavailable"),
            soak.Answer(208.5, 208.6, "Unavailable"),
        ]
    }
    failed = soak.report.attribute(answers, faults)
    assert {kind: dict(codes) for kind, codes in failed.explained.items()} == {
        "version damaged": {"ghz: Unavailable": 1},
        "server killed": {"ghz: Unavailable": 2},
    }
    assert [answer.began for _, answer in failed.unexplained] == [50.0, 208.5]


def test_an_answer_is_held_against_its_own_version(soak: Any) -> None:
    def seen(*scores: float) -> bytes:
        return np.array(scores, np.float32).tobytes()

    answered = {
        1: Counter({seen(0.5, 0.25): 3, seen(0.5, 0.2500011): 2, seen(0.5, 0.25001): 1}),
        2: Counter({seen(0.5): 1, seen(np.nan, 0.25): 1}),
        3: Counter({seen(0.5, 0.25): 4}),
        4: Counter({seen(0.5, 0.25): 5}),
    }
    expected = {1: soak.Expected(1, [0.5, 0.25]), 2: soak.Expected(2, [0.5, 0.25])}
    expected[3] = soak.Expected(3, error="cut off")
    found = soak.verify(answered, expected)
    assert (found.right, len(found.wrong), found.unknown) == (5, 3, 5)
    assert found.of_unloadable == ["4 answers of 3: cut off"]


def test_what_does_not_hold_is_said(soak: Any) -> None:
    samples = [soak.Sample(5.0 * n, 1, 300.0 + 0.1 * n, 50, 14) for n in range(700)]
    answers = [soak.Answer(float(n), n + 0.1, "", 7) for n in range(300)]
    held = soak.Seen(answers, soak.Verified(10, [], [], 0), samples, 0)
    seen = soak.Soak(
        seconds=3600.0, faults=[soak.Fault("disk full", 100.0, 130.0, 130.1)], broken=held, of_hdfs=held,
        load={"ghz": answers}, expected={7: soak.Expected(7, [0.5], 0.0)}, given_up=Counter(NotFound=2), exported=1,
        missing=(),
    )  # fmt: skip
    assert soak.report.problems(seen) == []
    assert "All of it holds" in soak.report.page(seen, "Nobody asks")
    refused = [soak.Answer(101.0, 101.1, "NotFound"), soak.Answer(250.0, 250.1, "Internal")]
    grown = [each._replace(mib=300.0 + each.at / 10, pid=1 + (each.at > 3000)) for each in samples]
    bad = seen._replace(
        broken=held._replace(answers=[*answers, *refused], verified=soak.Verified(10, ["0.4 and not 0.5"], [], 0)),
        of_hdfs=soak.Seen(
            [*answers, soak.Answer(110.0, 115.0, "DEADLINE_EXCEEDED")], soak.Verified(0, [], ["of 8: cut off"], 0),
            grown, 0,
        ),
    )  # fmt: skip
    said = "\n".join(soak.report.problems(bad))
    for words in (
        "0.4 and not 0.5",
        "of 8: cut off",
        "code='Internal'",
        "disk full: 1 requests failed",
        "of HDFS: Answer(began=110.0",
        "no answer was compared",
        "the server of HDFS has ended",
        "memory grows",
    ):
        assert words in said
    assert "It does not hold" in soak.report.page(bad, "Nobody asks")
