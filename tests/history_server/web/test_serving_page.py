"""The models that the site's model servers serve, and the servings of a job's model."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from afo.site.history import HistorySite
from afo_history_server.web import serving
from afo_history_server.web.serving import LiveServers
from job_writer import DONE, JobWriter
from pages import text, words
from played_model_server import CTR, MOST_SAID, VERSION, Played, on_port

Serve = Callable[..., FlaskClient]


def test_versions_with_their_ages_and_servers_that_do_not_answer(serve: Serve) -> None:
    hostile = CTR | {"name": "<b>ctr\x1b", "versions": [VERSION | {"message": "<script>"}]}
    with socket.create_server(("127.0.0.1", 0)) as silent, on_port(Played(hostile)) as url:
        hung = f"http://127.0.0.1:{silent.getsockname()[1]}"
        page = text(serve(model_servers=(url, hung)), "/serving")
    shown = words(page)
    assert "<script>" not in page.partition("<main>")[2]
    assert "<b>" not in page
    assert "\x1b" not in page
    assert "&lt;b&gt;ctr" in shown
    assert "4 AVAILABLE pinned &lt;script&gt; 1,200" in shown
    assert "1.0 MiB 12.5 1.2500 4.5000 0.7500" in shown
    assert f"{hung} No answer:" in shown


def test_versions_that_wait_and_what_a_canary_waits_for(serve: Serve) -> None:
    canary = {"version": 4, "traffic_percent": 5, "waits": "too few <requests>"}
    newest = {"version": 6, "state": "WAITING", "message": "the canary of version 4 is under way"}
    with on_port(Played(CTR | {"canary": canary, "waiting": 3, "versions": [newest, VERSION]})) as url:
        page = text(serve(model_servers=(url,)), "/serving")
    shown = words(page)
    assert "6 WAITING the canary of version 4 is under way" in shown
    assert "4 AVAILABLE canary 5 % too few &lt;requests&gt;" in shown
    assert "2 more versions wait" in shown
    assert '<span class="bad">WAITING' not in page


def test_long_texts_make_no_long_page(serve: Serve) -> None:
    long = "x" * 5000
    versions = [VERSION | {"state": long, "message": long}] * 16
    model = CTR | {"name": long, "base_path": long, "versions": versions}
    with on_port(Played(*[model] * 10, name=long)) as url:
        page = text(serve(model_servers=(url,)), "/serving")
    assert "x" * 501 not in page
    assert len(page) < 160 * 1500 + 10_000, "a row has a thousand characters and its marks"


def test_a_job_names_the_servings_of_its_model(serve: Serve, done: JobWriter) -> None:
    of_name = CTR | {"name": "feeds-ctr"}
    of_place = CTR | {"name": "there", "base_path": done.paths.export + "/"}
    with on_port(Played(CTR | {"base_path": "/other"}, of_name, of_place)) as url:
        client = serve(model_servers=(url,))
        shown = words(text(client, f"/jobs/{DONE}"))
    assert "Served as feeds-ctr by default: version 4, step 1,200, newest gradient" in shown
    assert "Served as there by default" in shown
    assert "Served as ctr by" not in shown


def test_a_site_without_model_servers_has_no_link_to_them(serve: Serve) -> None:
    client = serve()
    assert 'href="/serving"' not in text(client, "/")
    assert "The site names no model servers" in words(text(client, "/serving"))


def test_servers_are_asked_with_the_token_and_not_for_each_page(tmp_path: Path) -> None:
    token, clock = tmp_path / "token", [1000.0]
    token.write_text("correct-horse")
    token.chmod(0o600)
    models: list[dict[str, Any]] = [{"name": f"m{number}"} for number in range(201)]
    with on_port(played := Played(*models)) as url:
        site = HistorySite(model_servers=(url,), model_servers_token_file=str(token))
        servers = LiveServers(site, lambda: clock[0])
        [seen] = servers.now()
        assert (len(seen.state.models), seen.left_out) == (200, 1)
        servers.now()
        assert played.asked == [("/v1/models", "Bearer correct-horse")]
        clock[0] += serving.FRESH_S
        token.chmod(0o644)
        assert "others than you can read the token" in servers.now()[0].problem
        assert len(played.asked) == 1
        token.chmod(0o600)
        played.body = json.dumps({"models": "none"}).encode()
        clock[0] += serving.FRESH_S
        assert "no answer of a model server" in servers.now()[0].problem


def test_a_server_whose_answer_has_no_end_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "ANSWER_S", 0.1)
    monkeypatch.setattr(serving, "PATIENCE_S", 0.2)
    (played := Played(CTR)).endless, clock = "continue", [1000.0]
    with on_port(played) as url:
        servers = LiveServers(HistorySite(model_servers=(url,)), lambda: clock[0])
        assert servers.now()[0].problem
        servers._waiting[url].join()
        assert played.said < MOST_SAID // 2, "the client ended it"
        played.endless = ""
        clock[0] += serving.FRESH_S
        assert [model.name for model in servers.now()[0].state.models] == ["ctr"]


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`model_servers`: ranking:8501 is no address of a model server"):
        HistorySite(model_servers=("ranking:8501",))
