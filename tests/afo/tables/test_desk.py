"""Requests to the desk: their words and versions, what becomes of an error, and a process in which nobody answers."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

from afo import embedding, errors  # noqa: E402
from afo.embedding import desk_client  # noqa: E402
from afo.errors import AfoError, DataError, NoSpaceLeft, ProtocolError, StorageError  # noqa: E402
from afo.ops import own_tables  # noqa: E402
from afo.ops.library import load  # noqa: E402
from afo.rpc.messages import ServerPart  # noqa: E402
from afo.tables import desk, desk_messages  # noqa: E402
from afo.tables.desk_messages import Failed, LoadRequest, SavedRows, SaveRequest, Stopped, StopRequest  # noqa: E402
from afo.tables.saved_tables import RowsFile, TablesManifest  # noqa: E402
from afo.tables.slot_map import SlotMap  # noqa: E402

pytestmark = pytest.mark.tensorflow

SAVE = SaveRequest(url="hdfs://n/c", server=1, parts=4, since=(-1, 7))
MANIFEST = TablesManifest(version=4, servers=2, base=None, tables=(), files=(RowsFile("rows-0000-0.afo", 0, 1, 2),))


@pytest.mark.parametrize(
    "request_",
    [
        SAVE,
        LoadRequest(
            server=0,
            slots=SlotMap((0, 5, 5), version=1),
            sources=(desk_messages.Source("u", MANIFEST),),
            targets=(desk_messages.Target(0, 1),),
        ),
        StopRequest(),
    ],
)
def test_a_request_arrives_as_it_was(request_: Any) -> None:
    assert desk_messages.decode_request(desk_messages.encode(request_)) == request_


def test_an_answer_arrives_as_it_was() -> None:
    answer = SavedRows(files=MANIFEST.files, times=ServerPart(server=1, bytes=5, read_s=0.5, write_s=1.5))
    assert desk_messages.decode_answer(desk_messages.encode(answer)) == answer


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            b'{"type": "save", "version": 1, "more": 1}',
            "a save or load request of version 1 reached a process that knows 2",
        ),
        (b'{"type": "save", "version": 2, "url": "u", "server": 0, "parts": 1, "since": [], "x": 1}', "unknown field"),
        (b'{"type": "drop", "version": 2}', "this is no save or load request: Invalid value 'drop'"),
        (b'{"type": "save", "version": 2, "url": "u", "server": -1, "parts": 1, "since": []}', ">= 0"),
        (b'{"type": "save", "version": 2, "url": "u", "server": 0, "parts": 0, "since": []}', ">= 1"),
        (
            b'{"type": "load", "version": 2, "server": 2, "slots": {"starts": [0, 9]}, "sources": [], "targets": []}',
            "a load request is for server 2, and its slot map has 2 servers",
        ),
        (
            b'{"type": "load", "version": 2, "server": 0, "slots": {"starts": [3]}, "sources": [], "targets": []}',
            "this is no save or load request: the first start of a slot map is 3; give 0",
        ),
        (b'{"type": "save", "version": 2, "url": "u", "server": 0, "parts": 1, "since": [18446744073709551615]}', "<="),
        (
            b'{"type": "load", "version": 2, "server": 0, "slots": {"starts": [0]}, "sources": [],'
            b' "targets": [{"saved": 0, "number": 4294967296}]}',
            "<= 2147483647",
        ),
        (b'{"type": "stop"}', "missing required field `version`"),
        (b"\xff", "this is no save or load request"),
        (b"", "this is no save or load request"),
    ],
)
def test_what_is_no_request_of_this_version_is_refused(words: bytes, said: str) -> None:
    with pytest.raises(ProtocolError, match="(?s)" + said.replace("(", "\\(")) as caught:
        desk_messages.decode_request(words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (DataError("d"), DataError("d")),
        (NoSpaceLeft("full"), NoSpaceLeft("full")),
        (errors.ClusterUnreachable("gone"), errors.ClusterUnreachable("gone")),
        (ZeroDivisionError("zero"), AfoError("ZeroDivisionError: zero")),
    ],
)
def test_an_error_of_the_server_is_raised_by_the_client(error: Exception, expected: Exception) -> None:
    failed = desk_messages.decode_answer(desk_messages.encode(desk_messages.failure_of(error)))
    assert isinstance(failed, Failed)
    raised = desk_client.error_of(failed)
    assert (type(raised), str(raised)) == (type(expected), str(expected))


def test_a_class_that_afo_does_not_have_and_a_server_without_memory() -> None:
    assert str(desk_client.error_of(Failed(error="Exotic", text="x"))) == "x"
    assert type(desk_client.error_of(Failed(error="errno", text="x"))) is AfoError
    failed = desk_messages.failure_of(MemoryError("no memory is left"))
    assert isinstance(desk_client.error_of(failed), tf.errors.ResourceExhaustedError)


class TestInThisProcess:
    def group(self, new_group: Any) -> Any:
        group = new_group(1)
        embedding.get_embedding_variable("user", 4, group=group)
        return group

    def test_where_nobody_answers_a_request_is_refused_at_once(self, new_group: Any) -> None:
        handle = self.group(new_group).link(0).handle()
        with pytest.raises(tf.errors.UnimplementedError, match="nobody in this server's process saves or loads"):
            load().afo_ask_desk(handle, "me", desk_messages.encode(SAVE))

    def test_a_malformed_request_is_answered_by_an_error(self, new_group: Any) -> None:
        with pytest.raises(ProtocolError, match="this is no save or load request"):
            raise answered(self.group(new_group), b"{}")

    def test_the_answer_to_a_long_request_is_short(self, new_group: Any) -> None:
        words = b'{"type": "%s", "version": 2}' % (b"x" * (3 << 20))
        with pytest.raises(ProtocolError, match="this is no save or load request") as caught:
            raise answered(self.group(new_group), words)
        assert len(str(caught.value)) <= 4000

    def test_a_table_of_a_number_that_is_none(self, new_group: Any) -> None:
        """Table 0 is there, and no other that has its low bits."""
        handle, found = self.group(new_group).link(0).handle(), list[str]()

        def answer() -> None:
            taken = None
            while taken is None:
                taken = own_tables.take(0.1)
            try:
                for number in (1 << 32, -(1 << 32)):
                    with pytest.raises(own_tables.Refusal) as caught:
                        taken[0].export_block(number, 0, 1, 1 << 20, -1, 0)
                    found.append(str(caught.value))
            finally:
                taken[0].answer(b"done")

        own_tables.open_desk()
        attendant = threading.Thread(target=answer)
        attendant.start()
        try:
            load().afo_ask_desk(handle, "me", b"")
        finally:
            attendant.join()
            own_tables.close_desk()
        assert found == [f"there is no embedding table {number} on this server" for number in (1 << 32, -(1 << 32))]

    def test_a_request_that_does_not_reach_the_desk_ends_the_attendant(self) -> None:
        with pytest.raises(tf.errors.NotFoundError), desk.attended():
            load().afo_ask_desk(load().afo_embedding_tables(shared_name="no such tables"), "me", b"")

    def test_what_does_not_fit_the_tables_is_an_error(self, new_group: Any, tmp_path: Path) -> None:
        group = self.group(new_group)
        with pytest.raises(errors.ClusterUnreachable, match="there is no embedding table 1 on this server"):
            desk_client.ask(group, {0: SaveRequest(url=str(tmp_path), server=0, parts=1, since=(-1, -1))}, SavedRows)
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(errors.NotFound, match="none"):
            desk_client.ask(
                group, {0: SaveRequest(url=f"{tmp_path}/none", server=0, parts=1, since=(-1,))}, SavedRows
            )  # fmt: skip
        with pytest.raises(ProtocolError, match="server 0 answered SavedRows to SaveRequest"):
            desk_client.ask(
                group,
                {0: SaveRequest(url=str(tmp_path), server=0, parts=1, since=(-1,))},
                desk_messages.LoadedRows,
            )

    def test_whoever_attends_answers_others_too_and_none_waits_for_ever(self, new_group: Any) -> None:
        """An attendant whose own request another has answered left, and the other answered no second one."""
        group = new_group(6)
        embedding.get_embedding_variable("user", 4, group=group)
        began = time.monotonic()
        for _ in range(200):
            requests = {server: StopRequest() for server in range(6)}
            assert len(desk_client.ask(group, requests, Stopped)) == 6
        assert time.monotonic() - began < 60

    def test_an_error_of_one_ends_all_and_is_the_one_that_is_raised(self, new_group: Any, tmp_path: Path) -> None:
        group = new_group(3)
        embedding.get_embedding_variable("user", 4, group=group)
        (tmp_path / "rows-0001-0.afo").mkdir()
        requests = {
            server: SaveRequest(url=str(tmp_path), server=server, parts=3, since=(-1,)) for server in range(3)
        }  # fmt: skip
        with pytest.raises(StorageError, match=r"rows-0001-0\.afo: it is a directory"):
            desk_client.ask(group, requests, SavedRows)


def answered(group: Any, words: bytes) -> Exception:
    with desk.attended():
        answer = load().afo_ask_desk(group.link(0).handle(), "me", words).numpy()
    failed = desk_messages.decode_answer(answer)
    assert isinstance(failed, Failed)
    return desk_client.error_of(failed)
