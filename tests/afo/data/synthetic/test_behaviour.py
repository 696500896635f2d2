"""Synthetic behaviour data: the records hold what the answer was computed from."""

from pathlib import Path

import numpy as np
import pytest

from afo.data.example import decode
from afo.data.io.split_files import find_splits
from afo.data.io.tfrecord import read_records
from afo.data.model_metrics import auc
from afo.data.schema import read_schema
from afo.data.synthetic.behaviour import (
    HISTORY,
    Behaviour,
    BehaviourAnswer,
    BehaviourParameters,
    BehaviourSpec,
    write_behaviour,
)
from afo.data.synthetic.teacher import sigmoid
from afo.errors import DataError

SPEC = BehaviourSpec(users=50, categories=5, items_per_category=4, longest=6, seed=3)
PARAMETERS = BehaviourParameters(train=400, eval=301, train_files=3, eval_files=2, spec=SPEC)


def records(path: Path, part: str) -> list[dict[str, list[int]]]:
    urls = [split.url for split in find_splits([str(path / part / "*")])]
    decoded = (decode(record) for url in urls for record in read_records(url))
    return [{name: list(values) for name, values in record.items()} for record in decoded]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, BehaviourAnswer]:
    path = tmp_path_factory.mktemp("behaviour")
    return path, write_behaviour(str(path), PARAMETERS)


def test_the_records_are_the_samples_in_their_order(written: tuple[Path, BehaviourAnswer]) -> None:
    found = records(written[0], "eval")
    behaviour = Behaviour(SPEC)
    drawn = [behaviour.draw(n, np.random.default_rng([3, 1, first])) for n, first in ((150, 400), (151, 550))]
    histories = [row[row > 0].tolist() for part in drawn for row in part.history]
    assert [record["hist_item_ids"] for record in found] == histories
    assert [record["hist_category_ids"] for record in found] == [[(i + 3) // 4 for i in row] for row in histories]
    assert {len(row) for row in histories} == set(range(1, 7))
    assert [record["item_id"][0] for record in found] == np.concatenate([part.item for part in drawn]).tolist()
    label = [record["click"][0] for record in found]
    probability = sigmoid(np.concatenate([part.logit for part in drawn]))
    assert written[1].auc == pytest.approx(auc(np.array(label), probability), abs=1e-12)


def test_sample_ids_are_unique_over_both_parts(written: tuple[Path, BehaviourAnswer]) -> None:
    every = records(written[0], "train") + records(written[0], "eval")
    assert [record["sample_id"][0] for record in every] == list(range(701))


def test_the_schema_fits_the_records(written: tuple[Path, BehaviourAnswer]) -> None:
    schema = read_schema(written[0] / "schema.yaml")
    assert [schema[name].max_length for name in HISTORY] == [6, 6]
    url = find_splits([str(written[0] / "train" / "*")])[0].url
    schema.validate_against([decode(record) for record in read_records(url)], url)


def test_a_second_time_nothing_is_written(written: tuple[Path, BehaviourAnswer]) -> None:
    before = {each: each.stat().st_mtime_ns for each in written[0].rglob("*")}
    assert write_behaviour(str(written[0]), PARAMETERS) == written[1]
    assert {each: each.stat().st_mtime_ns for each in written[0].rglob("*")} == before


def test_the_nearest_item_says_more_than_the_mean_of_the_history() -> None:
    spec = BehaviourSpec()
    behaviour = Behaviour(spec)
    shown = behaviour.draw(20_000, np.random.default_rng(1))
    there = shown.history > 0
    same = (behaviour.category(shown.history) == behaviour.category(shown.item)[:, None]) & there
    share = auc(shown.label, same.sum(axis=1) / there.sum(axis=1))
    best = auc(shown.label, sigmoid(shown.logit))
    assert 0.7 < share < best - 0.08


def test_more_files_than_records_are_refused() -> None:
    with pytest.raises(DataError, match="a record a file"):
        BehaviourParameters(train=3, train_files=4)
