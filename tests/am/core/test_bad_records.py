"""The budget for bad records: counted in the surviving history, judged over the whole job."""

from collections.abc import Callable

import msgspec

from afo.events import types as ev
from afo.protocol.am_config import AmConfig
from fake_cluster import FakeCluster, make_config

Make = Callable[..., FakeCluster]
FILES = 20
#: What the fake workers say that the files of an epoch hold.
RECORDS = sum(10 + split for split in range(FILES))


def allowing(share: float) -> AmConfig:
    config = make_config(files=FILES)
    data = msgspec.structs.replace(config.job.data, max_bad_records=share)
    return msgspec.structs.replace(config, job=msgspec.structs.replace(config.job, data=data))


def test_bad_records_within_the_budget_are_told_at_the_end(make_cluster: Make) -> None:
    cluster = make_cluster(allowing(5.5 / RECORDS))
    cluster.bad = {3: 1, 7: 4}
    assert cluster.run() == "SUCCEEDED"
    [finished] = cluster.events(ev.JobFinished)
    assert finished.bad_records == 2 * 5, "in each of two epochs"
    [done, _] = [event for event in cluster.events(ev.SplitDone) if event.split == 7]
    assert (done.bad, done.first_bad) == (4, "file 7: record at offset 7")


def test_records_read_again_after_a_loss_count_once(make_cluster: Make) -> None:
    cluster = make_cluster(allowing(0.5))
    cluster.bad = dict.fromkeys(range(FILES), 1)

    def kill_between_checkpoints(cluster: FakeCluster, turn: int) -> None:
        kinds = [type(event) for event, _ in cluster.log if isinstance(event, ev.SplitDone | ev.CheckpointWritten)]
        if (
            cluster.core.state.generation == 1
            and kinds[-2:] == [ev.SplitDone] * 2
            and cluster.model.saved.keys() - {""}
        ):
            cluster.end_container(cluster.live("ps")[0].handle)

    assert cluster.run(each=kill_between_checkpoints) == "SUCCEEDED"
    assert len(cluster.events(ev.SplitDone)) > 2 * FILES, "some files were acknowledged twice"
    [finished] = cluster.events(ev.JobFinished)
    assert finished.bad_records == 2 * FILES


def test_too_many_end_the_job_and_name_a_place(make_cluster: Make) -> None:
    cluster = make_cluster(allowing(0.01))
    cluster.bad = dict.fromkeys(range(FILES), 5)
    assert cluster.run() == "FAILED"
    [exceeded] = cluster.events(ev.BadRecordsExceeded)
    assert exceeded.bad > 0.01 * exceeded.records
    assert "record at offset 7" in exceeded.place
    [ending] = cluster.events(ev.JobEnding)
    assert ending.cause == "data_error"
    assert exceeded.place in ending.diagnostics
    assert "`data.max_bad_records` allows a share of 0.01" in ending.diagnostics
