"""Schemas: read, written, refused with file and line, and held against records."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afo.data.feature import Feature
from afo.data.schema import Schema, parse_schema, read_schema
from afo.errors import DataError, NotFound, SpecError
from afo.job import Data

TEXT = """\
label: click
sample_id: id
features:
  - {name: user, kind: categorical, hash_buckets: 1000}
  - {name: city, kind: string, vocab: [Bern, "no"], default: Bern}
  - name: age
    kind: dense
    buckets: [18, 30.5]
  - {name: embedding, kind: dense, shape: [2, 2], default: [1, 2, 3, 4]}
"""


def test_features_are_arguments_by_names_that_python_takes() -> None:
    arguments = {
        "a b": "a_b_2", "a_b": "a_b", "a-b": "a_b_3", "Page value": "Page_value", "größe": "gr__e", "1st": "arg_1st",
        "_x": "arg__x", "class": "arg_class", "self": "arg_self", "年龄": "arg___", "性别": "arg____2",
    }  # fmt: skip
    schema = Schema(features=tuple(Feature(name=name, kind="dense") for name in arguments))
    assert schema.arguments == arguments


def test_reading(tmp_path: Path) -> None:
    (tmp_path / "schema.yaml").write_text(TEXT)
    schema = read_schema(tmp_path / "schema.yaml")
    assert (schema.label, schema.sample_id) == ("click", "id")
    assert schema.names == ("user", "city", "age", "embedding")
    assert schema["city"].vocab == ("Bern", "no")
    assert schema["embedding"].size == 4
    assert [schema[name].defaults() for name in schema.names] == [[0], ["Bern"], [0.0], [1, 2, 3, 4]]
    with pytest.raises(NotFound):
        read_schema(tmp_path / "other.yaml")


scalar = {
    "categorical": st.integers(-(1 << 63), (1 << 63) - 1),
    "string": st.text(st.characters(exclude_categories=["C"])),
    "dense": st.floats(allow_nan=False, allow_infinity=False),
}
names = st.one_of(
    st.text(st.characters(exclude_categories=["C"]), min_size=1), st.sampled_from(["no", "1e3", "~", "0x1f"])
)


@st.composite
def features(draw: st.DrawFn) -> Feature:
    kind = draw(st.sampled_from(sorted(scalar)))
    fields: dict[str, object] = {"default": draw(st.none() | scalar[kind])}
    if kind == "dense":
        fields["buckets"] = tuple(sorted(draw(st.sets(st.floats(-1e6, 1e6)))))
    elif draw(st.booleans()):
        fields["vocab"] = tuple(draw(st.lists(scalar[kind], unique=True, max_size=3)))
    else:
        fields["hash_buckets"] = draw(st.integers(1, 9))
    if draw(st.booleans()):
        fields |= {"max_length": draw(st.integers(1, 9)), "combiner": draw(st.sampled_from(["mean", "sum", "sqrtn"]))}
    else:
        fields["shape"] = tuple(draw(st.lists(st.integers(1, 4), max_size=2)))
        if kind == "dense":
            fields["transform"] = draw(st.none() | st.just("log1p"))
            fields["clip"] = draw(st.none() | st.tuples(st.floats(-1e6, -1), st.floats(0, 1e6)))
            fields["missing_indicator"] = math.prod(fields["shape"]) == 1 and draw(st.booleans())
    return Feature(name=draw(names), kind=kind, **fields)


def test_whole_numbers_are_written_without_a_fraction() -> None:
    age = Feature(name="age", kind="dense", buckets=(18.0, 30.5), clip=(0.0, 1e20), default=-1.0)
    text = Schema(features=(age,)).to_yaml()
    assert text == "features:\n  - {name: age, kind: dense, default: -1, buckets: [18, 30.5], clip: [0, 1e20]}\n"


@given(st.lists(features(), min_size=1, max_size=4, unique_by=lambda each: each.name))
def test_what_is_written_is_read_back(given_features: list[Feature]) -> None:
    schema = Schema(features=tuple(given_features))
    assert parse_schema(schema.to_yaml(), "f") == schema


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("features:\n  - {name: a, knd: dense}", "s.yaml:2: .*unknown key `knd`; did you mean `kind`"),
        ("features:\n  - {name: a, kind: dens}", "s.yaml:2: .*'dens'.*categorical, dense or string"),
        ("features:\n  - {name: a, kind: dense, default: x}", "s.yaml:2: .*`a`: default 'x' is no value of a dense"),
        ("features:\n  - {name: a, kind: string, default: 1}", "default 1 is no value of a string"),
        ("features:\n  - {name: a, kind: dense, shape: [2], default: [1]}", "default has 1 values and the shape"),
        ("features:\n  - {name: a, kind: dense, shape: [0]}", r"s.yaml:2: \$.features\[0\].shape\[0\]"),
        ("features:\n  - {name: a, kind: dense, buckets: [2, 1]}", "buckets must ascend"),
        ("features:\n  - {name: a, kind: string, buckets: [1]}", "buckets are for dense"),
        (
            "features:\n  - {name: a, kind: string, transform: log1p}",
            "transform is for dense features, and it is string",
        ),
        ("features:\n  - {name: a, kind: dense, transform: sqrt}", r"s.yaml:2: .*'sqrt'.*log1p"),
        (
            "features:\n  - {name: a, kind: dense, max_length: 2, clip: [0, 1]}",
            "clip is for features without a max_length",
        ),
        ("features:\n  - {name: a, kind: dense, clip: [1, 0]}", r"clip must ascend, given \[1.0, 0.0\]"),
        (
            "features:\n  - {name: a, kind: dense, shape: [2], missing_indicator: true}",
            "is for one value, and the shape",
        ),
        ("features:\n  - {name: a, kind: dense, hash_buckets: 9}", "for ids and strings"),
        ("features:\n  - {name: a, kind: string, vocab: [x], hash_buckets: 9}", "not both"),
        ("features:\n  - {name: a, kind: string, vocab: [x, x]}", "twice in its vocab"),
        ("features:\n  - {name: a, kind: string, vocab: [1]}", "vocab 1 is no value of a string"),
        ("features:\n  - {name: a, kind: dense}\n  - {name: a, kind: dense}", "`a` is given twice"),
        ("label: a\nfeatures:\n  - {name: a, kind: dense}", "`a` is label or sample_id"),
        ("label: a\nsample_id: a\nfeatures:\n  - {name: b, kind: dense}", "`a` is label or sample_id"),
        ("features:\n  - {name: a, kind: string, max_length: 2, shape: [2]}", "with a max_length there is no shape"),
        ("features:\n  - {name: a, kind: string, max_length: 0}", r"s.yaml:2: \$.features\[0\].max_length"),
        ("features:\n  - {name: a, kind: string, combiner: sum}", "for features with a max_length"),
        ("features:\n  - {name: a, kind: string, max_length: 2, weights: b}", "weights `b` is not in the schema"),
        (
            "features:\n  - {name: a, kind: string, max_length: 2, weights: b}\n"
            "  - {name: b, kind: dense, max_length: 3}",
            "weights `b` must be dense with max_length 2",
        ),
        ("stored: {y: bytes}\nfeatures:\n  - {name: a, kind: dense}", r"s.yaml:1: \$.stored"),
        ("features: []", r"s.yaml:1: \$.features"),
        ("label: a", "`features` is missing"),
        ("features: [", "s.yaml:2: .*YAML"),
    ],
)
def test_a_wrong_schema_says_where_and_what(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse_schema(text, "s.yaml")


SCHEMA = parse_schema(
    "label: y\nfeatures: [{name: user_id, kind: categorical}, {name: x, kind: dense, shape: [2]}]", "s"
)
RECORD = {"user_id": np.array([1]), "x": np.array([1, 2], np.float32), "y": np.array([1]), "other": [b""]}


def test_records_that_fit() -> None:
    SCHEMA.validate_against([RECORD], "f")
    SCHEMA.validate_against([{}, {"user_id": np.array([1])}, RECORD], "f")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            {"userid": RECORD["user_id"], "user_id": None},
            "f: feature `user_id` .* none of the first 1 records; did you mean `userid`",
        ),
        ({"y": None}, "`y` of the schema .* there are: other, user_id, x"),
        ({"x": np.array([1, 2])}, "f, record 0: feature `x` holds int64 values where the schema needs float"),
        ({"x": np.array([1], np.float32)}, "f, record 0: feature `x` holds 1 values where the schema's shape needs 2"),
        ({"user_id": [b"a"]}, "`user_id` holds bytes values"),
        (
            {"user_id": []},
            "`user_id` is there without a value: leave it out of such records, or give it a `max_length`",
        ),
    ],
)
def test_records_that_do_not_fit(record: dict[str, object], message: str) -> None:
    changed = {name: values for name, values in (RECORD | record).items() if values is not None}
    with pytest.raises(DataError, match=message):
        SCHEMA.validate_against([changed], "f")


def test_a_list_has_any_length_and_an_empty_one_any_kind() -> None:
    schema = parse_schema("features: [{name: l, kind: categorical, max_length: 2}]", "s")
    schema.validate_against([{"l": np.array([1, 2, 3])}, {"l": []}], "f")
    with pytest.raises(DataError, match="f, record 1: feature `l` holds bytes values where the schema needs int64"):
        schema.validate_against([{"l": np.array([1])}, {"l": [b"a"]}], "f")


def test_without_records_every_feature_is_absent() -> None:
    with pytest.raises(DataError, match=re.escape("none of the first 0 records; there are none")):
        SCHEMA.validate_against([], "f")


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(DataError, match="did you mean `user_id`"):
        SCHEMA["user"]


@pytest.mark.parametrize(
    ("feature", "wrong"),
    [
        ("kind: dense", False),
        ("kind: categorical", False),
        ("kind: dense, shape: [2]", True),
        ("kind: dense, max_length: 1", True),
        ("kind: string", True),
    ],
)
def test_a_feature_that_is_the_weight_is_one_number(feature: str, wrong: bool) -> None:
    text, data = f"features: [{{name: w, {feature}}}]", Data(train=("x",), weight="w")
    if wrong:
        with pytest.raises(SpecError, match=r"\$\.data\.weight: `w` is a feature of the schema that is not one number"):
            parse_schema(text, "s", data)
    else:
        assert parse_schema(text, "s", data).names == ("w",)
