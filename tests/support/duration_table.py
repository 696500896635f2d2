"""`python tests/support/duration_table.py [--keep] [FILE]`: where the seconds of a run went, by test file, as Markdown.

FILE is what a run wrote with `--durations-file`, build/durations.jsonl unless named: a line a test. With `--keep` the
seconds of slow tests go into tests/durations.json, by which slices are dealt.
"""

import json
import sys
from collections import Counter
from pathlib import Path

DURATIONS = Path("build/durations.jsonl")
KNOWN = Path(__file__).parents[1] / "durations.json"
#: Files with a row of their own.
MOST = 20


def seconds_by_file(lines: list[str]) -> tuple[Counter[str], Counter[str]]:
    """(seconds, tests) of each file; of a test that ran twice the last time counts."""
    durations = {each["test"]: each["s"] for each in map(json.loads, lines)}
    seconds, tests = Counter[str](), Counter[str]()
    for test, took in durations.items():
        file = test.partition("::")[0]
        seconds[file] += took
        tests[file] += 1
    return seconds, tests


def table(seconds: Counter[str], tests: Counter[str]) -> str:
    """The longest first, the others in one row."""
    longest = seconds.most_common(MOST)
    others = tests.total() - sum(tests[file] for file, _ in longest)
    rest = seconds.total() - sum(took for _, took in longest)
    rows = [(f"`{file}`", tests[file], took) for file, took in longest]
    rows += [(f"{len(seconds) - len(longest)} others", others, rest), ("all", tests.total(), seconds.total())]
    lines = [f"| {name} | {count:,} | {took:,.0f} |" for name, count, took in rows]
    return "\n".join(["| file | tests | s |", "|---|---|---|", *lines])


def keep(lines: list[str], known: Path) -> None:
    """Note the seconds of slow tests beside those that are known."""
    found = {each["test"]: each["s"] for each in map(json.loads, lines) if each.get("slow")}
    merged = json.loads(known.read_text()) | found
    known.write_text(json.dumps(dict(sorted(merged.items())), indent=0) + "\n")


def main(arguments: list[str]) -> int:
    """Prints the table."""
    names = [each for each in arguments if each != "--keep"]
    lines = Path(names[0] if names else DURATIONS).read_text().splitlines()
    if "--keep" in arguments:
        keep(lines, KNOWN)
    print(table(*seconds_by_file(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
