"""The words of TensorFlow about a step that failed, made short."""

from types import SimpleNamespace
from typing import Any

import pytest

from afo.errors import ModelError

pytestmark = pytest.mark.tensorflow

#: As TensorFlow 2.21 gives it for an operation whose inputs come from two servers.
MESSAGE = """Graph execution error:

Detected at node users/ids_are_rows/Assert defined at (most recent call last):
  File "/site-packages/keras/src/layers/layer.py", line 1002, in __call__

  File "/home/me/my_ctr.py", line 17, in call

  File "/home/me/my_ctr.py", line 23, in scored

2 root error(s) found.
  (0) INVALID_ARGUMENT:  {}
\t [[{{{{node users/ids_are_rows/Assert}}}}]]
Additional GRPC error information from remote target /job:worker/replica:0/task:0
  (1) INVALID_ARGUMENT:  {}
0 successful operations.
"""


def explained(message: str, entry: str) -> Any:
    import tensorflow as tf

    from afo.train.failed_step import explain_failure

    error = tf.errors.InvalidArgumentError(None, None, MESSAGE.format(message, message))
    batch = SimpleNamespace(origin=SimpleNamespace(counts=tf.constant([3, 4])))
    nothing: Any = None
    return explain_failure(error, nothing, nothing, batch, 9, ["part-1", "part-2"], entry)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("assertion failed: [asked for ids between] [1] [and] [53]", "asked for ids between 1 and 53"),
        ("indices[3] = 7 is not in [0, 5)", "indices[3] = 7 is not in [0, 5)"),
    ],
)
def test_the_reason_and_the_users_line_are_left(message: str, words: str) -> None:
    error = explained(message, "/home/me/my_ctr.py:build")
    assert isinstance(error, ModelError)
    assert str(error) == (
        f"/home/me/my_ctr.py:build: step 9, a batch of 7 samples of part-1, part-2: {words} (line 23 of my_ctr.py)"
    )


def test_a_model_of_ours_and_a_lost_server_are_not_the_users_fault() -> None:
    assert explained("no such thing", "") is None
    assert explained("Unable to find a context_id matching the specified one", "/home/me/my_ctr.py:build") is None
