"""What a Child finds out about its container."""

import subprocess
import sys
from pathlib import Path

import pytest

from afo.protocol.task_environment import TaskEnvironment
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


def test_memory_limit_and_kills_of_both_kinds_of_control_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "_CGROUP_ROOT", tmp_path)
    for path, text in {
        "a/memory.max": "1073741824\n",
        "a/memory.events": "low 0\nhigh 0\nmax 5\noom 2\noom_kill 2\n",
        "memory/b/memory.limit_in_bytes": "9223372036854771712\n",
        "memory/b/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        "c/memory.max": "max\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert (facts.memory_limit("0::/a\n"), facts.memory_kills("0::/a\n")) == (1 << 30, 2)
    assert (facts.memory_limit("4:memory:/b\n"), facts.memory_kills("4:memory:/b\n")) == (None, 3)
    assert (facts.memory_limit("0::/c\n"), facts.memory_kills("0::/nowhere\n")) == (None, 0)


def test_the_report_has_every_fact_and_no_surprise(tmp_path: Path) -> None:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "2")
    report = facts.environment_report({"PASSWORD": "hunter2"}, TaskEnvironment(threads, ()), tmp_path)
    assert all(report.values())
    assert report["malloc_arena_max_passed"] == "unset"
    assert "hunter2" not in str(report)
