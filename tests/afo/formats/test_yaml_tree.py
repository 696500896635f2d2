import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afo.errors import NotFound, SpecError
from afo.formats.yaml_tree import MAX_BYTES, MAX_DEPTH, MAX_NODES, parse_yaml, read_yaml


def value(text: str) -> object:
    return parse_yaml(text, "f.yaml").value


def refusal(data: bytes | str) -> str:
    with pytest.raises(SpecError) as caught:
        parse_yaml(data, "f.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1e-3", 1e-3), ("-4", -4), ("0x10", 16), ("0o17", 15), ("010", 10), ("1.", 1.0), (".5", 0.5),
        ("on", "on"), ("12:30", "12:30"), ("2026-11-19", "2026-11-19"), (".nan", ".nan"), (".inf", ".inf"),
        ("true", True), ("~", None), ("'1'", "1"), ('""', ""), ("|\n 1", "1"), ("8 GiB", "8 GiB"),
    ],
)  # fmt: skip
def test_scalars_follow_the_core_schema(text: str, expected: object) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_every_value_knows_its_line() -> None:
    document = parse_yaml("a:\n  b: 1\nc:\n- x\n- {d: 2}\n", "f.yaml")
    assert document.places[("a", "b")] == "f.yaml:2"
    assert document.places[("c",)] == "f.yaml:3"
    assert document.places[("c", 1, "d")] == "f.yaml:5"
    assert document.place(("a", "b", "no such")) == "f.yaml:2"


def test_an_alias_is_expanded() -> None:
    assert value("a: &x [1]\nb: *x") == {"a": [1], "b": [1]}


def test_duplicate_keys_name_both_lines() -> None:
    message = refusal("roles:\n  ps: 1\n  ps: 2\n")
    assert message.startswith("f.yaml:3: $.roles.ps")
    assert "f.yaml:2" in message


def test_a_bomb_is_refused_before_it_goes_off() -> None:
    levels = ["a0: &a0 [" + ",".join("1" * 10) + "]"]
    levels += [f"a{n}: &a{n} [" + ",".join([f"*a{n - 1}"] * 10) + "]" for n in range(1, 12)]
    assert f"more than {MAX_NODES} values" in refusal("\n".join(levels))


def test_aliases_cannot_deepen_the_tree_beyond_the_limit() -> None:
    chain = "\n".join(["a0: &a0 1", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, MAX_DEPTH + 5))])
    assert "nested deeper" in refusal(chain)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a: &a [*a]", "alias inside of what it names"),
        ("[" * 10_000, "nested deeper"),
        ("a: !!python/object:os.system x", "tag"),
        ("a: 1e999", "too large"),
        ("? [1]\n: 2", "only text can be a key"),
        ("a: [", "not valid YAML"),
        ("a: 1\n---\nb: 2\n", "not valid YAML"),
        ("x" * (MAX_BYTES + 1), "larger than 1 MiB"),
    ],
)
def test_what_is_refused(text: str, part: str) -> None:
    message = refusal(text)
    assert message.startswith("f.yaml")
    assert part in message


def test_bytes_that_are_no_text() -> None:
    assert refusal(b"a: 1\nb: \xff").startswith("f.yaml:2: not UTF-8 at byte 8")


def test_a_missing_file_is_not_found(tmp_path: object) -> None:
    with pytest.raises(NotFound, match=r"none\.yaml"):
        read_yaml(f"{tmp_path}/none.yaml")


def refusal_or_nothing(data: bytes | str) -> str:
    try:
        parse_yaml(data, "f.yaml")
    except SpecError as error:
        return str(error)
    return ""


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_arbitrary_bytes_raise_nothing_else(data: bytes) -> None:
    message = refusal_or_nothing(data)
    assert not message or message.startswith("f.yaml")


@settings(deadline=None)
@given(st.text(alphabet="ab:-[]{}&*!?|>#'\"% \n\t,0.e\0\ud800", max_size=80))
def test_arbitrary_syntax_raises_nothing_else(text: str) -> None:
    message = refusal_or_nothing(text)
    assert not message or message.startswith("f.yaml")
