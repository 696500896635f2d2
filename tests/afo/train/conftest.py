"""Fixtures of the training tests."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from afo.job import Job
from training_job import JobRun


@pytest.fixture
def run_job(tmp_path: Path) -> Iterator[Callable[..., JobRun]]:
    """Makes `JobRun`s that end with the test."""
    runs: list[JobRun] = []

    def make(job: Job, schema_file: Path, **options: Any) -> JobRun:
        runs.append(JobRun(job, schema_file, options.pop("directory", tmp_path / "job"), **options))
        return runs[-1]

    yield make
    for run in runs:
        run.close()
