"""The signature `score`: one user and n items, as the processor and TensorFlow answer it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afo.data.example import encode
from afo.errors import SpecError
from afo.job import TableKind
from afo.ops import library
from afo.serving import Processor
from afo.serving.predict_messages import outputs_of, request_of
from processor_build import require_processor
from trained_model import INCOME_NAME, RECORDS, TrainedModel

pytestmark = pytest.mark.tensorflow

USER = ("user", "city", INCOME_NAME)


class Served:
    """An exported model in the processor."""

    def __init__(self, folder: Path, which: str, tables: TableKind) -> None:
        self.directory = TrainedModel(folder, folder / "schema.yaml", which).exported("float32", tables, False, USER)
        self.processor = Processor(str(self.directory))

    def joined(self, user: int, items: range) -> Any:
        """The answers to records that hold everything."""
        records = [encode(_values(item, user=False) | _values(user, user=True)) for item in items]
        return self.processor.predict({"examples": records})["probabilities"]


def _values(number: int, *, user: bool) -> dict[str, Any]:
    """Of a record the user's features, or the others."""
    return {name: values for name, values in RECORDS[number].items() if (name in USER) == user}


def _asked(user: int, items: range) -> dict[str, list[bytes]]:
    return {"user": [encode(_values(user, user=True))], "items": [encode(_values(item, user=False)) for item in items]}


@pytest.fixture(
    scope="module",
    params=[("hashed", "native"), ("hashed", "frozen"), ("dense", "frozen"), ("own", "native")],
    ids="-".join,
)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    require_processor()
    found = Served(tmp_path_factory.mktemp("scored"), *request.param)
    with found.processor:
        yield found


@pytest.mark.parametrize(("user", "count"), [(4, 80), (3, 9), (1, 1)])
def test_a_user_and_items_are_answered_as_joined_records(served: Served, user: int, count: int) -> None:
    items = range(count)
    answered = served.processor.predict(_asked(user, items), "score")
    assert list(answered) == ["probabilities"]
    assert answered["probabilities"].std() > 0.005 or count == 1
    np.testing.assert_allclose(answered["probabilities"], served.joined(user, items), rtol=0, atol=2e-6)


def test_tensorflow_answers_as_the_processor_does(served: Served) -> None:
    import tensorflow as tf

    library.load()
    loaded = tf.saved_model.load(str(served.directory))  # its tables go with it
    asked = {name: tf.constant(records) for name, records in _asked(7, range(30)).items()}
    answered = loaded.signatures["score"](**asked)["probabilities"].numpy()
    np.testing.assert_allclose(answered, served.joined(7, range(30)), rtol=0, atol=2e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"user \[2\] is not compatible with expected shape \[1\]"):
        loaded.signatures["score"](user=tf.repeat(asked["user"], 2), items=asked["items"])


def test_a_request_has_one_user_and_any_number_of_items(served: Served) -> None:
    asked, model = _asked(4, range(2)), served.processor
    empty: dict[str, Any] = asked | {"items": np.array([], object)}
    assert model.predict(empty, "score")["probabilities"].shape == (0,)
    for users in ([], asked["user"] * 2):
        words = rf"input `user` has the shape \[{len(users)}\]; the model takes \[1\]"
        with pytest.raises(SpecError, match=words):
            model.predict({**asked, "user": np.array(users, object)}, "score")
    with pytest.raises(SpecError, match="input `items` is missing"):
        model.predict({"user": asked["user"]}, "score")


def test_a_feature_in_the_wrong_record_is_not_read(served: Served) -> None:
    items = [encode(_values(item, user=False) | _values(50, user=True)) for item in range(5)]
    user = encode(_values(4, user=True) | {"age": [71.0]})
    answered = served.processor.predict({"user": [user], "items": items}, "score")["probabilities"]
    np.testing.assert_allclose(answered, served.joined(4, range(5)), rtol=0, atol=2e-6)


def test_requests_of_several_users_are_answered_each_by_itself(served: Served) -> None:
    asked = [_asked(user, range(user)) for user in (3, 1, 5)]
    answers = served.processor.batch_process([request_of(each, "score") for each in asked])
    for answer, each in zip(answers, asked, strict=True):
        expected = served.processor.predict(each, "score")["probabilities"]
        np.testing.assert_array_equal(outputs_of(answer)["probabilities"], expected)
    two = {**asked[0], "user": asked[0]["user"] * 2}
    with pytest.raises(SpecError, match="request 1 of the batch: input `user` has the shape"):
        served.processor.batch_process([request_of(each, "score") for each in (asked[0], two)])


def test_what_is_served_is_described(served: Served) -> None:
    from afo.trainable.served import export_info

    assert served.processor.info()["signatures"]["score"] == {
        "method_name": "tensorflow/serving/predict",
        "inputs": {
            "user": {"dtype": "DT_STRING", "shape": [1]},
            "items": {"dtype": "DT_STRING", "shape": [-1]},
        },
        "outputs": {"probabilities": {"dtype": "DT_FLOAT", "shape": [-1]}},
    }
    found = export_info.read(str(served.directory))
    assert found.user_features == USER
    needs_operations = b"AfoParseExample" in (served.directory / "saved_model.pb").read_bytes()
    assert needs_operations == (found.tables == "native")
