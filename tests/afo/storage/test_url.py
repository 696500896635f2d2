"""URLs and patterns: taken apart, joined, matched."""

import contextlib
import fnmatch
import itertools
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afo import storage
from afo.errors import StorageError, Unsupported
from afo.storage.pattern import component_matcher, escape, expand_braces, has_wildcard, unescape
from afo.storage.url import parse

names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: text not in (".", "..")
)


@pytest.mark.parametrize(
    ("url", "scheme", "prefix", "path"),
    [
        ("/data/x", "file", "", "/data/x"),
        ("//data//x/", "file", "", "/data/x"),
        ("/data/./a/../x", "file", "", "/data/x"),
        ("file:///data/x", "file", "file://", "/data/x"),
        ("file://localhost/data/x", "file", "file://", "/data/x"),
        ("hdfs://nn:9000/data/x", "hdfs", "hdfs://nn:9000", "/data/x"),
        ("hdfs://ns1/", "hdfs", "hdfs://ns1", "/"),
        ("hdfs://[fd00::1]:9000/a", "hdfs", "hdfs://[fd00::1]:9000", "/a"),
        ("hdfs:///data", "hdfs", "hdfs://", "/data"),
        ("/a b/100%25?#'\"ü", "file", "", "/a b/100%25?#'\"ü"),
    ],
)
def test_parse(url: str, scheme: str, prefix: str, path: str) -> None:
    location = parse(url)
    assert (location.scheme, location.prefix, location.path) == (scheme, prefix, path)


def test_a_relative_path_is_relative_to_the_working_directory() -> None:
    assert parse("x/y").url == os.path.join(os.getcwd(), "x/y")


@pytest.mark.parametrize("url", ["", "a\0b", "file://host/x", "hdfs://nn:9000"])
def test_what_names_no_file_is_refused(url: str) -> None:
    with pytest.raises(StorageError):
        parse(url)


def test_another_scheme_is_named_with_those_allowed() -> None:
    with pytest.raises(Unsupported, match=r"'s3' is not supported; allowed are file, hdfs"):
        parse("s3://bucket/key")


@given(st.lists(names, min_size=1), st.sampled_from(["", "file://", "hdfs://nn:9000", "hdfs://"]))
def test_parsing_a_url_again_changes_nothing(parts: list[str], prefix: str) -> None:
    once = parse(prefix + "/" + "/".join(parts))
    assert parse(once.url) == once


@given(names, names)
def test_join_is_undone_by_parent_and_name(directory: str, child: str) -> None:
    url = storage.join(f"hdfs://nn:9000/{directory}", child)
    assert storage.name(url) == child
    assert storage.parent(url) == f"hdfs://nn:9000/{directory}"


@given(st.lists(names), st.lists(names))
def test_what_is_relative_leads_to_the_same_file_also_when_both_have_moved(
    file: list[str], directory: list[str]
) -> None:
    for old, new in (("hdfs://nn:9000", "hdfs://other:9000/moved"), ("", "/moved")):
        url, start = "/".join([old, "a", *file]), "/".join([old, "a", *directory])
        reference = storage.relative(url, start)
        assert storage.resolve(start, reference) == parse(url).url
        assert storage.resolve(new + start.removeprefix(old), reference) == parse(new + url.removeprefix(old)).url


def test_on_another_file_system_nothing_is_relative() -> None:
    url = "hdfs://ns2/a/b"
    assert storage.relative(url, "hdfs://ns1/a") == storage.resolve("hdfs://ns1/a", url) == url


@pytest.mark.parametrize("part", ["/etc/passwd", "../x", "a/../../b", ".."])
def test_join_does_not_leave_the_directory(part: str) -> None:
    with pytest.raises(StorageError, match="relative path"):
        storage.join("/jobs/1", part)


@pytest.mark.parametrize(
    ("pattern", "expanded"),
    [
        ("a", ["a"]),
        ("{a,b}", ["a", "b"]),
        ("x{a,b}y", ["xay", "xby"]),
        ("{a,b}{c,d}", ["ac", "ad", "bc", "bd"]),
        ("{a{b,c},d}", ["ab", "ac", "d"]),
        ("{a/b,c}/x", ["a/b/x", "c/x"]),
        ("{,x}y", ["y", "xy"]),
        ("{a,a}", ["a"]),
        (r"\{a,b\}", [r"\{a,b\}"]),
        ("{}", [""]),
    ],
)
def test_braces(pattern: str, expanded: list[str]) -> None:
    assert expand_braces(pattern) == expanded


@pytest.mark.parametrize("pattern", ["{a,b", "a}", "{a{b}", "{0,1}" * 14, "{a}{" * 3])
def test_bad_braces_are_refused(pattern: str) -> None:
    with pytest.raises(StorageError, match="pattern"):
        expand_braces(pattern)


@given(st.lists(st.lists(st.text("ab", max_size=2), min_size=1, max_size=3), max_size=4))
def test_braces_stand_for_the_product_of_their_alternatives(groups: list[list[str]]) -> None:
    pattern = "".join("{" + ",".join(group) + "}" for group in groups)
    assert expand_braces(pattern) == list(dict.fromkeys("".join(each) for each in itertools.product(*groups)))


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("part-*", "part-00001", True),
        ("part-*", "xpart-1", False),
        ("*", ".hidden", False),
        ("*", "_SUCCESS", False),
        ("?temporary", "_temporary", False),
        ("[_a]b", "_b", False),
        ("_*", "_SUCCESS", True),
        (".*", ".hidden", True),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", False),
        ("[^a-c]x", "dx", True),
        ("[]a]x", "]x", True),
        ("[!]]x", "ax", True),
        ("[a^]x", "^x", True),
        (r"\*", "*", True),
        (r"\*", "a", False),
        ("a*", "a\nb", True),
        ("a.c", "abc", False),
    ],
)
def test_component(pattern: str, name: str, matches: bool) -> None:
    assert (component_matcher(pattern).fullmatch(name) is not None) == matches


@pytest.mark.parametrize("pattern", ["[abc", "[", "[]", "[!]", "[z-a]"])
def test_a_bad_character_class_is_refused(pattern: str) -> None:
    with pytest.raises(StorageError, match="pattern"):
        component_matcher(pattern)


@given(names)
def test_an_escaped_name_matches_itself_and_is_no_pattern(name: str) -> None:
    assert not has_wildcard(escape(name))
    assert unescape(escape(name)) == name
    assert expand_braces(escape(name)) == [escape(name)]


@given(st.text("ab*?.-", min_size=1), st.text("ab.-", min_size=1))
def test_wildcards_agree_with_fnmatch_on_visible_names(pattern: str, name: str) -> None:
    if name.startswith("."):
        return
    expected = re.fullmatch(fnmatch.translate(pattern), name) is not None
    assert (component_matcher(pattern).fullmatch(name) is not None) == expected


@given(st.text("ab*?[]!^-\\{},_.", min_size=1))
def test_any_text_is_a_pattern_or_an_error_of_ours(text: str) -> None:
    with contextlib.suppress(StorageError):
        for each in expand_braces(text):
            component_matcher(each)
