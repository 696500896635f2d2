"""Files in several splits: what workers are told to read, and what the job says of its input."""

from collections.abc import Callable

import msgspec

from afo.events import types as ev
from afo.formats import json_file
from afo.formats.units import parse_quantity
from afo.protocol.am_config import AmConfig
from afo.protocol.input_file import InputFile
from afo.storage.url import ByteRange
from fake_cluster import FakeCluster, make_config

PARTS = (ByteRange(0, 500), ByteRange(500, 1200), None)


def cut_config() -> AmConfig:
    return msgspec.structs.replace(
        make_config(files=3, epochs=1), train_files=("hdfs:///a", "hdfs:///a", "hdfs:///b"),
        train_stats=((1200, 2.0), (1200, 2.0), (7, 3.0)), train_parts=PARTS,
    )  # fmt: skip


def test_each_part_is_a_split_of_its_own() -> None:
    config = cut_config()
    assert [split.name for split in config.splits] == ["hdfs:///a:0+500", "hdfs:///a:500+700", "hdfs:///b"]
    assert make_config(files=1).splits == [InputFile("file:///data/train-0", 0, 0.0)]
    assert config.splits == [
        InputFile("hdfs:///a", 1200, 2.0, PARTS[0]), InputFile("hdfs:///a", 1200, 2.0, PARTS[1]),
        InputFile("hdfs:///b", 7, 3.0),
    ]  # fmt: skip
    again = msgspec.json.decode(json_file.encode(config), type=AmConfig, dec_hook=parse_quantity)
    assert again.train_parts == PARTS


def test_workers_are_told_which_part_to_read(make_cluster: Callable[..., FakeCluster]) -> None:
    cluster = make_cluster(cut_config())
    told: dict[int, tuple[str, ByteRange | None]] = {}

    def look(cluster: FakeCluster, turn: int) -> None:
        told.update(
            {each.lease.split: (each.lease.url, each.lease.part) for each in cluster.live("worker") if each.lease}
        )

    assert cluster.run(each=look) == "SUCCEEDED"
    assert told == {0: ("hdfs:///a", PARTS[0]), 1: ("hdfs:///a", PARTS[1]), 2: ("hdfs:///b", None)}
    [added] = cluster.events(ev.SplitsAdded)
    assert added == ev.SplitsAdded(first=0, splits=tuple(cluster.config.splits), closed=True)
