"""The cache of staged files, on a local directory in place of HDFS."""

import tarfile
import time
from pathlib import Path

import msgspec
import pytest

from afo.errors import NotFound, SpecError
from afo.formats import units
from afo.job import Job
from afo.protocol.am_config import AmConfig
from afo.yarn.queues import Queue, Resource
from afo.yarn.resource_manager import ClusterNode
from afo.yarn.submission import SubmitPlan, submit_plan
from afo_client.runtimes.yarn.preflight import check_queue, check_sizes
from afo_client.runtimes.yarn.staging import StagedFile, stage
from afo_client.runtimes.yarn.yarn_jobs import private_files


def job(python: str = "", label: str = "", gpus: int = 0) -> Job:
    """A small job."""
    data = {
        "name": "n",
        "roles": {"ps": {"memory": 2048, "node_label": label, "gpus": gpus}, "worker": {"memory": 1024}},
        "data": {"schema": "s", "train": ["x"]},
        "environment": {"python": python},
    }
    return msgspec.convert(data, Job, dec_hook=units.parse_quantity)


def plan_of(folder: Path, *files: str, python: str = "") -> SubmitPlan:
    """A plan whose Hadoop configuration lies in `folder`/conf."""
    conf = folder / "conf"
    conf.mkdir(exist_ok=True)
    for name in ("core-site.xml", "yarn-site.xml", "passwords.xml"):
        (conf / name).write_text(f"<configuration/><!-- {name} -->")
    config = AmConfig(
        job=job(python), user="u", afo_version="1", runtime="yarn", jobs_root="hdfs:///j", train_files=("x",),
        secret_file="", schema_file="",
    )  # fmt: skip
    return submit_plan(config, schema="features: {}", files=files, hadoop_conf=str(conf), interpreter="/python")


def by_name(staged: tuple[StagedFile, ...]) -> dict[str, StagedFile]:
    """Staged files by their name in a container."""
    return {file.name: file for file in staged}


def test_only_what_is_new_is_sent(tmp_path: Path) -> None:
    script, folder, cache = tmp_path / "模 a'b.py", tmp_path / "features", str(tmp_path / "cache")
    script.write_text("x")
    (folder / "deep" / "__pycache__").mkdir(parents=True)
    (folder / "deep" / "y.txt").write_text("y")
    (folder / "deep" / "__pycache__" / "y.pyc").write_text("compiled")
    plan = plan_of(tmp_path, str(script), f"{folder}/")
    planned = by_name(stage(plan, cache, send=False))
    assert not Path(cache).exists()
    first = by_name(stage(plan, cache))
    assert {name: file.url for name, file in first.items()} == {name: file.url for name, file in planned.items()}
    assert all(file.sent and Path(file.url).stat().st_size == file.size for file in first.values())
    time.sleep(0.01)
    (folder / "deep" / "y.txt").write_text("y")  # newer, but the same
    assert not any(file.sent for file in stage(plan, cache))
    script.write_text("z")
    assert [file.name for file in stage(plan, cache) if file.sent] == [script.name]
    with tarfile.open(first["features"].url) as archive:
        assert archive.getnames() == ["deep", "deep/y.txt"]
    with tarfile.open(first["hadoop-conf"].url) as archive:
        assert archive.getnames() == ["core-site.xml", "yarn-site.xml"]


def test_a_half_sent_file_is_sent_again(tmp_path: Path) -> None:
    plan, cache = plan_of(tmp_path), str(tmp_path / "cache")
    url = by_name(stage(plan, cache))["schema.yaml"].url
    Path(url).write_text("feat")
    assert by_name(stage(plan, cache))["schema.yaml"].sent
    assert Path(url).read_text() == "features: {}"


def test_an_archive_in_the_cluster_is_used_where_it_lies(tmp_path: Path) -> None:
    staged = by_name(stage(plan_of(tmp_path, python="hdfs:///envs/e.tar.gz"), str(tmp_path / "cache")))
    assert staged["environment"] == StagedFile(name="environment", url="hdfs:///envs/e.tar.gz")


def test_what_cannot_be_staged(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"gone\.py.*does not exist"):
        stage(plan_of(tmp_path, str(tmp_path / "gone.py")), str(tmp_path / "cache"))
    with pytest.raises(SpecError, match="cannot read a URL"):
        stage(plan_of(tmp_path, python="hdfs:///a#b.tar.gz"), str(tmp_path / "cache"))


def test_private_files_are_private_and_go_away(tmp_path: Path) -> None:
    with private_files(plan_of(tmp_path), "5e" * 32) as urls:
        paths = {name: Path(url.removeprefix("file://")) for name, url in urls.items()}
        assert paths["afo-secret"].read_text() == "5e" * 32
        for path in paths.values():
            assert (path.stat().st_mode | path.parent.stat().st_mode) & 0o077 == 0
        assert not any("5e" * 32 in path.read_text() for name, path in paths.items() if name != "afo-secret")
    assert not any(path.parent.exists() for path in paths.values())


def node(memory: int, *labels: str) -> ClusterNode:
    """An idle node."""
    return ClusterNode(
        host="h", state="RUNNING", memory_used=0, memory_free=memory, vcores_used=0, vcores_free=4, labels=labels
    )


def test_labels_decide_which_nodes_count() -> None:
    largest = Resource(memory=4096, vcores=4)
    check_sizes(job(label="gpu"), [node(1024), node(4096, "gpu")], largest)
    with pytest.raises(SpecError, match=r"\$\.roles\.ps\.node_label.*'cpu'; labels: gpu"):
        check_sizes(job(label="cpu"), [node(1024), node(4096, "gpu")], largest)
    with pytest.raises(SpecError, match=r"\$\.roles\.ps\.memory: 2 GiB is more .* largest is 1 GiB"):
        check_sizes(job(), [node(1024), node(4096, "gpu")], largest)


def test_gpus_are_checked_where_the_cluster_tells() -> None:
    def answer(**values: int) -> Resource:
        types = [{"name": f"yarn.io/{name}", "value": value, "units": ""} for name, value in values.items()]
        told = {"memory": 4096, "vCores": 4, "resourceInformations": {"resourceInformation": types}}
        return msgspec.convert(told, Resource)

    check_sizes(job(gpus=2), [node(4096)], answer(gpu=2))
    check_sizes(job(gpus=2), [node(4096)], Resource(memory=4096, vcores=4))
    check_sizes(job(), [node(4096)], answer())
    with pytest.raises(SpecError, match=r"\$\.roles\.ps\.gpus: 3 is more .* largest is 2"):
        check_sizes(job(gpus=3), [node(4096)], answer(gpu=2))
    with pytest.raises(SpecError, match=r"\$\.roles\.ps\.gpus: 1 requested, but .* no resource yarn.io/gpu"):
        check_sizes(job(gpus=1), [node(4096)], answer(fpga=4))


def test_queues_by_path_or_last_part() -> None:
    queues = [Queue(path="root.ads.train"), Queue(path="root.closed", state="STOPPED")]
    check_queue("root.ads.train", queues)
    check_queue("train", queues)
    check_queue("anything", [])
    with pytest.raises(SpecError, match=r"'root\.closed' is stopped"):
        check_queue("closed", queues)
    with pytest.raises(SpecError, match=r"no queue 'root\.ads'.*did you mean"):
        check_queue("root.ads", queues)
