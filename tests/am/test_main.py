"""What an Application Master writes of its job when it begins."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from afo.formats import json_file
from afo.job.paths import JobPaths
from afo_am.__main__ import _publish_job
from fake_cluster import make_config


@pytest.mark.parametrize("by_client", [True, False])
def test_all_of_it_is_there_whoever_wrote_the_job_first(tmp_path: Path, by_client: bool) -> None:
    (tmp_path / "schema.yaml").write_text("label: label\n")
    config = replace(make_config(), jobs_root=str(tmp_path / "jobs"), schema_file=str(tmp_path / "schema.yaml"))
    paths = JobPaths(config.jobs_root, config.job_id)
    if by_client:
        Path(paths.dir).mkdir(parents=True)
        Path(paths.job).write_bytes(json_file.encode(replace(config, schema_file="")))
    _publish_job(config, paths)
    assert Path(paths.schema).read_text() == "label: label\n"
    assert Path(paths.files).exists()
    assert json_file.read(paths.job, type(config)) == config


def test_a_later_start_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "schema.yaml").write_text("label: label\n")
    config = replace(make_config(), jobs_root=str(tmp_path / "jobs"), schema_file=str(tmp_path / "schema.yaml"))
    paths = JobPaths(config.jobs_root, config.job_id)
    _publish_job(config, paths)
    (tmp_path / "schema.yaml").write_text("another\n")
    _publish_job(config, paths)
    assert Path(paths.schema).read_text() == "label: label\n"
