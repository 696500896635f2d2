"""How an AM with a keytab keeps delegation tokens fresh, with a NameNode that is a function."""

import time
from pathlib import Path

import pytest

from afo.errors import ClusterUnreachable, NotFound
from afo.hadoop import delegation_tokens, webhdfs
from afo.hadoop.delegation_tokens import Token
from afo.rpc import messages as m
from afo_am.engine.tokens import TokenKeeper

HDFS = Token(b"old", b"p", delegation_tokens.HDFS, "10.0.0.1:8020")
MANAGER = Token(b"manager", b"p", delegation_tokens.RESOURCE_MANAGER, "10.0.0.1:8032")
TASK = m.TokensRequest(task=m.TaskId(role="worker", index=0, attempt=0))


class NameNode:
    """Gives tokens that are good for `life_s`, unless it is away."""

    def __init__(self) -> None:
        self.given, self.away, self.life_s = 0, False, 3600.0

    def new_token(self, service: str, user: str) -> tuple[Token, float]:
        """As `webhdfs.new_token`."""
        if self.away:
            raise ClusterUnreachable("away")
        self.given += 1
        return Token(
            b"%d of %s" % (self.given, user.encode()), b"p", delegation_tokens.HDFS, service
        ), time.time() + self.life_s


@pytest.fixture
def name_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NameNode:
    """With a container's file of tokens, and tokens whose last day is far."""
    node = NameNode()
    monkeypatch.setattr(webhdfs, "new_token", node.new_token)
    monkeypatch.setattr(delegation_tokens, "last_day", lambda _: time.time() + 7 * 86400)
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(tmp_path / "tokens"))
    delegation_tokens.replace(delegation_tokens.encode((HDFS, MANAGER)))
    return node


def directive(keeper: TokenKeeper) -> m.Directive:
    """What a Child hears."""
    reply = keeper.wrap_handler(lambda _: m.Directive(action="wait", generation=1))(m.Empty())
    assert isinstance(reply, m.Directive)
    return reply


def test_new_tokens_take_the_place_of_those_for_hdfs(name_node: NameNode) -> None:
    keeper = TokenKeeper("alice")
    with pytest.raises(NotFound, match="YARN's are in the container"):
        keeper.give(TASK)
    assert directive(keeper).tokens == 0
    keeper.start()
    try:
        assert set(delegation_tokens.load_tokens()) == {MANAGER, HDFS._replace(identifier=b"1 of alice")}
        assert directive(keeper).tokens == 1
        reply = keeper.give(TASK)
        assert (reply.number, set(delegation_tokens.parse(reply.content))) == (1, set(delegation_tokens.load_tokens()))
    finally:
        keeper.stop()


def test_they_are_obtained_again_well_before_their_end(name_node: NameNode) -> None:
    name_node.life_s = 4.0
    keeper = TokenKeeper("alice")
    keeper.start()
    try:
        deadline = time.monotonic() + 30
        while name_node.given < 3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        keeper.stop()
    given = name_node.given
    time.sleep(2.5)
    assert name_node.given == given, "and no more after the end"


def test_a_namenode_that_is_away_is_asked_again_and_the_old_ones_stay(
    name_node: NameNode, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("afo_am.engine.tokens._RETRY_S", 0.2)
    name_node.away = True
    keeper = TokenKeeper("alice")
    keeper.start()
    try:
        assert delegation_tokens.load_tokens() == (HDFS, MANAGER)
        assert directive(keeper).tokens == 0
        assert "no new delegation tokens, trying again in 0.2 s: away" in caplog.text
        name_node.away = False
        deadline = time.monotonic() + 30
        while not directive(keeper).tokens:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        keeper.stop()
    assert HDFS not in delegation_tokens.load_tokens()
