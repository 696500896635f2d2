"""`afo serving`, against servers that a test plays on Unix sockets and ports."""

import json
from pathlib import Path

import pytest

from afo.model_servers.control_client import ModelServerClient
from afo_client.cli import serving
from afo_client.cli.main import run
from played_model_server import CTR, ENDLESS, OLDER, VERSION, Played, on_port, on_socket


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this user's sockets; the working directory, for their paths have few bytes."""
    folder = tmp_path / "servers"
    folder.mkdir()
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path))
    monkeypatch.chdir(folder)
    return folder


def test_a_line_for_each_version(servers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with on_socket(Played(CTR)), on_socket(Played({"name": "empty"}, name="other"), "other"):
        assert run(["serving", "ls"]) == 0
    head, first, second, empty = capsys.readouterr().out.splitlines()
    assert " ".join(head.split()) == "SERVER MODEL VERSION STATE STEP AGE LAYERS SHARED QPS P50 P99 CORE-MS"
    assert first.startswith("default  ctr    4        AVAILABLE, pinned  1200  ")
    assert first.endswith("  3       1.0 MiB  12.5  1.25  4.50  0.75")
    assert second.split() == ["default", "ctr", "3", "END", "0.0"]
    assert empty.split() == ["other", "empty"]


def test_a_rejected_version_and_a_pin_that_is_gone(servers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rejected = [{"version": 3, "at": 1, "reason": "slow"}]
    with on_socket(Played(CTR | {"pinned_version": 5, "canary": None, "rejected": rejected})):
        assert run(["serving", "ls"]) == 0
        _, first, second = capsys.readouterr().out.splitlines()
        assert run(["serving", "status", "ctr"]) == 0
    assert " AVAILABLE, serving " in first
    assert " END, REJECTED " in second
    assert "  serving version 4; version 5 is pinned, and is not there\n" in capsys.readouterr().out


def test_of_a_server_that_does_not_answer_nothing_is_known(servers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = Played(CTR, name="broken")
    broken.body = b"<html>"
    with on_socket(Played({"name": "cvr"})), on_socket(broken, "broken"):
        assert run(["serving", "rollback", "ctr"]) == 6
    assert "a model ctr is served is not known: a server did not answer; of the others there is cvr" in (
        capsys.readouterr().err
    )


def test_json_is_what_the_servers_say(servers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with on_socket(Played(CTR)):
        assert run(["serving", "ls", "--json"]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    [server] = json.loads(text)["servers"]
    assert (server["name"], server["models"][0]["versions"][0]["step"]) == ("default", 1200)
    assert server["models"][0]["versions"][1]["p99_ms"] is None


def test_status_is_all_of_a_model_and_nothing_that_steers_a_terminal(
    servers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with on_socket(Played(CTR, {"name": "cvr"})):
        assert run(["serving", "status", "ctr"]) == 0
        text = capsys.readouterr().out
        assert run(["serving", "status", "none"]) == 5
        assert "no model none is served; there is ctr, cvr" in capsys.readouterr().err
    assert "\x1b" not in text
    assert "\x07" not in text
    for line in (
        "ctr on default (process 7), hdfs://ns/ctr",
        "  serving version 4, pinned",
        "  split: stable 90%",
        "  mirror: next 1%, 3 requests, 2 dropped, 1 errors",
        "  rejected: version 2 at 1970-01-01T00:00:01.000Z: too slow",
        "version 3: it is damaged serving nothing",
    ):
        assert line in text.splitlines()
    assert "cvr" not in text
    assert "  canary: version 5, 5% for " in text


def test_status_says_why_the_newest_version_is_not_live(servers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    canary = {
        "version": 5, "traffic_percent": 5, "since": 1, "requests": 7, "duration_seconds": 600, "min_requests": 200,
        "waits": "the canary has\nanswered 7",
    }  # fmt: skip
    newest = {"version": 6, "state": "WAITING", "message": "the canary of version 5 is under way"}
    with on_socket(Played(CTR | {"canary": canary, "waiting": 3, "versions": [newest, VERSION]})):
        assert run(["serving", "ls"]) == 0
        assert capsys.readouterr().out.splitlines()[1].split() == ["default", "ctr", "6", "WAITING", "0.0"]
        assert run(["serving", "status", "ctr"]) == 0
    text = capsys.readouterr().out
    assert " of 10 min 0 s, 7 requests of at least 200; it waits: the canary has answered 7\n" in text
    assert "\n2 more versions wait\n" in text
    assert text.endswith("version 6: the canary of version 5 is under way\n")


def test_promote_and_rollback_ask_the_server_that_has_the_model(
    servers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with on_socket(Played({"name": "cvr"}, name="other"), "other") as other, on_socket(Played(CTR)) as played:
        assert run(["serving", "rollback", "ctr:3"]) == 0
        assert capsys.readouterr().out == "ctr: version 3 answers, pinned, beside the canary of version 5\n"
        assert run(["serving", "promote", "ctr", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["model"]["serving_version"] == 3
        assert played.asked[1::2] == [("/v1/models/ctr:rollback", {"version": 3}), ("/v1/models/ctr:promote", {})]
        assert run(["serving", "promote", "ctr", "--full"]) == 0
        assert played.asked[-1] == ("/v1/models/ctr:promote", {"full": True})
        assert "cannot be loaded" not in capsys.readouterr().out
        played.passed_over = [{"version": 6, "reason": "it is\ndamaged"}, {"version": 5, "reason": "x" * 600}]
        assert run(["serving", "promote", "ctr"]) == 0
        _, first, second = capsys.readouterr().out.splitlines()
        assert first == "version 6 cannot be loaded, and was passed over: it is damaged"
        assert second == f"version 5 cannot be loaded, and was passed over: {'x' * 500}…"
        assert run(["serving", "promote", "ctr:3", "--full"]) == 2
        assert "ctr:3 names a version, which takes all requests at once" in capsys.readouterr().err
        played.status = 409
        assert run(["serving", "rollback", "ctr:9"]) == 1
        refused = capsys.readouterr().err
        assert "default.sock says: no version 9 is there" in refused
        assert "\x1b[2J" not in refused
        assert run(["serving", "rollback", "ctr:0"]) == 2
        other.state["models"].append(CTR)
        assert run(["serving", "rollback", "ctr"]) == 2
        assert "ctr is served by default, other; say which one is meant: --name NAME" in capsys.readouterr().err
        assert run(["serving", "rollback", "ctr", "--name", "other"]) == 0
    assert other.asked[-1] == ("/v1/models/ctr:rollback", {})


def test_a_socket_of_a_server_that_has_ended_is_passed_over(servers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with on_socket(Played(CTR), "ended"):
        pass
    assert run(["serving", "ls"]) == 5
    assert "no model server of yours runs here; `afo serve` starts one" in capsys.readouterr().err
    with on_socket(Played(CTR)):
        assert run(["serving", "ls"]) == 0
    assert capsys.readouterr().err == ""


def test_a_server_elsewhere_gets_a_token_that_is_nobody_elses(
    servers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token"
    token.write_text("correct-horse\n")
    with on_port(played := Played(CTR)) as url:
        arguments = ["serving", "ls", "--server", url, "--token-file", str(token)]
        assert run(arguments) == 4
        assert f"chmod 600 {token}" in capsys.readouterr().err
        token.chmod(0o600)
        assert run(arguments) == 0
        assert played.asked == [("/v1/models", "Bearer correct-horse")]
        token.write_text("ranking correct-horse\n")
        assert run(arguments) == 2
        played.body = b"<html>"
        capsys.readouterr()
        assert run(["serving", "ls", "--server", url]) == 3
    assert "no answer of a model server that this version of afo understands" in capsys.readouterr().err
    assert run(["serving", "ls", "--server", url]) == 6


@pytest.mark.parametrize("endless", ENDLESS)
def test_an_answer_without_an_end_is_late(
    servers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], endless: str
) -> None:
    monkeypatch.setattr(serving, "_LOOK_S", 0.2)
    (played := Played(CTR)).endless = endless
    with on_port(played) as url:
        assert run(["serving", "ls", "--server", url]) == 6
    shown = capsys.readouterr().err
    assert f"the model server at {url} does not answer: " in shown
    assert "its answer is late" in shown or "timed out" in shown


def test_of_long_texts_the_beginnings_are_shown(servers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 100_000
    model = CTR | {
        "base_path": long, "rejected": [{"version": 2, "reason": long}], "mirror": {"label": long},
        "versions": [OLDER | {"state": long, "message": long}],
    }  # fmt: skip
    with on_socket(played := Played(model, {"name": long}, name=long)):
        for arguments in (["ls"], ["ls", "--json"], ["status", "ctr"], ["status", "none"]):
            run(["serving", *arguments])
            shown = "".join(capsys.readouterr())
            assert "x" * 400 in shown
            assert "x" * 501 not in shown
        played.status, played.error = 409, long
        assert run(["serving", "rollback", "ctr:9"]) == 1
        assert f"says: {'x' * 500}…\n" in capsys.readouterr().err
        played.state["models"] = [CTR | {"split": {long: 1}}]
        assert run(["serving", "ls"]) == 3
        assert len(capsys.readouterr().err) < 1000
        played.state["models"] = [{"name": "many", "versions": [{"version": 1}] * 20_001}]
        assert run(["serving", "ls"]) == 1
        assert "lists 20,001 versions; at most 20,000 are shown" in capsys.readouterr().err


def test_a_thousand_models_of_sixteen_versions_are_an_answer(servers: Path) -> None:
    version = VERSION | {
        "newest_gradient": 1764422400.123456, "loaded_at": 1764422400.123456, "requests": 10**12,
        "requests_per_second": 12345.678901234567, "p50_ms": 1.2345678901234567, "p99_ms": 4.567890123456789,
        "core_ms": 0.7512345678901234, "table_bytes": 10**12, "shared_table_bytes": 10**12,
    }  # fmt: skip
    models = [CTR | {"name": f"model-{number}", "versions": [version] * 16} for number in range(1000)]
    with on_socket(Played(*models)):
        assert len(ModelServerClient(str(servers / "default.sock")).state(30.0).models) == 1000


def test_an_answer_larger_than_any_is_refused(servers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (played := Played(CTR)).body = b" " * (9 << 20)
    with on_port(played) as url:
        assert run(["serving", "ls", "--server", url]) == 6
    assert "does not answer: its answer has over 8 MiB" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--server", "ftp://x"], 2), (["--server", "http://u@x:1"], 2), (["--server", "http://x:99999"], 2),
        (["--server", "http://x:1", "--name", "a"], 2), (["--token-file", "x"], 2), (["--name", "../x"], 2),
        (["--name", "x"], 5),
    ],
)  # fmt: skip
def test_a_command_line_that_is_wrong_is_refused(servers: Path, arguments: list[str], code: int) -> None:
    assert run(["serving", "ls", *arguments]) == code
