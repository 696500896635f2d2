"""One user and n items against the joined records: the same answers, whichever features are the user's."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afo.data.example import encode
from afo.data.feature import Feature
from afo.job import Embedding, Model, Wide
from trained_model import INCOME_NAME, RECORDS, TrainedModel

pytestmark = pytest.mark.tensorflow

#: The largest difference that was seen is 1.8e-7: two sums of float32 in another order.
TOLERANCE = 2e-6
LISTS = (
    Feature(name="tags", kind="string", max_length=3, weights="tag_weights", combiner="sqrtn", hash_buckets=30),
    Feature(name="tag_weights", kind="dense", max_length=3),
    Feature(name="seen", kind="categorical", max_length=4, default=-1, hash_buckets=30),
    Feature(name="waits", kind="dense", max_length=2, combiner="sum"),
)
NAMES = ("user", "city", "liked", "age", INCOME_NAME, *(feature.name for feature in LISTS))
CROSSES = (("city", "age"), ("user", "city"), ("user", INCOME_NAME, "age"))
WIDE = Wide(crosses=CROSSES, cross_buckets=30)
MODELS = {
    "hashed": Model(hidden_units=(8,), embedding=Embedding(dim=8), wide=WIDE),
    "dense": Model(hidden_units=(8, 4), embedding=Embedding(dim=8, storage="dense"), wide=WIDE),
    "wide": Model(parts="wide", embedding=Embedding(storage="dense"), wide=WIDE),
    "deep": Model(parts="deep", hidden_units=(8,), embedding=Embedding(dim=4)),
    "rounded": Model(hidden_units=(8, 4), precision="bfloat16", embedding=Embedding(dim=4), wide=WIDE),
}
#: A sum at the border between two numbers of bfloat16 goes to the one or the other.
TOLERANCES = {"rounded": 0.01}
OWN = Path(__file__).parents[2] / "support" / "user_models"

#: A record that may lack any of its features.
RECORD = st.fixed_dictionaries(
    {},
    optional={
        "user": st.lists(st.integers(0, 60), min_size=1, max_size=1),
        "city": st.sampled_from([["Ulm"], ["Bonn"], ["?"], [""]]),
        "liked": st.lists(st.integers(0, 60), min_size=2, max_size=2),
        "age": st.lists(st.floats(0, 90, width=32), min_size=1, max_size=1),
        INCOME_NAME: st.lists(st.sampled_from([-7e3, 0.0, 800.0, 1e5, float("nan")]), min_size=1, max_size=1),
        "tags": st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=5),
        "tag_weights": st.lists(st.floats(0, 4, width=32), min_size=1, max_size=3),
        "seen": st.lists(st.integers(-1, 50), min_size=1, max_size=5),
        "waits": st.lists(st.floats(-3, 3, width=32), min_size=1, max_size=2),
    },
)


@pytest.fixture(scope="module", params=sorted(MODELS))
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A parser, a model in this process, and how much its answers may differ."""
    folder = tmp_path_factory.mktemp("trained")
    model = TrainedModel(folder, folder / "schema.yaml", MODELS[request.param], LISTS)
    return model.parts.parser, model.parts.model.local(model.reader()), TOLERANCES.get(request.param, TOLERANCE)


def select(record: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: values for name, values in record.items() if name in names}


def assert_equal_scores(
    parser: Any, model: Any, names: frozenset[str], user: Any, items: list[Any], tolerance: float
) -> None:
    others = frozenset(parser.specs) - names
    of_user, of_items = select(user, names), [select(item, others) for item in items]
    expected = model.probabilities(parser.inputs([encode(item | of_user) for item in of_items])).numpy()
    found = model.for_one_user(names).probabilities(
        parser.inputs([encode(of_user)], only=names), parser.inputs(list(map(encode, of_items)), only=others)
    )
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=tolerance)


@given(
    st.sets(st.sampled_from(NAMES), min_size=1, max_size=len(NAMES) - 1).map(frozenset),
    RECORD,
    st.lists(RECORD, min_size=1, max_size=4),
)
@settings(max_examples=30)
def test_a_user_and_items_are_scored_as_their_joined_records(
    trained: Any, names: frozenset[str], user: dict[str, Any], items: list[dict[str, Any]]
) -> None:
    parser, model, tolerance = trained
    assert_equal_scores(parser, model, names, user, items, tolerance)


def own(folder: Path, **model: Any) -> tuple[Any, Any]:
    trained = TrainedModel(folder, folder / "schema.yaml", Model(**model))
    return trained.parts.parser, trained.parts.model.local(trained.reader())


def test_layers_of_a_functional_model_that_read_the_user_alone_run_once(tmp_path: Path) -> None:
    parser, model = own(tmp_path, entry=f"{OWN / 'two_towers.py'}:build", embedding=Embedding(storage="dense"))
    layers = {layer.name: layer for layer in model._own.module.layers if layer.name.startswith("rows_of_")}
    assert_equal_scores(parser, model, frozenset({"user", "liked"}), RECORDS[4], RECORDS[:7], TOLERANCE)
    assert {name: layer.seen[-2:] for name, layer in layers.items()} == {
        "rows_of_user": [7, 1], "rows_of_likes": [7, 1], "rows_of_items": [7, 7],
    }  # fmt: skip
    for names in ({"city"}, {"age", "user"}, {"liked", "city", "age"}):
        assert_equal_scores(parser, model, frozenset(names), RECORDS[3], RECORDS[:7], TOLERANCE)


@pytest.mark.parametrize("function", ["build", "build_module", "build_compiled"])
def test_every_model_of_ones_own_scores_a_user_and_items(tmp_path: Path, function: str) -> None:
    """A plain module, inputs that are called twice, BatchNormalization, and features that no layer reads."""
    entry, logits = f"{OWN / 'click_model.py'}:{function}", function == "build_module"
    parser, model = own(tmp_path, entry=entry, from_logits=logits)
    for names in ({"user"}, {"user", "city"}, {"age", "liked", INCOME_NAME}):
        assert_equal_scores(parser, model, frozenset(names), RECORDS[5], RECORDS[:9], TOLERANCE)
