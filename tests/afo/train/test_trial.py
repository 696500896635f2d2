"""A job's first step in one process: what it finds before a container starts."""

import json
import resource
from math import log
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("keras")

from afo.formats.units import Memory
from afo.job import Data, Job, RoleSpec
from fork_server import start_function

pytestmark = pytest.mark.tensorflow

ROLES: Any = {"ps": RoleSpec(), "worker": RoleSpec(memory=Memory(1024))}
#: Model and storage → what came of it; each in a process of its own, as variables are known by their names.
CASES = [
    ("sound", "hash_table"), ("wide_deep", "hash_table"), ("wide_deep", "dense"), ("outside_of_its_table", "dense"),
    ("not_finite", "hash_table"), ("two_outputs", "hash_table"), ("metric_of_two_values", "hash_table"),
    ("too_large", "hash_table"), ("table_of_keras", "hash_table"), ("dense_tables", "dense"),
    ("log_odds", "hash_table"), ("nothing_to_train", "hash_table"),
]  # fmt: skip


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Any]:
    """What came of all of them."""
    results = {}
    for case in CASES:
        target = tmp_path_factory.mktemp("trial") / "result.json"
        assert start_function("trial_models", "write_trial", *case, str(target)).wait(120) == 0
        results[case] = json.loads(Path(target).read_text())
    return results


def test_the_step_of_a_sound_model_is_a_workers(found: dict[tuple[str, str], Any]) -> None:
    assert found["sound", "hash_table"] == {"samples": 48, "loss": pytest.approx(log(2)), "warnings": []}
    for storage in ("hash_table", "dense"):
        result = found["wide_deep", storage]
        assert (result["samples"], result["warnings"]) == (48, [])
        assert 0 < result["loss"] < 2


@pytest.mark.parametrize(
    ("case", "error", "parts"),
    [
        (("outside_of_its_table", "dense"), "ModelError", ("step 1", "rows 0 to 19", "between 0 and 31")),
        (("not_finite", "hash_table"), "NotFinite", ("step 1", "part-0.tfrecord", "not finite: the loss")),
        (("two_outputs", "hash_table"), "ModelError", ("[None, 2]", "click")),
        (("log_odds", "hash_table"), "ModelError", ("a probability lies between 0 and 1", "from_logits")),
        (("metric_of_two_values", "hash_table"), "ModelError", ("metric `precision` is [2] values",)),
        (("too_large", "hash_table"), "ModelError", ("line 65 of trial_models.py", "OOM", "1073741824")),
    ],
)
def test_what_fails_is_said_in_a_workers_words(
    found: dict[tuple[str, str], Any], case: tuple[str, str], error: str, parts: tuple[str, ...]
) -> None:
    assert found[case].get("error") == error, found[case]
    for part in parts:
        assert part in found[case]["text"]


def test_a_table_of_keras_own_is_warned_of(found: dict[tuple[str, str], Any]) -> None:
    (warning,) = found["table_of_keras", "hash_table"]["warnings"]
    assert "1,048,576 x 8" in warning
    assert "32 MiB" in warning
    assert "afo.layers.Embedding" in warning


def test_a_model_without_trainable_weights_is_warned_of(found: dict[tuple[str, str], Any]) -> None:
    (warning,) = found["nothing_to_train", "hash_table"]["warnings"]
    assert "no trainable weights" in warning


def test_dense_tables_that_are_too_large_are_not_made(found: dict[tuple[str, str], Any]) -> None:
    assert found["dense_tables", "dense"] == {"samples": 48, "loss": None, "warnings": []}


@pytest.mark.parametrize(("allowed", "bound"), [(resource.RLIM_INFINITY, 3 << 30), (8 << 30, 3 << 30), (1 << 30, None)])
def test_its_memory_is_bounded_by_no_more_than_the_machine_allows(
    monkeypatch: pytest.MonkeyPatch, allowed: int, bound: int | None
) -> None:
    from afo.train import trial_step

    set_to: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (allowed, allowed))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: set_to.append(limits))
    trial_step.bound_memory(Job(name="x", roles=ROLES, data=Data(train=("x",))))
    assert set_to == ([] if bound is None else [(bound, bound)])
