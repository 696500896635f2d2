"""The environment of a TensorFlow process, as a pure function."""

import json

import msgspec
import pytest

from afo.job import Data, Environment, Job, Role, RoleSpec
from afo.protocol.task_environment import task_environment, tf_config


def make_job(*, preload: str = "", chief: bool = False, **variables: str) -> Job:
    roles: dict[Role, RoleSpec] = {
        "ps": RoleSpec(instances=2), "worker": RoleSpec(instances=3), "evaluator": RoleSpec()
    }  # fmt: skip
    if chief:
        roles["chief"] = RoleSpec()
    return Job(
        name="j", roles=roles, data=Data(schema="s", train=("t",), eval=("e",)),
        environment=Environment(variables=variables, preload=preload),
    )  # fmt: skip


@pytest.mark.parametrize("given", ["4", "32:32", None])
@pytest.mark.parametrize("wanted", ["16", None])
def test_malloc_arena_max_is_as_configured_or_absent(given: str | None, wanted: str | None) -> None:
    inherited = {"MALLOC_ARENA_MAX": given} if given else {}
    job = make_job(**({"MALLOC_ARENA_MAX": wanted} if wanted else {}))
    assert task_environment(job, "worker", 0, 2, inherited).apply_to(inherited).get("MALLOC_ARENA_MAX") == wanted


def test_threads_follow_the_cores_and_the_job_wins_over_everything() -> None:
    inherited = {"OMP_NUM_THREADS": "1", "TF_NUM_INTEROP_THREADS": "99", "HADOOP_CONF_DIR": "/c", "TF_CONFIG": "{}"}
    job = make_job(OMP_NUM_THREADS="5", GRPC_FAIL_FAST="false", HADOOP_CONF_DIR="/mine")
    env = task_environment(job, "ps", 1, 8, inherited).apply_to(inherited)
    assert (env["OMP_NUM_THREADS"], env["TF_NUM_INTRAOP_THREADS"], env["TF_NUM_INTEROP_THREADS"]) == ("5", "8", "8")
    assert (env["GRPC_FAIL_FAST"], env["TF_GRPC_REUSE_PORT"], env["HADOOP_CONF_DIR"]) == ("false", "1", "/mine")


def test_a_task_without_gpus_sees_none() -> None:
    job = make_job()
    given = {"CUDA_VISIBLE_DEVICES": "1"}
    assert task_environment(job, "ps", 0, 1, given).apply_to(given)["CUDA_VISIBLE_DEVICES"] == "-1"
    with_gpu = msgspec.structs.replace(job, roles={**job.roles, "worker": RoleSpec(gpus=1)})
    assert task_environment(with_gpu, "worker", 0, 1, given).apply_to(given)["CUDA_VISIBLE_DEVICES"] == "1"
    assert task_environment(with_gpu, "ps", 0, 1, given).apply_to(given)["CUDA_VISIBLE_DEVICES"] == "-1"
    own = make_job(CUDA_VISIBLE_DEVICES="0")
    assert task_environment(own, "ps", 0, 1, given).apply_to(given)["CUDA_VISIBLE_DEVICES"] == "0"


def test_the_allocator_comes_first_and_keeps_company() -> None:
    job = make_job(preload="libjemalloc.so.2")
    assert task_environment(job, "ps", 0, 1, {}).variables["LD_PRELOAD"] == "libjemalloc.so.2"
    assert task_environment(job, "ps", 0, 1, {"LD_PRELOAD": "a.so"}).variables["LD_PRELOAD"] == "libjemalloc.so.2:a.so"
    assert "LD_PRELOAD" not in task_environment(make_job(), "ps", 0, 1, {}).variables


def test_what_would_let_user_code_act_as_the_am_is_taken_away() -> None:
    inherited = {"SKEIN_CONTAINER_ID": "c", "AFO_CHILD_CONFIG": "/x", "PATH": "/bin"}
    env = task_environment(make_job(), "worker", 0, 1, inherited).apply_to(inherited)
    assert not {"SKEIN_CONTAINER_ID", "AFO_CHILD_CONFIG"} & env.keys()
    assert env["PATH"] == "/bin"


def test_no_proxy_between_tasks() -> None:
    ps = ("node1:1", "node2:2", "node1:3")
    inherited = {"http_proxy": "http://proxy:3128", "no_proxy": "localhost"}
    assert task_environment(make_job(), "worker", 0, 1, inherited, {"ps": ps}).variables["no_grpc_proxy"] == (
        "localhost,node1,node2"
    )
    assert "no_grpc_proxy" not in task_environment(make_job(), "worker", 0, 1, {}, {"ps": ps}).variables


def test_nor_where_the_job_itself_names_one() -> None:
    job = make_job(https_proxy="http://proxy:3128", no_grpc_proxy="outside")
    ps = ("node1:1", "[fd00::2]:2")
    variables = task_environment(job, "worker", 0, 1, {"no_proxy": "site"}, {"ps": ps}).variables
    assert variables["no_grpc_proxy"] == "outside,fd00::2,node1", "gRPC compares hosts without brackets"
    assert variables["https_proxy"] == "http://proxy:3128", "for what lies outside"


def test_tf_config_knows_every_task_but_the_evaluator() -> None:
    config = json.loads(tf_config(make_job(chief=True), "evaluator", 0, {"ps": ("h:1", "h:2")}))
    assert config["task"] == {"type": "evaluator", "index": 0}
    assert {role: len(tasks) for role, tasks in config["cluster"].items()} == {"chief": 1, "worker": 3, "ps": 2}
    assert config["cluster"]["ps"] == ["h:1", "h:2"]
    assert json.loads(tf_config(make_job(), "worker", 2))["cluster"]["ps"] == ["ps-0.invalid:0", "ps-1.invalid:0"]


def test_a_program_gets_the_whole_cluster_and_threads_to_wait_in() -> None:
    roles: dict[Role, RoleSpec] = {"chief": RoleSpec(), "worker": RoleSpec(instances=3), "evaluator": RoleSpec()}
    job = Job(name="own", roles=roles, program="train.py")
    cluster: dict[Role, tuple[str, ...]] = {"chief": ("a:1",), "worker": ("a:2", "b:3", "b:4")}
    variables = task_environment(job, "evaluator", 0, 1, {}, cluster).variables
    assert json.loads(variables["TF_CONFIG"]) == {
        "cluster": {role: list(addresses) for role, addresses in cluster.items()},
        "task": {"type": "evaluator", "index": 0},
    }
    assert (variables["TF_NUM_INTEROP_THREADS"], variables["TF_NUM_INTRAOP_THREADS"]) == ("5", "1")
    assert "GRPC_FAIL_FAST" not in variables
