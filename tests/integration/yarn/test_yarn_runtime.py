"""The yarn runtime inside real applications, with sleeping containers in place of Children."""

import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from afo import __version__, storage
from afo.errors import SpecError
from afo.formats import units
from afo.job import Job
from afo.protocol.am_config import AmConfig
from afo.site.config import user_name
from afo.yarn.resource_manager import Application, from_configuration
from afo.yarn.submission import PRIVATE, application_spec
from afo_client.hadoop import Cluster
from afo_client.runtimes.yarn import skein_driver
from afo_client.runtimes.yarn.preflight import check
from afo_client.runtimes.yarn.staging import cache_url, stage
from afo_client.runtimes.yarn.yarn_jobs import YarnJobs, make_plan, private_files
from remote_runtime import RemoteRuntime

pytestmark = pytest.mark.hadoop

SCHEMA = "features: {}\n"
SECRET = "5e" * 32
PROBE = Path(__file__).parents[2] / "support" / "remote_runtime.py"
#: Stands in for the Child: notes what it sees, then does what the request's environment says.
CONTAINER = """
env > "$AFO_TEST_DIR/$CONTAINER_ID.env"
stat -L -c %a afo-secret > "$AFO_TEST_DIR/$CONTAINER_ID.mode"
cp child-config.json "$AFO_TEST_DIR/$CONTAINER_ID.config"
touch "$AFO_TEST_DIR/$CONTAINER_ID.up"
[ -z "$AFO_TEST_EXIT" ] || exit $AFO_TEST_EXIT
exec sleep 987
"""


def until(condition: Callable[[], object], seconds: float = 180.0) -> None:
    """Wait for a condition; fail when it does not come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.1)


def job(**changes: Any) -> Job:
    """A job of sleeping containers; `worker` is so large that a node holds one of them."""
    data = {
        "name": "sleepers “模型” 'x' \"y\" $HOME",
        "roles": {"ps": {"memory": 128}, "worker": {"instances": 4, "memory": 3584}},
        "data": {"schema": "schema.yaml", "train": ["x"]},
        "am": {"memory": 640},
        "tags": {"team": "tests"},
    }
    return msgspec.convert({**data, **changes}, Job, dec_hook=units.parse_quantity)


def config_of(job: Job) -> AmConfig:
    """What its Application Master will be told."""
    return AmConfig(
        job=job,
        user=user_name(),
        afo_version=__version__,
        runtime="yarn",
        jobs_root=f"hdfs:///user/{user_name()}/.afo/jobs",
        train_files=("x",),
        secret_file="",
        schema_file="",
    )


class Sleepers:
    """An application whose driver script obeys this test, and whose containers sleep."""

    def __init__(self, directory: Path, attempts: int = 1) -> None:
        self.directory = directory
        self.manager = from_configuration(user_name())
        plan = make_plan(config_of(job(am={"memory": 640, "attempts": attempts})), schema=SCHEMA)
        offer = self.manager.offer()
        check(plan.config.job, offer)
        staged = {file.name: file.url for file in stage(plan, cache_url(user_name()))}
        with private_files(plan, SECRET) as private:
            spec = application_spec(plan, {**private, **staged}, offer.largest.memory)
            self.id = skein_driver.submit(self._with_probe(spec))

    def _with_probe(self, spec: dict[str, Any]) -> dict[str, Any]:
        prelude = spec["master"]["script"].rpartition("exec ")[0]
        probe = shlex.join([sys.executable, str(PROBE), str(self.directory)])
        spec["master"]["script"] = f"{prelude}exec {probe}\n"
        for service in spec["services"].values():
            service["script"] = service["script"].rpartition("exec ")[0] + CONTAINER
        return spec

    def runtime(self, attempt: int = 1) -> RemoteRuntime:
        """The runtime inside an attempt, once it is up."""
        runtime = RemoteRuntime(self.directory, attempt)
        runtime.wait_up()
        return runtime

    def report(self) -> Application:
        """What the ResourceManager says."""
        return self.manager.application(self.id)

    def processes(self, container: str = "") -> list[psutil.Process]:
        """Everything of this application, or of one of its containers, that runs on this machine."""
        name, found = container or self.id, []
        for process in psutil.process_iter(["cmdline"]):
            try:
                if name in " ".join(process.info["cmdline"] or ()) or name in process.cwd():
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def request(self, runtime: RemoteRuntime, role: str, index: int, more_memory: bool = False, **env: str) -> str:
        """Ask for a container."""
        task = {"role": role, "index": index, "attempt": 0}
        own = {"AFO_TEST_DIR": str(self.directory), **env}
        handle = runtime.call("request", task, own, more_memory=more_memory)
        assert isinstance(handle, str)
        return handle

    def seen(self, container: str, what: str) -> str:
        """What a container noted about itself."""
        path = self.directory / f"{container}.{what}"
        until((self.directory / f"{container}.up").exists)
        return path.read_text()


@pytest.fixture
def sleepers(hadoop: Cluster, tmp_path: Path) -> Iterator[Callable[..., Sleepers]]:
    made: list[Sleepers] = []

    def make(attempts: int = 1) -> Sleepers:
        directory = tmp_path / str(len(made))
        directory.mkdir()
        made.append(Sleepers(directory, attempts))
        return made[-1]

    yield make
    for each in made:
        each.manager.kill(each.id)
        until(lambda each=each: each.report().over)
        until(lambda each=each: each.processes() == [])


def states(runtime: RemoteRuntime) -> dict[str, str]:
    """State by handle."""
    return {each["handle"]: each["state"] for each in runtime.call("list_containers")}


def container(runtime: RemoteRuntime, handle: str) -> dict[str, Any]:
    """One container."""
    return next(each for each in runtime.call("list_containers") if each["handle"] == handle)


def answered(app: Sleepers, runtime: RemoteRuntime, *task: Any, **options: Any) -> str:
    """The handle of a request that got its container. One that YARN lost is made again, as the AM does."""
    for _ in range(6):
        handle: str = app.request(runtime, *task, **options)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if states(runtime)[handle] != "requested":
                return handle
            time.sleep(0.1)
        runtime.call("kill", handle)
    pytest.fail(f"no container for {task} in six tries")


def test_life_of_containers(sleepers: Callable[..., Sleepers]) -> None:
    app = sleepers()
    runtime = app.runtime()
    assert {node["memory"] for node in runtime.call("nodes")} == {node.memory for node in app.manager.nodes()}
    queue = runtime.call("queue")
    assert queue["path"] in {queue.path for queue in app.manager.queues()}
    assert 0 < queue["memory_used"] <= queue["memory"]  # the ApplicationMaster's own container at least

    # Requested, running, with its own environment.
    first = answered(app, runtime, "ps", 7)
    until(lambda: states(runtime)[first] == "running")
    info = container(runtime, first)
    assert info["host"] in {node.host for node in app.manager.nodes()}
    environment = app.seen(info["container"], "env")
    assert "AFO_ROLE=ps\n" in environment
    assert "AFO_INDEX=7\n" in environment
    assert "PYTHONPATH=" not in environment
    assert "SKEIN_RESOURCE_MEMORY=128\n" in environment

    # The secret is in a file that only the user reads, and nowhere else; the template became a configuration.
    assert int(app.seen(info["container"], "mode"), 8) & 0o077 == 0
    assert SECRET not in environment
    assert SECRET not in app.seen(info["container"], "config")
    assert f"/{app.id}/" in app.seen(info["container"], "config")

    # A failing container ends neither the application nor another container, and is listed ever after.
    failing = answered(app, runtime, "ps", 1, AFO_TEST_EXIT="3")
    succeeding = answered(app, runtime, "ps", 2, AFO_TEST_EXIT="0")
    until(lambda: {states(runtime)[failing], states(runtime)[succeeding]} == {"ended"})

    # After a memory kill: the same role with more.
    larger = answered(app, runtime, "ps", 7, more_memory=True)
    until(lambda: states(runtime)[larger] == "running")
    assert "SKEIN_RESOURCE_MEMORY=192\n" in app.seen(container(runtime, larger)["container"], "env")
    assert container(runtime, failing)["diagnostics"] != ""
    assert container(runtime, failing)["exit_code"] is None
    assert states(runtime)[first] == "running"

    # A request that cannot be met yet waits, and is cancelled by `kill`. All of them are: YARN reserves nodes for what
    # waits, and grants nothing else on them.
    workers = [app.request(runtime, "worker", index) for index in range(4)]
    until(lambda: "running" in {states(runtime)[each] for each in workers})
    waiting = [each for each in workers if states(runtime)[each] == "requested"]
    assert waiting
    for each in waiting:
        runtime.call("kill", each)
    until(lambda: {states(runtime)[each] for each in waiting} == {"ended"})

    # `kill` ends a running one with its process, and does nothing to one that ended.
    assert app.processes(info["container"])
    runtime.call("kill", first)
    until(lambda: states(runtime)[first] == "ended")
    until(lambda: not app.processes(info["container"]))
    runtime.call("kill", first)
    assert states(runtime)[larger] == "running"

    # Several ends in one heartbeat: every one is seen (skein forgets those behind one that its master killed).
    rest = [each for each in workers if states(runtime)[each] != "ended"]
    last = answered(app, runtime, "ps", 3, AFO_TEST_EXIT="1")
    for each in (*rest, larger):
        runtime.call("kill", each)
    until(lambda: {states(runtime)[each] for each in (*rest, larger, last)} == {"ended"})
    assert len(states(runtime)) >= 9  # a request made again stays in the list

    runtime.call("progress", 0.25)
    until(lambda: abs(app.report().progress - 25) < 0.01)

    # skein has no services but those of the submission.
    with pytest.raises(AssertionError, match=r"SpecError.*evaluator"):
        app.request(runtime, "evaluator", 0)

    staging = f"hdfs:///user/{user_name()}/.skein/{app.id}"
    assert storage.exists(staging)
    runtime.finish("SUCCEEDED", "all slept well")
    until(lambda: app.report().over)
    report = app.report()
    assert (report.state, report.final_status, report.diagnostics) == ("FINISHED", "SUCCEEDED", "all slept well")
    assert report.name == job().name
    assert set(report.tags.split(",")) == {"afo", "team:tests"}
    until(lambda: not storage.exists(staging))


@pytest.mark.slow
def test_a_failed_attempt_is_followed_by_another_until_the_last(sleepers: Callable[..., Sleepers]) -> None:
    app = sleepers(attempts=2)
    first = app.runtime(1)
    old = app.request(first, "ps", 0)
    assert old.startswith("1:")
    until(lambda: states(first)[old] == "running")
    first.finish("FAILED", "verdict of the first")

    second = app.runtime(2)
    assert states(second) == {}
    new = app.request(second, "ps", 0)
    assert new.startswith("2:")
    assert new != old
    until(lambda: states(second)[new] == "running")
    second.call("kill", old)
    assert states(second)[new] == "running"
    second.finish("FAILED", "verdict of the second")
    until(lambda: app.report().over)
    assert (app.report().final_status, app.report().diagnostics) == ("FAILED", "verdict of the second")


def test_a_second_submission_sends_nothing(hadoop: Cluster, tmp_path: Path) -> None:
    script, folder = tmp_path / "my crosses 模.py", tmp_path / "features"
    script.write_text("x = 1\n")
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.txt").write_text("a")
    files = {"files": [str(script), str(folder)]}
    plan = make_plan(config_of(job(environment=files)), schema=SCHEMA)
    cache = f"{cache_url(user_name())}/{tmp_path.name}"
    assert [file.sent for file in stage(plan, cache)] == [True] * 4
    assert [file.sent for file in stage(plan, cache)] == [False] * 4
    (folder / "sub" / "a.txt").write_text("b")
    assert {file.name for file in stage(plan, cache) if file.sent} == {"features"}
    storage.delete(cache, recursive=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"queue": "defualt"}, r"\$\.queue.*no queue 'defualt'.*did you mean 'default'.*root\.default"),
        ({"roles": {"ps": {"memory": "900 GiB"}, "worker": {}}}, r"\$\.roles\.ps\.memory: 900 GiB is more than .* GiB"),
        ({"roles": {"ps": {}, "worker": {"vcores": 5000}}}, r"\$\.roles\.worker\.vcores: 5000 .* largest is"),
        ({"am": {"memory": "800 GiB"}}, r"\$\.am\.memory: 800 GiB"),
        ({"roles": {"ps": {}, "worker": {"node_label": "gpu"}}}, r"\$\.roles\.worker\.node_label.*none is defined"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_sent(
    hadoop: Cluster, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        YarnJobs().dry_run(config_of(job(**changes)), SCHEMA)


def test_dry_run_is_what_submit_sends(hadoop: Cluster) -> None:
    spec = YarnJobs().dry_run(config_of(job()), SCHEMA)
    assert {file["source"] for name, file in spec["master"]["files"].items() if name not in PRIVATE} < {
        file["source"] for file in spec["services"]["ps"]["files"].values()
    } | {spec["master"]["files"]["am-config.json"]["source"]}
    assert spec["services"]["worker-more-memory"]["resources"]["memory"] == 5376


def test_kill_before_the_application_runs_leaves_nothing(hadoop: Cluster, sleepers: Callable[..., Sleepers]) -> None:
    app = sleepers()
    YarnJobs().kill(app.id)
    until(lambda: app.report().over)
    assert app.report().final_status == "KILLED"
    assert not storage.exists(f"hdfs:///user/{user_name()}/.skein/{app.id}")
    YarnJobs().kill(app.id)
