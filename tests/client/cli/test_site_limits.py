"""Defaults and limits of a site: every command that starts or checks a job keeps to them."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from afo.errors import SpecError
from afo.formats import units
from afo.job import Job
from afo.site.config import load_config
from afo_client import api
from afo_client.cli.main import run
from fake_runtime import small_job, use_fake_runtime

LIMITS = """limits:
  tags:
    team: [ads-*, search]
    owner: []
  forbidden_queues: [default, root.prod.*]
  roles:
    ps: {instances: 4, memory: 8g}
    worker: {vcores: 4, gpus: 1}
  job: {containers: 10, memory: 40g, vcores: 20, gpus: 2, timeout: 2d}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = small_job(tmp_path, monkeypatch)
    (tmp_path / "conf").mkdir()
    monkeypatch.setenv("AFO_CONF_DIR", str(tmp_path / "conf"))
    return folder


def check(given: Job) -> None:
    config = load_config()
    config.limits.check(given, config.site)


def site(folder: Path, text: str) -> Path:
    file = folder / "conf" / "afo-site.yaml"
    file.write_text(text)
    return file


def job(**changes: Any) -> Job:
    """One that the limits allow."""
    data = {
        "name": "n",
        "queue": "root.ads",
        "tags": {"team": "ads-ctr", "owner": "ann"},
        "roles": {"ps": {"instances": 2}, "worker": {"instances": 2}},
        "data": {"train": ["x"]},
        "timeouts": {"job": "1d"},
    }
    return msgspec.convert({**data, **changes}, Job, dec_hook=units.parse_quantity)


@pytest.mark.parametrize(
    ("changes", "message", "line", "limit"),
    [
        ({"tags": {"owner": "a"}}, r"\$\.tags\.team: a job needs the tag `team`; add it \(allowed: ads-\*, search\)",
         3, "tags.team"),
        ({"tags": {"owner": "a", "team": "feed"}}, r"\$\.tags\.team: 'feed' is not allowed", 3, "tags.team"),
        ({"tags": {"owner": "", "team": "search"}}, r"\$\.tags\.owner: .*allowed: any text", 4, "tags.owner"),
        ({"queue": "default"}, r"\$\.queue: 'default' is forbidden", 5, r"forbidden_queues\[0\]"),
        ({"queue": "root.default"}, r"\$\.queue: 'root.default' is forbidden", 5, r"forbidden_queues\[0\]"),
        ({"queue": "prod.night"}, r"\$\.queue: 'prod.night' is forbidden", 5, r"forbidden_queues\[1\]"),
        ({"roles": {"ps": {"instances": 5}, "worker": {}}}, r"\$\.roles\.ps\.instances: 5 is more than the 4 allowed",
         7, "roles.ps.instances"),
        ({"roles": {"ps": {"memory": "9g"}, "worker": {}}}, r"\$\.roles\.ps\.memory: 9 GiB is more than the 8 GiB",
         7, "roles.ps.memory"),
        ({"roles": {"ps": {}, "worker": {"gpus": 2}}}, r"\$\.roles\.worker\.gpus: 2 is more", 8, "roles.worker.gpus"),
        ({"roles": {"ps": {}, "worker": {"instances": {"min": 1, "max": 9}}}},
         r"\$\.roles: containers in all: 11 asked for, 10 allowed", 9, "job.containers"),
        ({"roles": {"ps": {}, "worker": {"instances": 8, "memory": "5g"}}},
         r"\$\.roles: memory in all: 43 GiB asked for, 40 GiB allowed", 9, "job.memory"),
        ({"roles": {"ps": {}, "worker": {"instances": 3, "gpus": 1}}}, r"gpus in all: 3 asked for, 2", 9, "job.gpus"),
        ({"roles": {"ps": {}, "worker": {"instances": 5, "vcores": 4}}}, r"vcores in all: 22 asked", 9, "job.vcores"),
        ({"timeouts": {"job": "3d"}}, r"\$\.timeouts\.job: 3d is more than the 2d allowed", 9, "job.timeout"),
    ],
)  # fmt: skip
def test_limits(folder: Path, changes: dict[str, Any], message: str, line: int, limit: str) -> None:
    file = site(folder, LIMITS)
    with pytest.raises(SpecError, match=rf"{message}.*; so says {file}:{line}, \$\.limits\.{limit}$"):
        check(job(**changes))


@pytest.mark.parametrize(
    "changes",
    [{}, {"queue": "root.ads.default2"}, {"queue": "production"}, {"roles": {"ps": {"instances": 4}, "worker": {}}}],
)
def test_what_keeps_to_them(folder: Path, changes: dict[str, Any]) -> None:
    site(folder, LIMITS)
    check(job(**changes))
    site(folder, "runtime: local\n")
    check(job(queue="default", tags={}))


def test_nothing_is_started_that_the_site_does_not_allow(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site(folder, "limits: {tags: {team: []}}\n")
    fake = use_fake_runtime(monkeypatch, "SUCCEEDED")
    given = [str(folder / "job.yaml"), "--runtime", "local", "--var", "dt=2026-01-02"]
    for verb in (["submit"], ["submit", "--dry-run"], ["validate"]):
        assert run([*verb, *given]) == 3
        assert "$.tags.team: a job needs the tag `team`" in capsys.readouterr().err
    with pytest.raises(SpecError, match="needs the tag"):
        api.submit(folder / "job.yaml", runtime="local", variables={"dt": "2026-01-02"})
    assert fake.submitted == []
    assert run(["submit", *given, "--set", "tags.team=ads"]) == 0
    assert len(fake.submitted) == 1


def test_defaults_of_the_site_hold_and_are_shown(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = site(folder, "defaults:\n  queue: ads\n  tags: {team: ads}\nlimits: {tags: {team: [ads]}}\n")
    given = [str(folder / "job.yaml"), "--runtime", "local", "--var", "dt=2026-01-02"]
    assert run(["submit", *given, "--dry-run"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["inherited"] == {"queue": f"{file}:2", "tags": f"{file}:3"}
    assert shown["submission"]["am_config"]["job"]["queue"] == "ads"
    assert run(["validate", "--no-trial", *given]) == 0
    assert f"  queue: {file}:2\n" in capsys.readouterr().out
    assert run(["config", "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)["config"]
    assert fields["defaults.tags.team"] == {"value": "ads", "origin": f"{file}:3"}
    assert fields["limits.tags.team"] == {"value": '["ads"]', "origin": f"{file}:4"}
    fake = use_fake_runtime(monkeypatch, "SUCCEEDED")
    api.submit(folder / "job.yaml", runtime="local", variables={"dt": "2026-01-02"})
    assert fake.submitted[0][0].job.tags == {"team": "ads"}


@pytest.mark.parametrize("page", ["docs/site-policy.md", "conf/afo-site.yaml"])
def test_the_examples_of_the_pages_hold(folder: Path, page: str) -> None:
    text = (Path(__file__).parents[3] / page).read_text()
    if page.endswith(".md"):
        text = "".join(re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S))
    else:
        text = re.sub(r"^# (?=( |defaults:|limits:))", "", text, flags=re.M)
    site(folder, text)
    config = load_config()
    assert config.limits.job.timeout == 3 * 86400
    assert config.limits.roles["ps"].gpus == 0
    assert config.defaults is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("limits: {role: {}}", r"afo-site\.yaml:1: \$\.limits\.role: unknown key `role`; did you mean `roles`"),
        ("limits:\n  roles:\n    ps: {memory: much}", r"afo-site\.yaml:3: \$\.limits\.roles\.ps\.memory: 'much'"),
        ("defaults: {name: x}", "cannot have the key `name`; each job says that itself"),
        ("defaults: {defaults: x.yaml}", "cannot have the key `defaults`"),
        ("defaults: [a]", r"\$\.defaults: a list does not fit"),
    ],
)
def test_a_site_file_that_is_wrong(folder: Path, text: str, message: str) -> None:
    site(folder, text)
    with pytest.raises(SpecError, match=message):
        load_config()
