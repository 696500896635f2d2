"""What a Child finds out about its container."""

import subprocess
import sys
from pathlib import Path

from afo.protocol.task_environment import TaskEnvironment
from afo.rpc.messages import ProcessWork
from afo_child.container import facts
from afo_child.container.usage import UsageMeter


def test_usage_covers_a_process_and_keeps_the_counters_of_a_dead_one() -> None:
    meter = UsageMeter()
    code = "x = bytearray(60_000_000); s = sum(range(3_000_000)); print('up', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        before = meter.sample()
        assert process.stdout
        process.stdout.readline()
        meter.watch(process.pid)
        during = meter.sample()
        assert during.rss > before.rss + 50_000_000 or before.rss > 60_000_000
        process.communicate(b"\n")
    after = meter.sample()
    assert after.peak_rss >= during.rss
    assert after.cpu_s >= during.cpu_s
    assert after.rss < during.rss


def test_work_is_that_of_the_watched_process_alone() -> None:
    meter = UsageMeter()
    assert meter.work == ProcessWork()
    code = "open('/dev/null', 'wb').write(bytes(9_000_000)); sum(range(3_000_000)); print('up', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        meter.watch(process.pid)
        usage = meter.sample()
        assert 0 < meter.work.cpu_s < usage.cpu_s
        assert 9_000_000 < meter.work.moved_bytes < 12_000_000, "though none of it reached a disk"
        process.communicate(b"\n")
    meter.sample()
    assert meter.work == ProcessWork()


def test_the_report_has_every_fact_and_no_surprise(tmp_path: Path) -> None:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "2")
    report = facts.environment_report({"PASSWORD": "hunter2"}, TaskEnvironment(threads, ()), tmp_path)
    assert all(report.values())
    assert report["malloc_arena_max_passed"] == "unset"
    assert "hunter2" not in str(report)
