"""What a Child finds out about its container."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from afo.errors import NotFound
from afo.protocol.task_environment import TaskEnvironment
from afo_child.container import facts
from afo_child.container.usage import UsageMeter
from afo_child.network.ports import PortReservation, stopped, unresponsive
from afo_child.process import launch


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


def test_a_preload_that_works_and_one_that_does_not() -> None:
    launch.check_preload({"LD_PRELOAD": "libm.so.6"})
    with pytest.raises(NotFound, match=r"libnowhere\.so"):
        launch.check_preload({"LD_PRELOAD": "libm.so.6:libnowhere.so"})


def test_two_reservations_differ_and_release_twice_is_nothing() -> None:
    one, other = PortReservation("h", 1), PortReservation("h", 1)
    assert one.address != other.address
    for reservation in (one, other, one):
        reservation.release()
    assert not one.held


SERVER = """
import grpc, sys
from concurrent import futures
server = grpc.server(futures.ThreadPoolExecutor(1))
print(server.add_insecure_port("[::]:0"), flush=True)
server.start()
input()
server.stop(None)
"""


def test_a_server_that_is_stopped_does_not_answer_and_one_that_lives_does() -> None:
    with subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        port = int(process.stdout.readline())
        server = psutil.Process(process.pid)
        assert unresponsive(process.pid, 30.0) == ""
        server.suspend()
        words = f"its process does not answer at port {port} within 0.5 s (stopped by a signal, state T)"
        assert unresponsive(process.pid, 0.5) == words
        server.resume()
        assert unresponsive(process.pid, 30.0) == ""
        process.communicate(b"\n")
    assert unresponsive(process.pid, 0.5) == "", "it is gone, which others say"


def test_a_process_that_was_stopped_is_told_from_one_that_waits() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert stopped(process.pid) == ""
        psutil.Process(process.pid).suspend()
        while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
            time.sleep(0.01)
        assert stopped(process.pid) == "its process stands still (stopped by a signal, state T)"
        psutil.Process(process.pid).resume()
        process.communicate(b"\n")
    assert stopped(process.pid) == ""


def test_a_process_that_listens_nowhere_is_not_said_to_be_silent() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert unresponsive(process.pid, 0.5) == ""
        process.communicate(b"\n")


def test_the_child_imports_no_tensorflow() -> None:
    code = "import sys, afo_child.main; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
