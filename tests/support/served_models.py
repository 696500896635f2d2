"""A model server of `afo serve` in a process of its own, and TensorFlow Serving's own client of it."""

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc
import numpy as np

START_S = 60.0
REQUEST_S = 20.0
_ADDRESS = re.compile(r'msg="serving (gRPC|REST) on (\S+)"')


class ServedModels:
    """The server, from the moment at which it listens."""

    def __init__(self, *arguments: str, log: Path) -> None:
        """`arguments`: of `afo serve`. `log`: where its messages go; what it keeps is beside it."""
        self.log, self.state = log, log.parent / "state"
        words = [sys.executable, "-W", "ignore", "-m", "afo_client", "serve", *arguments]
        with log.open("wb") as messages:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=messages, stderr=messages,
                env={**os.environ, "AFO_STATE_DIR": str(self.state)},
            )  # fmt: skip
        found = dict(_ADDRESS.findall(self.said("serving REST on ")))
        self.grpc_address, self.rest_address = found["gRPC"], found["REST"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def said(self, words: str) -> str:
        """Its messages once `words` are among them."""
        from training_job import wait_until

        def is_said() -> bool:
            text = self.log.read_text()
            assert words in text or self.process.poll() is None, text
            return words in text

        wait_until(is_said, words)
        return self.log.read_text()

    def channel(self) -> grpc.Channel:
        return grpc.insecure_channel(self.grpc_address)

    def rest(self, path: str, body: object = None, headers: Mapping[str, str] = {}) -> tuple[int, Any]:
        """Status and JSON of an answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.rest_address}{path}", data, dict(headers))
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def control(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and JSON of an answer on its socket, which is found by a path that is short enough."""
        directory = os.open(self.state / "servers", os.O_DIRECTORY)
        connection = http.client.HTTPConnection("server", timeout=START_S)
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            connection.sock.connect(f"/proc/self/fd/{directory}/default.sock")
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            return answer.status, json.load(answer)
        finally:
            connection.close()
            os.close(directory)


def predict_request(records: list[bytes], model: str = "ctr", version: int | None = None) -> Any:
    """As a user of TensorFlow Serving writes it."""
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    if version is not None:
        request.model_spec.version.value = version
    request.inputs["examples"].CopyFrom(tf.make_tensor_proto(np.array(records, object)))
    return request


def scores_in(response: Any) -> Any:
    """The probabilities of a PredictResponse."""
    import tensorflow as tf

    return tf.make_ndarray(response.outputs["probabilities"])
