"""Which columns of a model are the user's, and which names are refused."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afo.data.feature import Feature
from afo.data.schema import Schema
from afo.errors import SpecError
from afo.job import Embedding, Model, Wide
from afo.models.feature_layout import Layout, layout_of
from afo.models.user_cut import Part, check_user_features, cut_by_user

FEATURES = (
    Feature(name="user", kind="categorical"),
    Feature(name="age", kind="dense", buckets=(20.0, 40.0)),
    Feature(name="seen", kind="categorical", max_length=3, weights="seen_for"),
    Feature(name="seen_for", kind="dense", max_length=3),
    Feature(name="city", kind="string", vocab=("Bonn", "Ulm")),
    Feature(name="prices", kind="dense", shape=(2,)),
    Feature(name="item", kind="categorical"),
)
SCHEMA = Schema(label="label", features=FEATURES)
CROSSES = (("user", "age"), ("user", "item"), ("city", "item"), ("age", "city"))


def layout(storage: str) -> Layout:
    embedding = msgspec.convert({"dim": 4, "storage": storage, "hash_buckets": 50}, Embedding)
    return layout_of(SCHEMA, Model(embedding=embedding, wide=Wide(crosses=CROSSES), hidden_units=(3,)))


def columns(part: Part) -> tuple[set[str], set[str], set[str]]:
    own = part.layout
    return {c.feature for c in own.sparse}, set(own.cross_names), {c.feature for c in own.dense}


def test_a_column_is_the_users_if_all_that_it_reads_is() -> None:
    cut = cut_by_user(layout("hash_table"), frozenset({"user", "age", "seen", "city"}))
    assert columns(cut.user) == ({"user", "age", "city"}, {"user x age", "age x city"}, {"age"})
    assert columns(cut.items) == ({"seen", "item"}, set(), {"prices"})
    assert cut.shared == ("seen",), "its weights are the items'"
    assert columns(cut.mixed)[1] == {"user x item", "city x item"}
    assert cut_by_user(layout("hash_table"), frozenset({"seen", "seen_for"})).shared == ()


@given(st.sets(st.sampled_from(SCHEMA.names)), st.sampled_from(["hash_table", "dense"]))
def test_each_input_row_and_cross_is_of_one_part(user: set[str], storage: str) -> None:
    whole = layout(storage)
    user_part, items, mixed, _ = cut_by_user(whole, frozenset(user))
    inputs = sorted((*user_part.inputs, *items.inputs))
    assert inputs == list(range(len(whole.sparse) * whole.dim + whole.dense_width))
    names = [name for part in (user_part, items, mixed) for name in part.layout.cross_names]
    assert sorted(names) == sorted(whole.cross_names)
    first_rows = {
        column.feature: start + part.id_shifts[sum(c.values for c in part.layout.sparse[:place])]
        for part in (user_part, items)
        for place, (column, start) in enumerate(zip(part.layout.sparse, part.layout.offsets, strict=True))
    }
    assert first_rows == {column.feature: start for column, start in zip(whole.sparse, whole.offsets, strict=True)}
    crosses = {
        name: start + shift
        for part in (user_part, items, mixed)
        for name, start, shift in zip(
            part.layout.cross_names, part.layout.cross_offsets, part.cross_shifts, strict=True
        )
    }
    assert crosses == dict(zip(whole.cross_names, whole.cross_offsets, strict=True))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("user", "aeg"), "$.x[1]: feature `aeg` is not in the schema; did you mean `age`?"),
        (("label",), "$.x[0]: `label` is a label, which no request holds; take it out"),
        (("age", "city", "age"), "$.x[2]: feature `age` is named twice"),
        (SCHEMA.names, "$.x: all 7 features are named, and nothing would tell one item from another"),
    ],
)
def test_names_that_will_not_do(names: tuple[str, ...], words: str) -> None:
    with pytest.raises(SpecError, match=re.escape(words)):
        check_user_features(SCHEMA, ("label",), names, "$.x")


def test_names_that_will_do() -> None:
    check_user_features(SCHEMA, ("label",), (), "$.x")
    check_user_features(SCHEMA, ("label",), SCHEMA.names[1:], "$.x")
