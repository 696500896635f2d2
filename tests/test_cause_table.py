"""docs/causes.md says of every cause how it was shown."""

import re
from pathlib import Path

import pytest

from afo.failures.causes import CAUSES, NEEDS_REPAIR

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "causes.md"
SHOWN = ("Child", "`local` runtime", "YARN", "simulated only")
#: Tests of the pure core play what the world does.
_SIMULATING = ("tests/am/", "tests/afo/")

_ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| (yes|no) \| ([^|]+) \| `([^`]+)` \|$", re.M)
ROWS = {match[1]: match.groups()[1:] for match in _ROW.finditer(PAGE.read_text())}


def test_every_cause_is_there_once() -> None:
    assert [match[1] for match in _ROW.finditer(PAGE.read_text())] == list(CAUSES), f"mend the table in {PAGE}"


@pytest.mark.parametrize("name", CAUSES)
def test_a_cause_is_shown_by_the_test_that_is_named(name: str) -> None:
    blame, retried, shown, file = ROWS[name]
    assert (blame, retried == "yes") == (CAUSES[name].blame, CAUSES[name].retried)
    assert shown in SHOWN
    assert file.startswith(_SIMULATING) == (shown == "simulated only"), f"{file} is no test of that kind"
    assert f'"{name}"' in (ROOT / file).read_text(), f"{file} says nothing of {name}"


def test_the_page_of_restarts_names_what_only_a_person_can_mend() -> None:
    page = (ROOT / "docs" / "restarts.md").read_text()
    named = re.search(r"\*\*What only a person can mend\*\* \(([^)]*)\)", page)
    assert named
    assert set(re.findall(r"`(\w+)`", named[1])) == NEEDS_REPAIR
