"""Every benchmark runs to its end with its smallest numbers; `run.py` makes one table of all and tells by its exit."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
BOOST = Path("/usr/include/boost/unordered/unordered_flat_map.hpp")
ON_HADOOP = {"bridge", "freshness", "hdfs", "submit"}
#: Under five seconds; the others run whole jobs, a compiler, or more processes with TensorFlow.
QUICK = {"history"}
FIELDS = {"name": str, "ratio": float, "at_least": float, "ours": float, "theirs": float, "unit": str}
DEADLINE_S = 500.0


def marked(name: str) -> object:
    marks = [pytest.mark.hadoop] if name in ON_HADOOP else []
    if name not in QUICK:
        marks.append(pytest.mark.slow)
    if name == "map":
        marks.append(pytest.mark.skipif(not BOOST.exists(), reason="needs boost 1.81: .ci/system-packages boost"))
    return pytest.param(name, marks=marks)


NAMES = sorted(path.stem.removeprefix("bench_") for path in BENCHMARKS.glob("bench_*.py"))


def run(program: Path, folder: Path, **environment: str) -> tuple[int, str]:
    """How a program ended and what it wrote; nothing of it outlives the call."""
    places = {"AFO_STATE_DIR": "state", "AFO_JOBS_ROOT": "jobs", "AFO_BENCH_RESULTS": "results", "TMPDIR": "tmp"}
    (folder / "tmp").mkdir()
    given = os.environ | {name: str(folder / value) for name, value in places.items()} | environment
    output = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, program], env=given, stdout=output, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            said, _ = process.communicate(timeout=DEADLINE_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said


@pytest.mark.parametrize("name", [marked(name) for name in NAMES])
def test_a_benchmark_runs_with_its_smallest_numbers(name: str, tmp_path: Path) -> None:
    """Bars are not judged: the numbers mean nothing."""
    code, said = run(BENCHMARKS / f"bench_{name}.py", tmp_path, AFO_BENCH_SMALLEST="1")
    assert code == 0, said[-5000:]
    files = sorted((tmp_path / "results").glob("*.json"))
    assert files, said[-5000:]
    for file in files:
        assert file.stem == name or file.stem.startswith(f"{name}_")
        results = json.loads(file.read_text())
        assert results
        for entry in results:
            assert entry.keys() == FIELDS.keys()
            assert all(isinstance(entry[field], (kind, int)) for field, kind in FIELDS.items()), entry


def test_every_benchmark_can_be_small() -> None:
    lacking = [name for name in NAMES if "sized(" not in (BENCHMARKS / f"bench_{name}.py").read_text()]
    assert not lacking, "without smallest numbers (benchmarks/size.py)"


GOOD = """
from report import publish, result
publish("good", [result("quick", 1.0, 2.0, "s", 1.5, lower_is_better=True)])
"""
MISSES = """
import sys
from report import MISSED, publish, result
sys.exit(0 if publish("misses", [result("slow", 2.0, 1.0, "s", 1.5, lower_is_better=True)]) else MISSED)
"""
CRASHES = """
from report import publish, result
publish("crashes_1", [result("its first half", 1.0, 1.0, "s", 1.0, lower_is_better=True)])
raise RuntimeError("gone")
"""
SILENT = "print('nothing to compare')\n"


def benches(folder: Path, **programs: str) -> Path:
    """A folder of benchmarks with the project's `run.py`."""
    for module in ("report.py", "run.py", "size.py"):
        shutil.copy(BENCHMARKS / module, folder)
    for name, program in programs.items():
        (folder / f"bench_{name}.py").write_text(program)
    return folder / "run.py"


def test_all_end_with_one_table_that_tells_what_missed_and_what_crashed(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "older.json").write_text('[{"name": "of another day"}]')
    program = benches(tmp_path, good=GOOD, misses=MISSES, crashes=CRASHES, silent=SILENT)
    code, said = run(program, tmp_path, AFO_BENCH_SMALLEST="")
    assert code == 1
    lines = said.splitlines()
    rows = [
        line.split() for line in lines[lines.index(next(line for line in lines if line.startswith("benchmark "))) :]
    ]
    assert rows[1:-1] == [
        ["crashes", "its", "first", "half", "1.00", "1", "reached"],
        ["crashes", "ended", "with", "1", "-", "-", "CRASHED"],
        ["good", "quick", "2.00", "1.5", "reached"],
        ["misses", "slow", "0.50", "1.5", "MISSED"],
        ["silent", "nothing", "was", "compared", "-", "-"],
    ]
    assert lines[-1].startswith("2 reached, 1 MISSED, 1 CRASHED: exits with 1")


def test_all_reached_ends_with_zero(tmp_path: Path) -> None:
    code, said = run(benches(tmp_path, good=GOOD), tmp_path, AFO_BENCH_SMALLEST="")
    assert (code, said.splitlines()[-1].partition(":")[0]) == (0, "1 reached, 0 MISSED, 0 CRASHED")


def test_a_variant_that_crashes_is_told_even_if_another_misses_its_bar(tmp_path: Path) -> None:
    program = """
import sys
from report import MISSED, each_alone
sys.exit(each_alone([["missed"], ["crashed"], ["well"]]) if len(sys.argv) == 1 else
         {"missed": MISSED, "crashed": 1, "well": 0}[sys.argv[1]])
"""
    benches(tmp_path, variants=program)
    assert run(tmp_path / "bench_variants.py", tmp_path)[0] == 1


@pytest.mark.slow
def test_the_shares_of_a_step_are_told_or_what_is_missing(tmp_path: Path) -> None:
    code, said = run(BENCHMARKS / "step_shares.py", tmp_path, AFO_BENCH_SMALLEST="1")
    if shutil.which("perf") and "perf may not sample here" not in said:
        assert code == 0, said[-5000:]
        assert "| our operations |" in said
    else:
        assert code == 1


def test_without_perf_the_shares_say_so(tmp_path: Path) -> None:
    code, said = run(BENCHMARKS / "step_shares.py", tmp_path, PATH="/nowhere")
    assert (code, said) == (
        1, "the shares of a step need the program `perf` (Debian: linux-perf), which is not on this machine\n",
    )  # fmt: skip


SAMPLES = """
  9  7f6eb070746a afo::UniquePartition::Different (/x/python3.11/site-packages/afo/ops/_afo_ops.tensorflow-2.21.so)
 10  7f6eb0707000 [unknown] (/tmp/perf-10.map)
 10  ffffffff9000 tcp_sendmsg_locked ([kernel.kallsyms])
 10  ffffffff9001 futex_wake ([kernel.kallsyms])
 10  7f6eb0707001 Eigen::ThreadPoolTempl<tsl::thread::EigenEnvironment>::GlobalSteal (/x/libtensorflow_framework.so.2)
 10  7f6eb0707002 std::_Function_handler<void (long, long), Eigen::internal::TensorExecutor<> (/x/libtensorflow_cc.so.2)
 10  7f6eb0707003 tensorflow::(anonymous namespace)::ExecutorState<>::Process (/x/libtensorflow_framework.so.2)
 10  7f6eb0707004 _int_malloc (/usr/lib/libc.so.6)
 10  7f6eb0707005 strlen (/usr/lib/libc.so.6)
"""


def test_a_sample_belongs_to_the_share_of_its_library_and_function(tmp_path: Path) -> None:
    program = tmp_path / "shares.py"
    program.write_text(
        f"import json, sys\nsys.path.insert(0, {str(BENCHMARKS)!r})\nfrom step_shares import share_of\n"
        f"print(json.dumps([share_of(line) for line in {SAMPLES.strip().splitlines()!r}]))"
    )
    assert json.loads(run(program, tmp_path)[1]) == [
        "our operations",
        "generated kernels of oneDNN (the layers)",
        "kernel: network and polling",
        "kernel: switching and waking threads",
        "Eigen's thread pools looking for work",
        "TensorFlow's other kernels",
        "executor, eager runtime, rendezvous",
        "malloc",
        "rest",
    ]


def test_a_thread_belongs_to_the_kind_of_its_name(tmp_path: Path) -> None:
    program = tmp_path / "threads.py"
    program.write_text(
        f"import json, os, sys, psutil\nsys.path.insert(0, {str(BENCHMARKS)!r})\n"
        "from thread_times import kind_of, thread_times\nwhile not os.times().user > 0.2: pass\n"
        "names = ['tf_Compute', 'event_engine', 'grpcpp_sync_ser', 'python', 'lifeguard']\n"
        "print(json.dumps([*map(kind_of, names), thread_times({'worker': [psutil.Process()]})]))"
    )
    *kinds, seconds = json.loads(run(program, tmp_path)[1])
    assert kinds == ["TensorFlow's pools", "gRPC", "gRPC", "threads without a name", "other threads"]
    assert seconds["worker: main thread"] >= 0.1
