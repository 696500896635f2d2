"""Models that `afo serve` copies from a real HDFS."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afo import storage
from afo_client.hadoop import Cluster
from incremental_versions import Answered, ExportedVersions
from processor_build import require_model_server
from served_models import ServedModels, predict_request, scores_in

pytestmark = [pytest.mark.hadoop, pytest.mark.tensorflow]

ANY_PORT = "grpc: {address: '127.0.0.1:0'}\nrest: {address: '127.0.0.1:0'}\n"


class Relay:
    """A way to the NameNode that can be cut, for the cluster is not this test's alone."""

    def __init__(self, to: tuple[str, int]) -> None:
        self._to, self._ends = to, list[socket.socket]()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        for end in (self._listener, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                ends = self._listener.accept()[0], socket.create_connection(self._to)
                self._ends += ends
                for one, other in (ends, ends[::-1]):
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    @staticmethod
    def _pass_on(one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                other.sendall(data)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> ExportedVersions:
    require_model_server()
    return ExportedVersions(tmp_path_factory.mktemp("exported"))


@pytest.fixture
def relay(hadoop: Cluster) -> Iterator[Relay]:
    host, _, port = hadoop.hdfs_uri.removeprefix("hdfs://").partition(":")
    relay = Relay((host, int(port)))
    yield relay
    relay.cut()


@pytest.fixture
def remote(hadoop: Cluster) -> Iterator[str]:
    url = f"{hadoop.hdfs_uri}/tests/models/ctr"
    yield url
    storage.delete(url, recursive=True)


def put(version: Answered, base_path: str) -> None:
    """Under another name, and then under its own, as an export does."""
    beside = f"{base_path}/.{version.number}.tmp"
    for file in Path(version.url).rglob("*"):
        if file.is_file():
            storage.upload(str(file), f"{beside}/{file.relative_to(version.url)}")
    storage.rename(beside, f"{base_path}/{version.number}")


def test_versions_in_hdfs_are_copied_and_outlast_it(
    exported: ExportedVersions, relay: Relay, remote: str, hadoop: Cluster, tmp_path: Path
) -> None:
    """A whole version, then one with changes since it, then no NameNode: also for a server that starts then."""
    path = remote.removeprefix(hadoop.hdfs_uri)
    config = tmp_path / "serving.yaml"
    config.write_text(
        f"models: [{{name: ctr, base_path: 'hdfs://{relay.address}{path}'}}]\n{ANY_PORT}cache_directory: cache\n"
    )
    versions = [exported.export({1: 1.0, 2: -1.0, 3: 0.5}), exported.export({1: 2.0, 4: 1.0})]
    put(versions[0], remote)
    with ServedModels("--config", str(config), log=tmp_path / "log") as server:
        server.said("serving a version")
        assert_answers(server, exported, versions[0])
        put(versions[1], remote)
        server.said(f'msg="serving a version" model=ctr version={versions[1].number} ')
        assert_answers(server, exported, versions[1])
        relay.cut()
        server.said("cannot be asked")
        assert_answers(server, exported, versions[1])
    with ServedModels("--config", str(config), log=tmp_path / "log-again") as server:
        server.said("serving a version")
        assert_answers(server, exported, versions[1])


def assert_answers(server: ServedModels, exported: ExportedVersions, version: Answered) -> None:
    with server.channel() as channel:
        response = predict(channel, exported.records)
    assert response.model_spec.version.value == version.number
    np.testing.assert_array_equal(scores_in(response), version.scores)


def predict(channel: Any, records: list[bytes]) -> Any:
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    return prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(predict_request(records), timeout=20)
