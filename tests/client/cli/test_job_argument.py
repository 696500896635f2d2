"""The job that is meant: the last one, the one that a shell completes, the one that is asked for before it ends."""

import contextlib
import io
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

from afo.site.user_state import UserState
from afo_client.cli.job_argument import confirm_action
from afo_client.cli.main import afo, run

OLD, NEW = "local_1_0001", "application_2_0002"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UserState:
    for name in ("AFO_CONF_DIR", "AFO_RUNTIME", "AFO_JOBS_ROOT", "HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path))
    state = UserState(tmp_path)
    state.keep_submission(OLD, b'{"job": {"name": "yesterday", "roles": {"ps": {"instances": 1}}}, "more": 1}')
    state.keep_submission(NEW, b'{"job": {"name": "today", "roles": {"worker": {"instances": {"min": 1, "max": 2}}}}}')
    state.remember_last(NEW)
    return state


def completed(*words: str) -> list[tuple[str, str | None]]:
    *before, last = words
    found = BashComplete(afo, {}, "afo", "_AFO_COMPLETE").get_completions(before, last)
    return [(item.value, item.help) for item in found]


@pytest.mark.parametrize("verb", ["status", "wait", "events", "logs", "kill", "queue", "explain", "compare"])
def test_jobs_are_completed_newest_first(verb: str) -> None:
    assert completed(verb, "")[:2] == [(NEW, "today"), (OLD, "yesterday")]
    assert completed(verb, "lo")[:1] == [(OLD, "yesterday")]


def test_tasks_and_causes_are_completed() -> None:
    assert completed("logs", "wor") == [("worker:0", None), ("worker:1", None)]
    assert completed("logs", OLD, "") == [("ps:0", None)]
    assert ("memory_limit") in [value for value, _ in completed("explain", "memory")]


def test_completion_is_silent_about_what_is_wrong(state: UserState, monkeypatch: pytest.MonkeyPatch) -> None:
    state.keep_submission(NEW, b"{torn")
    assert completed("status", "app") == [(NEW, "")]
    assert completed("logs", "../x", "") == []
    monkeypatch.setenv("AFO_CONF_DIR", "/nowhere")
    assert completed("status", "") == []


def test_a_kill_without_a_name_is_refused_without_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path))
    (tmp_path / NEW).mkdir()
    assert run(["kill"]) == 2
    words = capsys.readouterr().err
    assert f"kill {NEW}" in words
    assert "--yes" in words


class Keyboard(io.StringIO):
    """What somebody types on a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "meant"), [("y\n", True), ("\n", False), ("no\n", False), ("", False)])
def test_on_a_terminal_it_asks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str, meant: bool
) -> None:
    monkeypatch.setattr("sys.stdin", Keyboard(answer))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with contextlib.nullcontext() if meant else pytest.raises(click.Abort):
        confirm_action("kill x", named=False, yes=False)
    captured = capsys.readouterr()
    assert (captured.out, "kill x? [y/N]" in captured.err) == ("", True)
