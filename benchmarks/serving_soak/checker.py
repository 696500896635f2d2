"""A client that asks for the same records all the time, and keeps what is answered by which version."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import grpc
import numpy as np

from serving_soak.expected import Expected

PAUSE_S, TIMEOUT_S = 0.1, 5.0
#: As far as two computations of one model may differ.
TOLERANCE = 2e-6


class Answer(NamedTuple):
    """One request; `code` is '' where it was answered."""

    began: float
    ended: float
    code: str
    version: int = 0


class Verified(NamedTuple):
    """Answers by what came of their comparison."""

    right: int
    wrong: list[str]
    #: Answered by a version that TensorFlow cannot load.
    of_unloadable: list[str]
    #: Answered by a version that was gone before TensorFlow could load it.
    unknown: int


class Checker:
    """Asks from its making on."""

    def __init__(self, address: str, records: list[bytes]) -> None:
        self.answers: list[Answer] = []
        #: How often which scores came, by version.
        self._scores: dict[int, Counter[bytes]] = defaultdict(Counter)
        self._request = predict_request(records)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, args=(address,))
        self._thread.start()

    def _ask(self, address: str) -> None:
        import tensorflow as tf
        from tensorflow_serving.apis import prediction_service_pb2_grpc

        options = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 500)]
        with grpc.insecure_channel(address, options) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            while not self._over.wait(PAUSE_S):
                began = time.time()
                try:
                    response = stub.Predict(self._request, timeout=TIMEOUT_S)
                except grpc.RpcError as error:
                    self.answers.append(Answer(began, time.time(), error.code().name))
                    continue
                version = response.model_spec.version.value
                scores = tf.make_ndarray(response.outputs["probabilities"]).ravel().astype(np.float32)
                self._scores[version][scores.tobytes()] += 1
                self.answers.append(Answer(began, time.time(), "", version))

    def is_answered_since(self, since: float) -> bool:
        """Whether a request that began after that was answered."""
        newest = self.answers[-1:]
        return bool(newest) and newest[0].began > since and not newest[0].code

    def newest_version(self) -> int:
        """The one that the last answer names; 0: none."""
        newest = self.answers[-1:]
        return newest[0].version if newest else 0

    def stop(self) -> None:
        """Ask no more."""
        self._over.set()
        self._thread.join()

    def verified(self, expected: dict[int, Expected]) -> Verified:
        """All answers, each against what its version answers."""
        return verify(self._scores, expected)


def verify(answered: Mapping[int, Counter[bytes]], expected: Mapping[int, Expected]) -> Verified:
    """Scores by version, and how often they came, against those that TensorFlow gives."""
    right, unknown = 0, 0
    wrong: list[str] = []
    unloadable: list[str] = []
    for version, scores, times in ((v, s, t) for v, seen in answered.items() for s, t in seen.items()):
        known = expected.get(version)
        if known is None:
            unknown += times
        elif known.error:
            unloadable.append(f"{times} answers of {version}: {known.error}")
        else:
            got = np.frombuffer(scores, np.float32)
            if len(got) == len(known.scores) and np.abs(got - known.scores).max() <= TOLERANCE:
                right += times
            else:
                wrong.append(f"{times} answers of {version}: {got} and not {known.scores}")
    return Verified(right, wrong, unloadable, unknown)


def predict_request(records: list[bytes]) -> Any:
    """A PredictRequest of these records."""
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.name = "ctr"
    request.inputs["examples"].CopyFrom(tf.make_tensor_proto(np.array(records, object)))
    return request
