"""What decides which tests run, and what a failure comes to."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rerun_failures
from duration_table import keep, seconds_by_file, table
from selection import DURATIONS, deal, of_day

NAMES = st.dictionaries(st.text(min_size=1, max_size=3), st.floats(0.1, 900), max_size=40)


@given(NAMES, st.floats(1, 600))
def test_every_slow_test_is_in_one_slice_and_no_slice_of_two_is_over_the_budget(
    durations: dict[str, float], budget: float
) -> None:
    slices = deal(durations, budget)
    assert sorted(name for names in slices for name in names) == sorted(durations)
    assert all(len(names) == 1 or sum(durations[each] for each in names) <= budget + 1e-6 for names in slices)


@given(NAMES, st.integers(0, 100_000))
def test_days_in_a_row_run_every_slice(durations: dict[str, float], today: int) -> None:
    slices = deal(durations, 300)
    run = [name for day in range(today, today + len(slices)) for name in of_day(slices, day)]
    assert sorted(run) == sorted(durations)


def test_the_durations_are_of_tests_that_exist() -> None:
    gone = {
        name for name in json.loads(DURATIONS.read_text()) if not (DURATIONS.parents[1] / name.split("::")[0]).exists()
    }
    assert gone == set()


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with tests of its own, and with what this suite's conftest does for it."""
    support = Path(rerun_failures.__file__).parent
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {support}\nmarkers = slow: slow\n")
    conftest = Path(__file__).with_name("conftest.py").read_text()
    (tmp_path / "conftest.py").write_text(conftest)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, rerun_failures.__file__, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


ONCE = """
from pathlib import Path
def test_once():
    seen = Path("seen")
    first = not seen.exists()
    seen.touch()
    assert not first, "the first time"
"""


def test_a_test_that_passes_the_second_time_leaves_the_run_green_and_is_shown(directory: Path) -> None:
    (directory / "test_it.py").write_text(ONCE)
    assert _run("run", "-q").returncode == 0
    (kept,) = json.loads((directory / "build/flaky.json").read_text())
    assert kept["test"] == "test_it.py::test_once"
    assert "the first time" in kept["first"]
    assert "1 passed" in kept["second"]
    shown = _run("show")
    assert shown.returncode == 0
    assert "FLAKY test_it.py::test_once" in shown.stdout


def test_a_test_that_fails_twice_is_a_red_run(directory: Path) -> None:
    (directory / "test_it.py").write_text(ONCE + "\ndef test_never():\n    assert False\n")
    assert _run("run", "-q").returncode == 1
    assert [each["test"] for each in json.loads((directory / "build/flaky.json").read_text())] == [
        "test_it.py::test_once"
    ]


def test_a_file_that_cannot_be_imported_is_a_red_run(directory: Path) -> None:
    (directory / "test_it.py").write_text("import nothing_of_this_name")
    assert _run("run", "-q").returncode != 0


def test_the_slice_of_a_day_runs_alone(directory: Path) -> None:
    (directory / "test_it.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test_it(n): pass"
    )
    runs = [_run("run", "-q", "--slice", f"{day}:60") for day in (0, 1)]
    assert all("1 passed, 3 deselected" in each.stdout for each in runs)
    lines = (directory / "build/durations.jsonl").read_text().splitlines()
    assert len({json.loads(each)["test"] for each in lines}) == 2


def test_the_seconds_of_slow_tests_are_kept(directory: Path) -> None:
    (directory / "test_a.py").write_text(
        "import pytest\ndef test_quick(): pass\n@pytest.mark.slow\ndef test_slow(): pass\n"
    )
    assert _run("run").returncode == 0
    lines = (directory / "build" / "durations.jsonl").read_text().splitlines()
    seconds, tests = seconds_by_file([*lines, lines[-1]])
    assert (list(seconds), tests) == (["test_a.py"], {"test_a.py": 2})
    assert table(seconds, tests).splitlines()[-1].startswith("| all | 2 |")
    known = directory / "durations.json"
    known.write_text('{"test_b.py::test_other": 7}')
    keep(lines, known)
    assert json.loads(known.read_text()).keys() == {"test_a.py::test_slow", "test_b.py::test_other"}
