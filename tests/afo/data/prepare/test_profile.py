"""Statistics of features, against data whose answer is known."""

from pathlib import Path

import numpy as np
import pytest

from afo.data.example import encode
from afo.data.io.tfrecord import RecordWriter
from afo.data.prepare import profile
from afo.data.prepare.profile import FeatureProfile, Profile, profile_files, value_text
from afo.errors import DataError, NotFound

N = 4000


def write(folder: Path, name: str, shift: float = 0.0, rows: int = N) -> str:
    """`same` is the label, `moved` is shifted, `id` differs in each record, and every other one has `half`."""
    chance = np.random.default_rng(7)
    folder.mkdir(exist_ok=True)
    with RecordWriter(str(folder / name)) as writer:
        for row in range(rows):
            click = int(chance.random() < 0.3)
            record: dict[str, list[int] | list[float] | list[bytes]] = {
                "click": [click], "same": [b"yes" if click else b"no"], "noise": [float(chance.normal())],
                "moved": [float(chance.normal()) + shift], "id": [row], "bag": [1, 2, 2],
            }  # fmt: skip
            if row % 2:
                record["half"] = [b"a" if row % 4 == 1 else b"b"]
            writer.write(encode(record))
    return f"{folder}/*"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    folder = tmp_path_factory.mktemp("data")
    train, evaluation = write(folder / "train", "part-0"), write(folder / "eval", "part-0", shift=1.0)
    return profile_files([train], [evaluation], "click")


def of(found: Profile, name: str) -> FeatureProfile:
    return next(each for each in found.features if each.name == name)


def test_what_is_counted(found: Profile) -> None:
    assert (found.records, found.evaluation) == (N, N)
    assert found.positive == pytest.approx(0.3, abs=0.03)
    assert [each.name for each in found.features] == ["bag", "half", "id", "moved", "noise", "same"]
    half, bag = of(found, "half"), of(found, "bag")
    assert (half.coverage, half.length, half.distinct, half.kind) == (0.5, 1, 2, "bytes")
    assert [(each.value, each.share) for each in half.top] == [("a", 0.5), ("b", 0.5)]
    assert (bag.length, bag.mean, bag.top[0].value) == (3, pytest.approx(5 / 3), "2")


def test_the_spread_of_numbers(found: Profile) -> None:
    noise = of(found, "noise")
    assert (noise.mean, noise.std) == (pytest.approx(0, abs=0.06), pytest.approx(1, abs=0.06))
    assert noise.quantiles == pytest.approx((-2.326, -0.674, 0, 0.674, 2.326), abs=0.15)
    assert noise.min is not None
    assert noise.min < noise.quantiles[0]


def test_what_features_tell_of_the_label(found: Profile) -> None:
    assert of(found, "same").label_info == pytest.approx(1, abs=1e-3), "it is the label"
    for name in ("noise", "id", "bag"):
        assert of(found, name).label_info == pytest.approx(0, abs=0.01), "not by chance alone"
    assert of(found, "noise").correlation == pytest.approx(0, abs=0.06)
    assert of(found, "same").correlation is None
    assert of(found, "bag").correlation == pytest.approx(0, abs=1e-9)


def test_what_drifts(found: Profile) -> None:
    drift = {each.name: each.drift for each in found.features if each.drift is not None}
    assert drift["moved"] > 0.25
    assert all(drift[name] < 0.02 for name in ("noise", "same", "half", "bag"))


def test_a_feature_of_one_side_alone_has_drifted(tmp_path: Path) -> None:
    write(tmp_path / "train", "part-0", rows=100)
    with RecordWriter(str(tmp_path / "other")) as writer:
        for _ in range(100):
            writer.write(encode({"click": [1], "new": [1.5]}))
    found = profile_files([f"{tmp_path}/train/*"], [f"{tmp_path}/other"])
    assert of(found, "new").kind == "float"
    assert of(found, "new").coverage == 0
    assert all(each.drift is not None and each.drift > 0.25 for each in found.features if each.name != "click")


def test_numbers_that_are_none_and_labels_of_one_class(tmp_path: Path) -> None:
    with RecordWriter(str(tmp_path / "a")) as writer:
        for value in (float("nan"), float("inf"), 1.0):
            writer.write(encode({"x": [value], "click": [0], "empty": []}))
    found = profile_files([f"{tmp_path}/a"], label="click")
    x = of(found, "x")
    assert (x.mean, x.std, x.correlation, x.label_info) == (1, 0, None, None)
    assert found.positive == 0


def test_files_are_spread_over_all_and_records_bounded(tmp_path: Path) -> None:
    for number in range(9):
        write(tmp_path / "train", f"part-{number}", rows=5)
    assert profile_files([f"{tmp_path}/train/*"], records=3, files=4).records == 9


def test_long_lists_end_the_look_and_no_figure_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "MOST_VALUES", 300)
    found = profile_files([write(tmp_path / "train", "part-0", rows=500)], label="click")
    assert found.records == 100, "of the bag, which has three values a record"
    assert of(found, "bag").coverage == 1
    assert of(found, "half").coverage == 0.5


def test_what_cannot_be_told(tmp_path: Path) -> None:
    train = write(tmp_path / "train", "part-0", rows=10)
    with pytest.raises(NotFound, match="no number called `clicks` is in the first 10 records; there are: bag, click"):
        profile_files([train], label="clicks")
    with pytest.raises(NotFound, match="no number called `same`"):
        profile_files([train], label="same")
    with RecordWriter(str(tmp_path / "train" / "part-1")) as writer:
        writer.write(encode({"noise": [b"text"]}))
    with pytest.raises(DataError, match="feature `noise` holds bytes values here and float before"):
        profile_files([train])


def floats(folder: Path, name: str, values: list[float]) -> str:
    folder.mkdir(exist_ok=True)
    with RecordWriter(str(folder / name)) as writer:
        for value in values:
            writer.write(encode({"x": [value]}))
    return str(folder / name)


def test_few_records_of_one_distribution_have_not_drifted(tmp_path: Path) -> None:
    chance = np.random.default_rng(3)
    drifts, moved = [], []
    for number in range(30):
        a, b, c = (chance.normal(shift, 1, 60).tolist() for shift in (0.0, 0.0, 1.5))
        files = [floats(tmp_path, f"{number}-{each}", rows) for each, rows in (("a", a), ("b", b), ("c", c))]
        drifts.append(profile_files(files[:1], files[1:2]).features[0].drift or 0.0)
        moved.append(profile_files(files[:1], files[2:]).features[0].drift or 0.0)
    assert float(np.mean(drifts)) < 0.1, "0.3 without the correction"
    assert float(np.mean(moved)) > 1.0


def test_what_is_not_finite_is_told_and_is_a_bin_of_its_own(tmp_path: Path) -> None:
    nan = float("nan")
    train = floats(tmp_path, "a", [1.0, 2.0, 3.0, 4.0] * 50)
    evaluation = floats(tmp_path, "b", [1.0, 2.0, 3.0, nan] * 50)
    [found] = profile_files([evaluation], [train]).features
    assert (found.not_finite, found.distinct, found.coverage) == (0.25, 4, 1.0)
    assert (found.min, found.max) == (1.0, 3.0)
    assert [each.share for each in found.top] == [0.25] * 4
    assert found.drift is not None
    assert found.drift > 0.25


def test_ids_that_differ_in_their_last_digits_are_told_apart(tmp_path: Path) -> None:
    ids = [10**12 + 1] * 3 + [10**12 + 2] * 2 + [2**62, 2**62 + 1]
    with RecordWriter(str(tmp_path / "a")) as writer:
        for each in ids:
            writer.write(encode({"id": [each], "price": [1e6 if each % 2 else 0.1]}))
    found = profile_files([f"{tmp_path}/a"])
    assert of(found, "id").distinct == 4
    assert {value.value for value in of(found, "id").top} == {str(each) for each in ids}
    assert {value.value for value in of(found, "price").top} == {"1000000", "0.1"}
    assert of(found, "id").max == 2.0**62


def test_values_as_they_are_shown() -> None:
    shown = {1.5: "1.5", 1e300: "1e+300", float("nan"): "nan", float("-inf"): "-inf", -3.0: "-3", b"a": "a", 7: "7"}
    assert [value_text(value) for value in shown] == [*shown.values()]
