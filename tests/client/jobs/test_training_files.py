"""Training files of a job, counted: parts of one file are one."""

from pathlib import Path

from afo.events import types as ev
from afo.formats import json_file
from afo.protocol.am_config import AmConfig
from afo.protocol.input_file import InputFile
from afo.storage.url import ByteRange
from afo_client.jobs.training_files import count_files
from job_writer import RUNNING, JobWriter


def config(writer: JobWriter) -> AmConfig:
    return json_file.read(writer.paths.job, AmConfig)


def test_files_of_the_log_count_and_before_it_those_that_were_submitted(tmp_path: Path) -> None:
    writer = JobWriter(str(tmp_path), RUNNING, "j", files=("a", "a", "b"))
    assert count_files(writer.paths.events, config(writer)) == 2
    parts = tuple(InputFile("a", 9, 1.0, ByteRange(begin, begin + 3)) for begin in (0, 3, 6))
    writer.log(ev.SplitsAdded(first=0, splits=parts, closed=False))
    assert count_files(writer.paths.events, config(writer)) == 1
    more = (InputFile("b", 1, 1.0), InputFile("c", 1, 1.0))
    writer.log(ev.SplitsAdded(first=3, splits=more, closed=False))
    assert count_files(writer.paths.events, config(writer)) == 3


def test_until_version_4_of_the_log_the_configuration_tells_a_file_from_its_parts(tmp_path: Path) -> None:
    writer = JobWriter(str(tmp_path), RUNNING, "j", files=("a", "a", "b")).begin(old=True)
    assert count_files(writer.paths.events, config(writer)) == 2
