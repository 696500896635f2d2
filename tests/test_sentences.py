"""Sentences of the documentation that are held against the code: defaults, verbs, targets, counts, headings."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest

import report_ages
from afo.job import Job
from afo_am.runtime.base import Runtime
from afo_client.cli.main import afo

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
REPORTS = sorted((DOCS / "reports").glob("*.md"))

_LINK = re.compile(r"\]\(([^)\s]*)#([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.M)
_DEFAULTS = (re.compile(r"`([a-z_]+(?:\.[a-z_]+)+)`, (\d+) by default"),
             re.compile(r"`([a-z_]+(?:\.[a-z_]+)+)`[^`(.]*\(default: (\d+)"))  # fmt: skip
_TARGET = re.compile(r"`make ([a-z-]+)`\s\(`((?:tests|benchmarks)/[\w/]+\.py)`")
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to a page's headings."""
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", each) for each in _HEADING.findall(read(page)))
    return {re.sub(r"[^\w\- ]", "", each.lower()).strip().replace(" ", "-") for each in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_a_heading(page: Path) -> None:
    wanted = [
        (page.parent / file if file else page, anchor) for file, anchor in _LINK.findall(read(page)) if "//" not in file
    ]
    assert not [
        f"{file.name}#{anchor}" for file, anchor in wanted if file.suffix == ".md" and anchor not in anchors(file)
    ]


def defaults(kind: type, path: str = "") -> Iterator[tuple[str, object]]:
    """Every key of the job file with its default, as `am.attempts`."""
    for member in msgspec.structs.fields(kind):
        yield path + member.encode_name, member.default
        if isinstance(member.type, type) and issubclass(member.type, msgspec.Struct):
            yield from defaults(member.type, f"{path}{member.encode_name}.")


def test_defaults_in_sentences_are_those_of_the_job_file() -> None:
    real = dict(defaults(Job))
    said = [each for page in PAGES for pattern in _DEFAULTS for each in pattern.findall(read(page))]
    assert len(said) >= 2
    assert {key: int(number) for key, number in said} == {key: real[key] for key, _ in said}


def test_each_verb_is_in_the_table_of_commands_once() -> None:
    rows = re.findall(r"^\| (`.*?`) \|", read(DOCS / "cli.md").partition("\n## ")[0], re.M)
    words = [each.split()[0] for row in rows for each in re.findall(r"`([^`]+)`", row) if "--" not in each]
    assert sorted(words) == sorted(afo.list_commands(click.Context(afo)))


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_a_report_names_the_target_that_writes_it(report: Path) -> None:
    found = _TARGET.search(read(report))
    if found is None:
        assert re.search(r"`benchmarks/bench_\w+\.py`", read(report)), "neither a target nor a benchmark is named"
        return
    target, test = found.groups()
    assert re.search(rf"^{target}: ", read(ROOT / "Makefile"), re.M)
    assert (ROOT / test).exists()


def test_the_age_of_every_report_is_known_to_make_reports() -> None:
    assert set(report_ages.SPEAKS_OF) == {each.name for each in REPORTS}
    assert not [path for paths in report_ages.SPEAKS_OF.values() for path in paths if not (ROOT / path).exists()]


def test_the_age_of_a_report_is_counted_in_commits_that_touch_its_paths(tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    report.write_text(f"Commit {report_ages.git('rev-list', '--max-parents=0', 'HEAD').split()[-1]}, 2026-11-20")
    everything = report_ages.age(report, ())
    assert everything.touched > report_ages.age(report, ("am/afo_am/core/core.py",)).touched > 0
    report.write_text("Commit 0123456789abcdef, 2026-11-20")
    assert "names no commit" in report_ages.table([report_ages.age(report, ())])


def test_the_modules_that_use_skein_are_those_that_its_page_names() -> None:
    page = read(DOCS / "adr" / "0007-skein.md")
    users = {
        str(file.relative_to(ROOT))
        for program in ("afo", "am", "child", "client", "history_server")
        for file in (ROOT / program).rglob("*.py")
        if re.search(r"^\s*(import|from) skein\b", read(file), re.M)
    }
    assert users == {each for each in re.findall(r"`([\w/]+\.py)`", page) if each in users or "skein" in each}
    assert f"skein appears in {_NUMBERS[len(users) - 1]} modules" in page


def test_the_number_of_calls_of_a_runtime_is_said_rightly() -> None:
    calls = [name for name, value in vars(Runtime).items() if callable(value) and not name.startswith("_")]
    for page in (DOCS / "runtimes.md", DOCS / "adr" / "0007-skein.md"):
        said = [word for word in re.findall(r"\b(\w+) calls\b", read(page)) if word in _NUMBERS]
        assert said
        assert set(said) == {_NUMBERS[len(calls) - 1]}
