"""The plan of a submission to YARN: pure data, so compared as a whole."""

import shlex
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import skein
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from afo.errors import SpecError
from afo.formats import units
from afo.job import Job
from afo.protocol.am_config import AmConfig
from afo.yarn.submission import (
    CHILD_TEMPLATE,
    PRIVATE,
    SubmitPlan,
    application_spec,
    mark_tag,
    submit_plan,
)

GOLDEN = Path(__file__).parent / "golden" / "application_spec.json"


def job(**changes: Any) -> Job:
    """A job with all roles."""
    data = {
        "name": "Größe 'x' \"y\" $HOME `id` 模型",
        "queue": "root.ads",
        "tags": {"team": "feeds", "cost center": "4411"},
        "roles": {
            "chief": {"memory": "1 GiB"},
            "worker": {"instances": {"min": 2, "max": 8}, "memory": "3 GiB", "vcores": 4, "node_label": "cpu"},
            "ps": {"instances": 2, "memory": "7 GiB", "vcores": 2},
            "evaluator": {"memory": 1001},
        },
        "am": {"memory": "2 GiB", "vcores": 2, "attempts": 3},
        "data": {"schema": "schema.yaml", "train": ["hdfs:///x"], "eval": ["hdfs:///y"]},
        "environment": {"variables": {"MALLOC_ARENA_MAX": "16", "OMP_NUM_THREADS": "3"}},
    }
    return msgspec.convert({**data, **changes}, Job, dec_hook=units.parse_quantity)


def plan_of(job: Job, *files: str, interpreter: str = "/opt/py thon's/bin/python") -> SubmitPlan:
    """Its plan."""
    config = AmConfig(
        job=job, user="alice", afo_version="1", runtime="yarn", jobs_root="hdfs:///user/alice/.afo/jobs",
        train_files=("hdfs:///x",), secret_file="", schema_file="",
    )  # fmt: skip
    return submit_plan(config, schema="features: {}\n", files=files, hadoop_conf="/etc/hadoop", interpreter=interpreter)


def spec_of(plan: SubmitPlan, largest: int = 10 * 1024) -> dict[str, Any]:
    """The application of a plan whose files were staged somewhere."""
    names = [*PRIVATE, "schema.yaml", *(file.name for file in plan.files)]
    return application_spec(plan, {name: f"hdfs://nn:1/cache/{number}" for number, name in enumerate(names)}, largest)


def test_whole_application_is_as_recorded() -> None:
    spec = spec_of(plan_of(job(), "/home/alice/my crosses.py", "/home/alice/features/"))
    assert msgspec.json.format(msgspec.json.encode(spec), indent=1).decode() + "\n" == GOLDEN.read_text()


def test_skein_takes_it_as_it_is() -> None:
    spec = spec_of(plan_of(job(), "/home/alice/模型 a.py"))
    application = skein.ApplicationSpec.from_dict(spec)
    message = application.to_protobuf()
    assert message.name == job().name
    assert message.max_attempts == 3
    assert {name: service.instances for name, service in message.services.items()} == dict.fromkeys(
        [f"{role}{more}" for role in ("chief", "evaluator", "ps", "worker") for more in ("", "-more-memory")], 0
    )
    assert message.services["worker"].node_label == "cpu"
    assert "模型 a.py" in message.services["ps"].files


def test_a_second_service_has_more_memory_but_never_more_than_a_container_may_have() -> None:
    services = spec_of(plan_of(job()))["services"]
    memory = {name: service["resources"]["memory"] for name, service in services.items()}
    assert (memory["worker"], memory["worker-more-memory"]) == (3072, 4608)
    assert (memory["evaluator"], memory["evaluator-more-memory"]) == (1001, 1501)
    assert (memory["ps"], memory["ps-more-memory"]) == (7168, 10240)


def test_no_failure_of_a_container_ends_the_application() -> None:
    for service in spec_of(plan_of(job()))["services"].values():
        assert (service["instances"], service["max_restarts"], service["allow_failures"]) == (0, 0, True)


def test_nothing_of_the_user_is_in_an_environment() -> None:
    spec = spec_of(plan_of(job()))
    assert "env" not in spec["master"]
    for service in spec["services"].values():
        assert "env" not in service
        assert "MALLOC" not in service["script"]
        assert "OMP_" not in service["script"]


def test_who_gets_which_file() -> None:
    spec = spec_of(plan_of(job(), "/x/a.py"))
    assert set(spec["master"]["files"]) == {"afo-secret", "am-config.json", "schema.yaml", "hadoop-conf"}
    tasks = {"afo-secret", CHILD_TEMPLATE, "schema.yaml", "hadoop-conf", "a.py"}
    assert set(spec["services"]["ps"]["files"]) == tasks
    assert spec["master"]["files"]["afo-secret"]["visibility"] == "APPLICATION"


def test_a_keytab_goes_to_the_application_master_alone() -> None:
    plan = plan_of(job())
    spec = application_spec(
        replace(plan, config=replace(plan.config, principal="etl@REALM")),
        {name: f"hdfs://nn:1/{name}" for name in (*PRIVATE, "afo-keytab", "schema.yaml", "hadoop-conf")},
        1024,
    )
    assert spec["master"]["files"]["afo-keytab"]["visibility"] == "APPLICATION"
    assert not any("afo-keytab" in service["files"] for service in spec["services"].values())


@pytest.mark.parametrize("python", ["hdfs:///envs/ctr.tar.gz", "/home/alice/env.tgz", "env.zip"])
def test_an_archive_is_unpacked_and_its_python_runs(python: str) -> None:
    plan = plan_of(job(environment={"python": python}))
    spec = spec_of(plan)
    assert spec["services"]["ps"]["files"]["environment"]["type"] == "ARCHIVE"
    assert spec["services"]["ps"]["script"].splitlines()[-1].startswith("exec ./environment/bin/python -P -m afo_child")
    assert plan.config.python == "./environment/bin/python"


def test_an_interpreter_of_the_nodes_runs_as_it_is() -> None:
    spec = spec_of(plan_of(job(environment={"python": "/usr/bin/python3.11"})))
    assert "exec /usr/bin/python3.11 -P -m afo_am.supervisor am-config.json\n" in spec["master"]["script"]
    assert "environment" not in spec["master"]["files"]


IMAGE = {
    "image": "registry:5000/ads/ctr:1.2",
    "mounts": ["/etc/passwd:/etc/passwd:ro", "/data:/data:rw"],
    "network": "host",
}


def test_tasks_run_in_an_image_by_yarns_variables_and_the_am_does_not() -> None:
    spec = spec_of(plan_of(job(environment={"docker": IMAGE})))
    for service in spec["services"].values():
        assert service["env"] == {
            "YARN_CONTAINER_RUNTIME_TYPE": "docker",
            "YARN_CONTAINER_RUNTIME_DOCKER_IMAGE": "registry:5000/ads/ctr:1.2",
            "YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS": "/etc/passwd:/etc/passwd:ro,/data:/data:rw",
            "YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK": "host",
        }
    assert "env" not in spec["master"]
    message = skein.ApplicationSpec.from_dict(spec).to_protobuf()
    assert message.services["ps-more-memory"].env["YARN_CONTAINER_RUNTIME_TYPE"] == "docker"
    plain = spec_of(plan_of(job(environment={"docker": {"image": "ctr"}})))["services"]["ps"]["env"]
    assert set(plain) == {"YARN_CONTAINER_RUNTIME_TYPE", "YARN_CONTAINER_RUNTIME_DOCKER_IMAGE"}


@pytest.mark.parametrize(
    ("python", "master", "task"),
    [
        ("", "/here/python", "python3"),
        ("/opt/py", "/here/python", "/opt/py"),
        ("e.tgz", "./environment/bin/python", ""),
    ],
)
def test_the_interpreter_of_an_image(python: str, master: str, task: str) -> None:
    environment = {"docker": {"image": "ctr"}, "python": python}
    spec = spec_of(plan_of(job(environment=environment), interpreter="/here/python"))
    assert f"exec {master} -P -m afo_am" in spec["master"]["script"]
    assert f"exec {task or master} -P -m afo_child" in spec["services"]["worker"]["script"]


@pytest.mark.parametrize(
    "docker",
    [
        {"image": ""}, {"image": "a b"}, {"image": 'a"b'}, {"image": "$HOME"}, {"image": "a", "network": "a;b"},
        *({"image": "a", "mounts": [mount]} for mount in ("/a:/b", "a:/b:ro", "/a:/b:rx", "/a,/b:/c:ro", "/a:/b:ro\n")),
    ],
)  # fmt: skip
def test_what_no_node_manager_would_take_as_an_image(docker: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"environment\.docker"):
        job(environment={"docker": docker})


@pytest.mark.parametrize(
    ("python", "child", "program"),
    [
        ("", "/opt/afo/bin/python", ""),
        ("/opt/tf1/bin/python", "/opt/afo/bin/python", "/opt/tf1/bin/python"),
        ("hdfs:///envs/ctr.tar.gz", "./environment/bin/python", ""),
    ],
)
def test_the_interpreter_of_a_program_is_its_own(python: str, child: str, program: str) -> None:
    """Where it is a path: the AM and the Children need afo, a program does not."""
    own = job(program="/home/alice/train.py", environment={"python": python})
    plan = plan_of(own, interpreter="/opt/afo/bin/python")
    assert (plan.interpreter, plan.task_interpreter) == (child, child)
    assert plan.child.python == program
    assert plan.child.job.program == "train.py"


def test_gpus_are_asked_for_where_the_role_wants_them() -> None:
    roles = {"ps": {}, "worker": {"gpus": 2}}
    spec = spec_of(plan_of(job(roles=roles, data={"train": ["hdfs:///x"]})))
    message = skein.ApplicationSpec.from_dict(spec).to_protobuf()
    gpus = {name: service.resources.gpus for name, service in message.services.items()}
    assert gpus == {"ps": 0, "ps-more-memory": 0, "worker": 2, "worker-more-memory": 2}


@pytest.mark.parametrize("interpreter", ["/opt/py thon's/bin/python", '/a "b"/$HOME/`id`', "/ü/模"])
def test_scripts_are_right_bash_for_every_interpreter(interpreter: str, tmp_path: Path) -> None:
    plan = plan_of(job(), interpreter=interpreter)
    for script in (spec_of(plan)["master"]["script"], spec_of(plan)["services"]["ps"]["script"]):
        last = script.splitlines()[-1]
        assert shlex.split(last)[1] == interpreter
        subprocess.run(["bash", "-n", "-c", script], check=True, cwd=tmp_path)


def test_the_childs_configuration_gets_its_application_id(tmp_path: Path) -> None:
    plan = plan_of(job(), interpreter="/bin/true")
    template = tmp_path / CHILD_TEMPLATE
    template.write_bytes(msgspec.json.encode({"url": plan.child.am_address_url}))
    show = 'echo "$HADOOP_CONF_DIR $PYTHONPATH" #'
    script = spec_of(plan)["services"]["ps"]["script"].replace("exec /bin/true", show)
    environment = {"PATH": "/usr/bin:/bin", "SKEIN_APPLICATION_ID": "application_17_0042", "PYTHONPATH": "/leak"}
    shown = subprocess.check_output(["bash"], input=script, cwd=tmp_path, env=environment, text=True)
    assert shown.split() == [f"{tmp_path}/hadoop-conf"]
    written = tmp_path / "child-config.json"
    assert msgspec.json.decode(written.read_bytes()) == {
        "url": "hdfs:///user/alice/.afo/jobs/application_17_0042/address"
    }
    assert written.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "path",
    ['/x/a"b', "/x/a$b", "/x/a`b", "/x/a\\b", "/x/a\nb", "/x/.skein.sh", "/", "/x/schema.yaml", "/x/afo-secret"],
)
def test_names_that_a_container_cannot_hold_are_refused(path: str) -> None:
    with pytest.raises(SpecError, match=r"\$\.environment\.files\[1\]"):
        plan_of(job(), "/x/good.py", path)


@pytest.mark.parametrize(
    ("files", "entry", "sent"),
    [
        ((), "my ctr.py:build", ["my ctr.py"]),
        (("/a/b.txt",), "my ctr.py:build", ["b.txt", "my ctr.py"]),
        (("/a/my ctr.py",), "my ctr.py:build", ["my ctr.py"]),
        (("/a/",), "a/my ctr.py:build", ["a"]),
    ],
)
def test_the_users_code_goes_to_every_task(files: tuple[str, ...], entry: str, sent: list[str]) -> None:
    plan = plan_of(job(model={"kind": "entry", "entry": "/a/my ctr.py:build"}), *files)
    assert [file.name for file in plan.files if file.name != "hadoop-conf"] == sent
    assert plan.child.job.model.entry == entry
    assert sent[-1] in spec_of(plan)["services"]["worker"]["files"]
    program = plan_of(job(program="/a/my ctr.py", args=["/a"]), *files)
    assert (program.config.job.program, program.config.job.args) == (entry.removesuffix(":build"), ("/a",))


@pytest.mark.parametrize("code", [{"program": "/b/a.py"}, {"model": {"entry": "/b/a.py:build"}}])
def test_the_users_code_has_a_name_of_its_own(code: dict[str, Any]) -> None:
    where = "program" if "program" in code else "model.entry"
    with pytest.raises(SpecError, match=rf"\$\.{where}: `environment.files` has another file called 'a.py'; rename"):
        plan_of(job(**code), "/x/a.py")


def test_a_program_cannot_hide_our_own_files() -> None:
    with pytest.raises(SpecError, match=r"\$\.program: 'schema.yaml' is a name that afo uses"):
        plan_of(job(program="/b/schema.yaml"))


def test_two_files_of_one_name_are_refused() -> None:
    with pytest.raises(SpecError, match=r"\$\.environment\.files\[1\].*'a\.py'"):
        plan_of(job(), "/x/a.py", "/y/a.py")


@given(st.text(min_size=1, max_size=40).filter(lambda text: "/" not in text))
def test_a_name_that_is_accepted_survives_yarns_shell_script(name: str) -> None:
    try:
        plan = plan_of(job(), f"/x/{name}")
        encoded = name.encode()
    except (SpecError, UnicodeEncodeError):
        return
    assert plan.files[0].name == name
    # As YARN writes it: ln -sf -- "source" "name"
    shown = subprocess.run(["bash", "-c", f'printf %s "{name}"'], capture_output=True, check=True).stdout
    assert shown == encoded


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ({"team": "ä"}, r"\$\.tags\.team: 'team:ä'"),
        ({"k": "v" * 99}, r"\$\.tags\.k: .*at most 100 ASCII"),
        ({str(number): "x" for number in range(10)}, r"\$\.tags: 10 tags are given; YARN takes 9"),
    ],
)
def test_tags_that_yarn_refuses(tags: dict[str, str], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        spec_of(plan_of(job(tags=tags)))


def test_an_idempotency_key_is_a_tag_of_our_own() -> None:
    plan = plan_of(job(tags={str(number): "x" for number in range(9)}))
    marked = msgspec.structs.replace(plan, config=msgspec.structs.replace(plan.config, once="ab-1"))
    with pytest.raises(SpecError, match=r"9 tags are given; YARN takes 8"):
        spec_of(marked)
    plan = plan_of(job(tags={"team": "feeds"}))
    marked = msgspec.structs.replace(plan, config=msgspec.structs.replace(plan.config, once="ab-1"))
    assert spec_of(marked)["tags"] == ["afo", mark_tag("ab-1"), "team:feeds"]
