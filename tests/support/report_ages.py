"""`make reports`: how old each report is, in commits since that touched what it speaks of.

A report names the commit that it was written on. One without a commit that is in the history is of an unknown age.
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "docs" / "reports"

#: What every training job runs.
_TRAINING = (
    "afo/core", "afo/ops", "afo/embedding", "afo/layers", "afo/optimizers", "afo/models", "afo/train", "afo/data",
)  # fmt: skip
_JOB = (*_TRAINING, "afo/rpc", "afo/storage", "am", "child")
#: Of each report, folders and files whose change makes it older.
SPEAKS_OF = {
    "bench-part8.md": (*_JOB, "benchmarks"),
    "bridge-part7.md": ("am/afo_am/runtime", "client/afo_client/runtimes/yarn", "benchmarks/bench_bridge.py"),
    "equivalence-part2.md": (*_TRAINING, "conf/models"),
    "faults-part3.md": _JOB,
    "pairs-part7.md": ("afo/storage", "am", "child", "client/afo_client/runtimes/yarn"),
    "secured-faults-part7.md": (*_JOB, "afo/hadoop/kerberos.py", "afo/hadoop/delegation_tokens.py"),
    "soak-part1.md": _JOB,
    "soak-part3.md": _JOB,
    "soak-serving.md": (*_JOB, "afo/serving", "afo/trainable/served", "model_server", "benchmarks/serving_soak"),
    "stock-tensorflow-part3.md": _JOB,
    "structure-part10.md": ("afo", "am", "child", "client", "history_server"),
    "suite-part8.md": ("tests", ".ci", "Makefile"),
    "versions-part7.md": (
        "afo/storage",
        "am/afo_am/runtime",
        "client/afo_client/runtimes/yarn",
        "client/afo_client/hadoop",
    ),
}
_COMMIT = re.compile(r"\bcommit ([0-9a-f]{7,40})\b", re.I)


@dataclass(frozen=True)
class Age:
    """A report, the commit it names (empty: none that is in the history), its day, and how many came since."""

    report: str
    commit: str
    day: str
    touched: int


def age(report: Path, paths: tuple[str, ...]) -> Age:
    """The age of one report, by the newest of the commits that it names."""
    known = [each for each in _COMMIT.findall(report.read_text(encoding="utf-8")) if git("merge-base", each, "HEAD")]
    if not known:
        return Age(report.name, "", "", 0)
    newest = min(known, key=lambda each: len(_since(each, ())))
    return Age(report.name, newest, git("show", "-s", "--format=%cs", newest), len(_since(newest, paths)))


def _since(commit: str, paths: tuple[str, ...]) -> list[str]:
    return git("rev-list", f"{commit}..HEAD", "--", *paths).split()


def git(*arguments: str) -> str:
    """What git answers about this repository; nothing for what it does not know."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def table(ages: list[Age]) -> str:
    """The reports, oldest first."""
    lines = [f"{'report':28} {'commit':9} {'day':11} commits since that touch what it speaks of"]
    for each in sorted(ages, key=lambda each: (bool(each.commit), -each.touched)):
        since = str(each.touched) if each.commit else "unknown: it names no commit of this history"
        lines.append(f"{each.report:28} {each.commit or '-':9} {each.day or '-':11} {since}")
    return "\n".join(lines)


def main() -> int:
    """Prints the table."""
    print(table([age(REPORTS / name, paths) for name, paths in SPEAKS_OF.items()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
