"""Structs as JSON files."""

import pytest

from afo.errors import SpecError
from afo.formats.json_file import decode, encode
from afo.formats.units import Interval
from afo.job import Train


@pytest.mark.parametrize("written", ["10m", "2000 steps"])
def test_an_interval_is_read_as_it_was_written(written: str) -> None:
    train = Train(eval_every=Interval.parse(written))
    assert decode(encode(train), Train, "job.json") == train


def test_a_stored_job_may_have_an_interval_in_seconds() -> None:
    assert decode(b'{"eval_every": 600.0}', Train, "job.json").eval_every == "10m"
    with pytest.raises(SpecError, match=r"job\.json: .* has no unit"):
        decode(b'{"eval_every": "600"}', Train, "job.json")
