"""Waiting for markers: which ones, how long, and what is said meanwhile."""

from collections.abc import Callable
from pathlib import Path

import pytest

from afo.data.prepare import markers
from afo.data.prepare.markers import await_markers, missing_markers
from afo.errors import ClusterUnreachable, NotFound
from afo.formats.units import Duration
from afo.job import Data

HOUR = Duration(3600)


class Clock:
    """Time that passes by sleeping alone; `then` happens during the n-th sleep."""

    def __init__(self, **then: Callable[[], object]) -> None:
        self.seconds = 0.0
        self.sleeps = 0
        self._then = then

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.seconds += seconds
        self.sleeps += 1
        self._then.get(f"sleep{self.sleeps}", lambda: None)()


def wait(data: Data, clock: Clock, limit: Duration = HOUR) -> list[str]:
    told: list[str] = []
    await_markers(data, limit, told.append, clock.now, clock.sleep)
    return told


def put(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_a_directory_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    data = Data(train=(f"{tmp_path}/dt=1/part-*",), eval=(f"{tmp_path}/eval/*",), wait_for="_SUCCESS")
    train, evaluation = tmp_path / "dt=1/_SUCCESS", tmp_path / "eval/_SUCCESS"
    assert missing_markers(data) == [str(train), str(evaluation)]
    clock = Clock(sleep2=lambda: put(train, tmp_path / "dt=1/part-0"), sleep4=lambda: put(evaluation))
    told = wait(data, clock)
    assert clock.sleeps == 4
    assert told == [
        f"waiting for {train}, {evaluation}, up to 1h in all (`timeouts.data`)",
        f"waiting for {evaluation}, up to 1h in all (`timeouts.data`)",
    ]


def test_of_several_directories_those_that_hold_files_need_the_marker(tmp_path: Path) -> None:
    data = Data(train=(f"{tmp_path}/dt={{1,2}}/h=*/part-*",), wait_for="_SUCCESS")
    assert missing_markers(data) == [f"{tmp_path}/dt={day}/h=*/part-*" for day in (1, 2)]
    put(tmp_path / "dt=1/h=0/part-0", tmp_path / "dt=1/h=0/_SUCCESS", tmp_path / "dt=2/h=0/part-0")
    put(tmp_path / "dt=2/h=1/other")
    assert missing_markers(data) == [f"{tmp_path}/dt=2/h=0/_SUCCESS"]
    put(tmp_path / "dt=2/h=0/_SUCCESS")
    assert missing_markers(data) == []


def test_the_wait_is_bounded_and_says_what_is_missing(tmp_path: Path) -> None:
    data = Data(train=tuple(f"{tmp_path}/{day}/*" for day in range(7)), wait_for="_DONE")
    clock = Clock()
    with pytest.raises(NotFound, match=rf"\$\.data\.wait_for: {tmp_path}/0/_DONE, .*/4/_DONE and 2 more not there "):
        wait(data, clock, Duration(100))
    assert clock.seconds == 100


def test_a_cluster_that_is_away_for_a_while_does_not_end_the_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Data(train=(f"{tmp_path}/a/*",), wait_for="_SUCCESS")
    look = markers.missing_markers
    clock = Clock(sleep3=lambda: put(tmp_path / "a/_SUCCESS"))

    def away_once(data: Data) -> list[str]:
        if clock.sleeps == 1:
            raise ClusterUnreachable("no NameNode")
        return look(data)

    monkeypatch.setattr(markers, "missing_markers", away_once)
    assert [told for told in wait(data, clock) if "no NameNode" in told]
    assert clock.sleeps == 3


def test_a_cluster_that_cannot_be_reached_at_all_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(data: Data) -> list[str]:
        raise ClusterUnreachable("no NameNode")

    monkeypatch.setattr(markers, "missing_markers", away)
    clock = Clock()
    with pytest.raises(ClusterUnreachable):
        wait(Data(train=("hdfs://nowhere/a/*",), wait_for="_SUCCESS"), clock)
    assert clock.sleeps == 0


def test_without_a_marker_nothing_is_looked_at() -> None:
    assert wait(Data(train=("hdfs://nowhere/a/*",)), Clock()) == []
