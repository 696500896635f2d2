"""Rules of `hadoop.security.auth_to_local`.

`tests/integration/kerberos/test_tickets.py` compares them with Hadoop's own.
"""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afo.errors import SpecError
from afo.hadoop.auth_to_local import user

CORP = "RULE:[1:$1@$0](.*@CORP)s/@.*//"


@pytest.mark.parametrize(
    ("principal", "rules", "expected"),
    [
        ("alice@OWN", "", "alice"),
        ("alice@OWN", "DEFAULT", "alice"),
        ("nn/host@OWN", "DEFAULT", "nn"),
        ("bob@CORP", "DEFAULT", None),
        ("bob@CORP", f"{CORP} DEFAULT", "bob"),
        ("Bob@CORP", f"{CORP}/L", "bob"),
        ("bob/host@CORP", f"{CORP} DEFAULT", None),
        ("nn/host@OWN", "RULE:[2:$1;$2](nn;.*)s/(.*);(.*)/$2-$1/", "host-nn"),
        ("a.b.c@OWN", "RULE:[1:$1]s/[.]/_/", "a_b.c"),
        ("a.b.c@OWN", "RULE:[1:$1]s/[.]/_/g", "a_b_c"),
        ("bob@CORP", "RULE:[1:$1@$0]", None),
    ],
)
def test_whom_they_make_of_a_principal(principal: str, rules: str, expected: str | None) -> None:
    assert user(principal, rules, "OWN") == expected


def test_mit_s_mechanism_keeps_names_that_are_not_simple() -> None:
    assert user("bob@CORP", "RULE:[1:$1@$0]", "OWN", "MIT") == "bob@CORP"


@pytest.mark.parametrize("rules", ["RULE", "RULE:[1:$1](.*s/a/b/", "RULE:[1:$7]", "RULE:[1:$1]([)", "DEFAULT nonsense"])
def test_rules_that_cannot_be_read(rules: str) -> None:
    with pytest.raises(SpecError, match=r"hadoop\.security\.auth_to_local"):
        user("bob@CORP", rules, "OWN")


@given(
    st.text("ab@/OWN.", max_size=12),
    st.text("RULE:[12]$0()s/.*@ab gLDEFAULT\\\n", max_size=40)
    | st.builds(CORP.__add__, st.text("LsDEFAULT /", max_size=9)),
)
def test_nothing_else_is_raised(principal: str, rules: str) -> None:
    with contextlib.suppress(SpecError):
        user(principal, rules, "OWN")
