"""`python tests/support/rerun_failures.py run PYTEST_ARGUMENTS`: pytest, and each test that failed once more, alone.

A test that passes the second time is flaky: the run is green, its name, both outputs and the load are kept in
build/flaky.json, and `rerun_failures.py show` prints them. One that fails twice, or more than MOST failures, is a red
run. tests/FLAKY.md has a cause and a date for each that is known.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

BUILD = Path("build")
FAILURES, FLAKY, DURATIONS = BUILD / "failures.jsonl", BUILD / "flaky.json", BUILD / "durations.jsonl"
#: More failures than this have a cause in the code, and are not run again.
MOST = 3
#: What pytest's exit code is when tests failed and nothing else happened.
TESTS_FAILED = 1


def run(arguments: list[str]) -> int:
    """Run pytest; returns its exit code, or 0 if every failure passed when it ran again alone."""
    FAILURES.unlink(missing_ok=True)
    code = _pytest([*arguments, f"--failures-file={FAILURES}", f"--durations-file={DURATIONS}"]).returncode
    failures = _lines(FAILURES)
    if code != TESTS_FAILED or not 0 < len(failures) <= MOST:
        return code
    print(f"\n{len(failures)} failed; each runs again, alone", flush=True)
    again = [_again(each) for each in failures]
    _keep([each for each in again if each["passed"]])
    for each in again:
        print(f"{each['test']} {'is flaky, see build/flaky.json' if each['passed'] else 'failed twice'}", flush=True)
    return 0 if all(each["passed"] for each in again) else code


def show() -> int:
    """Print what passed only the second time; returns 0."""
    for each in json.loads(FLAKY.read_text()) if FLAKY.exists() else []:
        print(f"\n===== FLAKY {each['test']} (load {each['load']}) =====\n{each['first']}")
        print(f"----- the second time -----\n{each['second']}")
    return 0


def _again(failure: dict[str, str]) -> dict[str, Any]:
    load = [round(each, 1) for each in os.getloadavg()]
    done = _pytest([failure["test"], "-m", ""], capture_output=True, text=True, errors="replace")
    print(done.stdout, flush=True)
    passed = done.returncode == 0
    return {
        "test": failure["test"], "passed": passed, "load": load, "first": failure["output"], "second": done.stdout,
    }  # fmt: skip


def _pytest(arguments: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False, **options)


def _keep(records: list[dict[str, Any]]) -> None:
    before = json.loads(FLAKY.read_text()) if FLAKY.exists() else []
    if records:
        FLAKY.write_text(json.dumps(before + records, indent=1))


def _lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    sys.exit(show() if sys.argv[1:] == ["show"] else run(sys.argv[2:]))
