"""The model server with real models, asked by TensorFlow Serving's own client and by HTTP."""

import base64
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from afo.serving import Processor
from incremental_versions import ExportedVersions
from processor_build import require_model_server
from served_models import REQUEST_S, ServedModels, predict_request, scores_in
from training_job import wait_until

pytestmark = pytest.mark.tensorflow

ANY_PORT = ("--grpc-port", "0", "--rest-port", "0")
TOKEN = "correct-horse-battery"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> ExportedVersions:
    """A whole version and one with changes, and a third that is not there yet."""
    require_model_server()
    return ExportedVersions(tmp_path_factory.mktemp("exported"))


@pytest.fixture(scope="module")
def first(exported: ExportedVersions) -> Any:
    return exported.export({1: 1.0, 2: -1.0, 3: 0.5})


@pytest.fixture(scope="module")
def served(exported: ExportedVersions, first: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedModels]:
    log = tmp_path_factory.mktemp("server") / "log"
    with ServedModels(f"ctr={exported.base_path}", *ANY_PORT, log=log) as server:
        server.said("serving a version")
        yield server


@pytest.fixture(scope="module")
def channel(served: ServedModels) -> Iterator[grpc.Channel]:
    with served.channel() as opened:
        yield opened


def predict(channel: grpc.Channel, request: Any, **options: Any) -> Any:
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    return prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(request, timeout=REQUEST_S, **options)


def test_tensorflow_servings_client_gets_the_processors_answers(
    exported: ExportedVersions, first: Any, channel: grpc.Channel
) -> None:
    response = predict(channel, predict_request(exported.records))
    np.testing.assert_array_equal(scores_in(response), first.scores)
    assert (response.model_spec.name, response.model_spec.version.value) == ("ctr", first.number)
    assert response.model_spec.signature_name == "serving_default"


def test_its_metadata_and_status_are_those_of_tensorflow_serving(first: Any, channel: grpc.Channel) -> None:
    from tensorflow_serving.apis import (
        get_model_metadata_pb2,
        get_model_status_pb2,
        model_service_pb2_grpc,
        prediction_service_pb2_grpc,
    )

    asked = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    asked.model_spec.name = "ctr"
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    found = get_model_metadata_pb2.SignatureDefMap()
    assert stub.GetModelMetadata(asked, timeout=REQUEST_S).metadata["signature_def"].Unpack(found)
    assert sorted(found.signature_def) == ["predict", "serving_default"]
    assert found.signature_def["serving_default"].inputs["examples"].dtype == 7  # DT_STRING
    status = get_model_status_pb2.GetModelStatusRequest()
    status.model_spec.name = "ctr"
    [version] = (
        model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(status, timeout=REQUEST_S).model_version_status
    )
    assert (version.version, version.state) == (first.number, get_model_status_pb2.ModelVersionStatus.AVAILABLE)


@pytest.mark.parametrize(("model", "version", "words"), [("cvr", None, "ctr"), ("ctr", 4, "4")])
def test_what_is_not_served_is_not_found(
    exported: ExportedVersions, channel: grpc.Channel, model: str, version: int | None, words: str
) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        predict(channel, predict_request(exported.records[:1], model, version))
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND
    assert words in refused.value.details()


def test_a_record_that_is_damaged_is_the_requests_fault(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError, match="record 0 of the batch: is no ") as refused:
        predict(channel, predict_request([b"junk"]))
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_rest_answers_rows_and_columns(exported: ExportedVersions, first: Any, served: ServedModels) -> None:
    records = [{"b64": base64.b64encode(record).decode()} for record in exported.records]
    expected = [float(score) for score in first.scores]
    status, rows = served.rest("/v1/models/ctr:predict", {"instances": records})
    assert (status, list(rows)) == (200, ["predictions"])
    np.testing.assert_array_equal(np.float32(rows["predictions"]), np.float32(expected))
    path = f"/v1/models/ctr/versions/{first.number}:predict"
    status, columns = served.rest(path, {"signature_name": "serving_default", "inputs": records})
    assert (status, columns["outputs"]) == (200, rows["predictions"])
    features = {"user": [3], "city": ["Ulm"], "liked": [3, 21], "age": [23.0], "net_income": [1000.0]}
    status, answer = served.rest("/v1/models/ctr:predict", {"signature_name": "predict", "instances": [features]})
    assert status == 200
    assert 0 < answer["predictions"][0] < 1
    features["age"] = [23.5, 1]
    status, answer = served.rest("/v1/models/ctr:predict", {"signature_name": "predict", "instances": [features]})
    assert (status, "age" in answer["error"]) == (400, True)


def test_rest_says_which_versions_there_are(first: Any, served: ServedModels) -> None:
    status, answer = served.rest("/v1/models/ctr")
    assert status == 200
    assert answer["model_version_status"] == [
        {"version": str(first.number), "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    ]
    assert served.rest("/v1/models/cvr")[0] == 404
    assert served.rest("/v1/models/ctr:predict", {"instances": []})[0] == 400


def test_versions_change_under_requests_and_none_fails(exported: ExportedVersions, first: Any, tmp_path: Path) -> None:
    """Versions with changes come, and go, while clients ask; at the end the server answers what it has begun."""
    failed: list[Any] = []
    answers: dict[int, set[bytes]] = {}
    over, versions = threading.Event(), [first]

    def ask(channel: grpc.Channel) -> None:
        while not over.is_set():
            try:
                response = predict(channel, predict_request(exported.records))
            except grpc.RpcError as error:
                failed.append(error.details())
                return
            answers.setdefault(response.model_spec.version.value, set()).add(scores_in(response).tobytes())

    with ServedModels(f"ctr={exported.base_path}", *ANY_PORT, log=tmp_path / "log") as server, server.channel() as to:
        server.said("serving a version")
        threads = [threading.Thread(target=ask, args=(to,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(3):
            versions.append(exported.export({1: 2.0 + number, number + 4: 1.0}))
            server.said(f"version={versions[-1].number} ")
        over.set()
        for thread in threads:
            thread.join()
        assert failed == []
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
        assert "stopping once the requests under way are answered" in server.log.read_text()
    expected = {version.number: {version.scores.tobytes()} for version in versions}
    assert len(answers) >= 2
    assert answers == {number: expected[number] for number in answers}


def test_tokens_tls_labels_and_the_access_log(exported: ExportedVersions, first: Any, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"# who may ask\nranking {TOKEN}\n")
    tokens.chmod(0o600)
    config = tmp_path / "serving.yaml"
    config.write_text(
        f"models: [{{name: ctr, base_path: {exported.base_path}, version_labels: {{stable: {first.number}}},\n"
        f"  model_version_policy: {{specific: {{versions: [{first.number}]}}}}}}]\n"
        "grpc: {address: '127.0.0.1:0'}\nrest: {address: '127.0.0.1:0'}\n"
        "tokens_file: tokens\naccess_log: access.log\n"
    )
    records = [{"b64": base64.b64encode(record).decode()} for record in exported.records[:2]]
    with ServedModels("--config", str(config), log=tmp_path / "log") as server:
        server.said("serving a version")
        path = "/v1/models/ctr/labels/stable:predict"
        assert server.rest(path, {"instances": records})[0] == 401
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        status, answer = server.rest(path, {"instances": records}, bearer)
        assert (status, len(answer["predictions"])) == (200, 2)
        with server.channel() as channel:
            with pytest.raises(grpc.RpcError) as refused:
                predict(channel, predict_request(exported.records[:2]))
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
            predict(channel, predict_request(exported.records[:2]), metadata=[("authorization", f"Bearer {TOKEN}")])
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    lines = [json.loads(line) for line in (tmp_path / "access.log").read_text().splitlines()]
    assert [(line["api"], line["code"]) for line in lines] == [
        ("rest", "401"), ("rest", "200"), ("grpc", "Unauthenticated"), ("grpc", "OK"),
    ]  # fmt: skip
    assert lines[-1]["who"] == "ranking"
    for text in ((tmp_path / "access.log").read_text(), (tmp_path / "log").read_text()):
        assert TOKEN not in text


def test_a_model_of_which_nothing_can_be_loaded_is_said_and_waited_for(
    exported: ExportedVersions, first: Any, tmp_path: Path
) -> None:
    broken = tmp_path / "ctr" / "7"
    broken.mkdir(parents=True)
    (broken / "saved_model.pb").write_bytes(b"junk")
    with ServedModels(f"ctr={tmp_path / 'ctr'}", *ANY_PORT, log=tmp_path / "log") as server:
        server.said("cannot serve")
        assert server.rest("/v1/models/ctr")[1]["model_version_status"][0]["state"] == "END"
        (tmp_path / "ctr" / "8").symlink_to(first.url)
        server.said("version=8 ")


def test_a_canary_is_rejected_by_its_scores_and_an_operator_decides(
    exported: ExportedVersions, first: Any, tmp_path: Path
) -> None:
    """Users stay with their version by gRPC and REST; the versions are changed on the socket."""
    shifted = exported.export({1: 6.0, 2: 6.0, 3: 6.0})
    scores = {1: first.scores, 2: shifted.scores}
    versions = tmp_path / "ctr"
    versions.mkdir()
    (versions / "1").symlink_to(first.url)
    config = tmp_path / "serving.yaml"
    config.write_text(
        "models:\n- {name: ctr, base_path: ctr, canary: {traffic_percent: 50, hash_header: x-user-id,\n"
        "   gate: {min_requests: 25, max_latency_ratio: 1000}}}\n"
        "grpc: {address: '127.0.0.1:0'}\nrest: {address: '127.0.0.1:0'}\n"
    )
    with ServedModels("--config", str(config), log=tmp_path / "log") as server, server.channel() as channel:
        server.said("version=1 ")
        (versions / "2").symlink_to(shifted.url)
        server.said("a canary begins")
        records, found = [{"b64": base64.b64encode(record).decode()} for record in exported.records], {}
        for user in map(str, range(20)):
            response = predict(channel, predict_request(exported.records), metadata=[("x-user-id", user)])
            found[user] = response.model_spec.version.value
            np.testing.assert_array_equal(scores_in(response), scores[found[user]])
            _, answer = server.rest("/v1/models/ctr:predict", {"instances": records}, {"X-User-Id": user})
            np.testing.assert_array_equal(np.float32(answer["predictions"]), np.float32(scores[found[user]]))
        assert set(found.values()) == {1, 2}

        def is_rejected() -> bool:
            predict(channel, predict_request(exported.records))
            return "a canary is rejected: score PSI " in server.log.read_text()

        wait_until(is_rejected, "a rejection")
        [model] = server.control("GET", "/v1/models")[1]["models"]
        assert (model["serving_version"], model["canary"], model["pinned"]) == (1, None, False)
        assert [each["version"] for each in model["rejected"]] == [2]
        status, model = server.control("POST", "/v1/models/ctr:promote", {})
        assert (status, model["serving_version"], model["canary"]["version"], model["rejected"]) == (200, 1, 2, [])
        status, model = server.control("POST", "/v1/models/ctr:rollback", {"version": 1})
        assert (status, model["serving_version"], model["canary"], model["pinned"]) == (200, 1, None, True)
        status, model = server.control("POST", "/v1/models/ctr:promote", {"full": True})
        assert (status, model["serving_version"], model["canary"], model["pinned"]) == (200, 2, None, False)
        status, model = server.control("POST", "/v1/models/ctr:rollback", {"version": 1})
        assert (status, model["serving_version"], model["pinned"]) == (200, 1, True)
        assert predict(channel, predict_request(exported.records)).model_spec.version.value == 1
        status, answer = server.control("POST", "/v1/models/ctr:rollback", {})
        assert (status, "no version that is older than 1" in answer["error"]) == (409, True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("models: []\n", "serving.yaml:1: $.models: "),
        ("modells: []\n", "unknown key `modells`; did you mean `models`?"),
        ("models: [{name: a/b, base_path: x}]\n", "`name` is 'a/b'; allowed: letters, digits"),
        ("models: [{name: a, base_path: 's3://m'}]\n", "allowed: a directory here, or hdfs://NAMESERVICE/PATH"),
        ("models: [{name: a, base_path: x, model_version_policy: {}}]\n", "is one of `latest`, `all` and `specific`"),
        ("models: [{name: a, base_path: x}]\ngrpc: {address: '127.0.0.1'}\n", "write `127.0.0.1:8500`"),
        ("models: [{name: a, base_path: x}, {name: a, base_path: y}]\n", "`models` has 'a' twice"),
        ("models: [{name: a, base_path: x}]\nlimits: {request_timeout: 2d}\n", "allowed: 0.001 s to 1d"),
    ],
)
def test_a_configuration_that_is_wrong_is_refused_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "serving.yaml").write_text(text)
    assert words in refusal("--config", str(tmp_path / "serving.yaml"))


def test_a_command_line_that_is_wrong_is_refused(tmp_path: Path) -> None:
    assert "is no directory" in refusal(f"ctr={tmp_path}/none")
    assert f"name the model: `afo serve NAME={tmp_path}`" in refusal(f"a b={tmp_path}")
    assert "leave MODEL, --host, --grpc-port and --rest-port out" in refusal("x", "--config", "serving.yaml")


def refusal(*arguments: str) -> str:
    words = [sys.executable, "-W", "ignore", "-m", "afo_client", "serve", *arguments]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (2, 3, 5), done.stderr
    return done.stderr


def test_processor_and_server_read_the_same_library(exported: ExportedVersions, first: Any) -> None:
    with Processor(first.url) as model:
        np.testing.assert_array_equal(model.predict({"examples": exported.records})["probabilities"], first.scores)
