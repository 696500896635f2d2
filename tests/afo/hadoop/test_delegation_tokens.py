"""Files of delegation tokens, by another writer of the format; and what is said of those that are damaged."""

import base64
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afo.errors import ProtocolError, StorageError
from afo.hadoop import delegation_tokens
from afo.hadoop.delegation_tokens import Token

TOKENS = st.lists(
    st.builds(Token, st.binary(max_size=400), st.binary(max_size=40), st.text(max_size=30), st.text(max_size=30))
)


def number(value: int) -> bytes:
    """Hadoop's variable-length integer, of any size."""
    if value < 128:
        return struct.pack("b", value)
    body = value.to_bytes(8).lstrip(b"\0")
    return struct.pack("b", -112 - len(body)) + body


def written(tokens: list[Token]) -> bytes:
    """As Java writes it, without secrets."""
    fields = [
        field
        for token in tokens
        for field in (b"alias", token.identifier, token.password, token.kind.encode(), token.service.encode())
    ]
    return b"HDTS\0" + number(len(tokens)) + b"".join(number(len(each)) + each for each in fields) + number(0)


@given(TOKENS)
def test_what_is_written_is_read(tokens: list[Token]) -> None:
    assert delegation_tokens.parse(written(tokens)) == tuple(tokens)


@given(st.builds(Token, st.binary(max_size=400), st.binary(max_size=300), st.text(max_size=9), st.text(max_size=9)))
def test_the_text_for_rest_holds_the_token(token: Token) -> None:
    text = token.url_text
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    body = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert written([token]) == b"HDTS\0" + number(1) + number(5) + b"alias" + body + number(0)


@given(TOKENS.filter(bool), st.data())
def test_a_file_that_is_cut_off_is_none(tokens: list[Token], data: st.DataObject) -> None:
    whole = written(tokens)[:-1]
    with pytest.raises(ValueError, match=r"it ends at byte|it begins with"):
        delegation_tokens.parse(whole[: data.draw(st.integers(0, len(whole) - 1).filter(lambda size: size != 4))])


@given(st.binary())
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with suppress(ValueError):
        delegation_tokens.parse(b"HDTS\0" + content)


def test_files_of_protobuf_are_left_to_who_reads_them() -> None:
    assert delegation_tokens.parse(b"HDTS\1anything") == ()


def test_the_file_is_the_one_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_TOKEN_FILE_LOCATION", raising=False)
    assert delegation_tokens.load_tokens() == ()
    token, path = Token(b"who", b"secret", "RM_DELEGATION_TOKEN", "host:1"), tmp_path / "tokens"
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(path))
    with pytest.raises(StorageError, match="No such file"):
        delegation_tokens.load_tokens()
    path.write_bytes(written([token]))
    assert delegation_tokens.load_tokens() == (token,)
    path.write_bytes(written([token])[:-4])
    with pytest.raises(StorageError, match=r"HADOOP_TOKEN_FILE_LOCATION, .*tokens: it ends at byte"):
        delegation_tokens.load_tokens()


@given(TOKENS)
def test_what_is_read_is_written(tokens: list[Token]) -> None:
    assert delegation_tokens.parse(delegation_tokens.encode(tuple(tokens))) == tuple(tokens)
    assert [delegation_tokens.of_url_text(token.url_text) for token in tokens] == tokens


@given(st.text(max_size=60))
def test_any_text_is_a_token_or_refused(text: str) -> None:
    with suppress(ProtocolError):
        delegation_tokens.of_url_text(text)


def test_the_last_day_of_a_token() -> None:
    day = 1_795_424_699_396
    who = b"".join(number(len(each)) + each for each in (b"alice@AFO.TEST", b"yarn", b""))
    token = Token(b"\0" + who + number(1_795_400_000_000) + number(day) + number(3) + number(2), b"", "kind", "h:1")
    assert delegation_tokens.last_day(token) == day / 1000
    with pytest.raises(ProtocolError, match="token for h:1 is not understood"):
        delegation_tokens.last_day(token._replace(identifier=token.identifier[:20]))


def test_a_file_is_replaced_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(b"old")
    (tmp_path / ".tokens.new").write_bytes(b"of one who died while writing")
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(path))
    with path.open("rb") as reader:
        delegation_tokens.replace(b"new")
        assert reader.read() == b"old"
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o600)
    assert [each.name for each in tmp_path.iterdir()] == ["tokens"]
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(tmp_path / "no" / "such"))
    with pytest.raises(StorageError, match="cannot replace the delegation tokens"):
        delegation_tokens.replace(b"new")
