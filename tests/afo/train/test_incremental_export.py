"""Versions with changes: each answers as its checkpoint does, over the versions that it needs."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afo.errors import AlreadyExists, SpecError, Unsupported
from afo.serving import Processor
from afo.trainable.served.rows_header import MOST_HEADER_BYTES, read_header
from incremental_versions import ExportedVersions
from processor_build import require_processor
from trained_model import KEYS

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def trained(tmp_path: Path) -> ExportedVersions:
    require_processor()
    return ExportedVersions(tmp_path)


def answers(trained: ExportedVersions, served: Processor) -> Any:
    return served.predict({"examples": trained.records})["probabilities"]


def test_each_version_answers_as_its_checkpoint_and_old_ones_go(trained: ExportedVersions) -> None:
    random = np.random.default_rng(3)
    written, opened, expected = [], [], []
    for number in range(5):
        rows = {int(key): float(random.normal()) for key in random.integers(0, KEYS, 12)}
        removed = [key for key in map(int, random.integers(0, KEYS, 4)) if number and key not in rows]
        manifest = trained.chain.save(rows, sorted(set(removed)))
        written.append(trained.write(manifest, full_every=4, keep=2))
        opened.append(Processor(written[-1].url))
        expected.append(trained.scores_of_checkpoint(manifest))
    numbers = [version.number for version in written]
    assert [version.exported.parent for version in written] == [None, numbers[0], numbers[0], numbers[2], None]
    assert [version.exported.trained_at for version in written[:2]] == [1e9 + 10, 1e9 + 20]
    # The newest two, and what the first of them needs.
    assert sorted(int(path.name) for path in trained.base_path.iterdir()) == [numbers[0], *numbers[2:]]
    found = [served.info() for served in opened]
    assert [each["layers"] for each in found] == [1, 2, 2, 3, 1]
    assert [found[number]["trained_at"] for number in (0, 2)] == [1e9 + 10, 1e9 + 30]
    own = [each["table_bytes"] for each in found]
    # The third one's changes are under the fourth as well, the second one's under none.
    assert [each["shared_table_bytes"] for each in found] == [own[0], own[0], own[2], own[2], 0]
    for served, scores in zip(opened, expected, strict=True):
        np.testing.assert_allclose(answers(trained, served), scores, rtol=0, atol=1e-6)
        served.close()
    assert len({scores.tobytes() for scores in expected}) == 5
    with Processor(written[3].url) as again:
        np.testing.assert_allclose(answers(trained, again), expected[3], rtol=0, atol=1e-6)


def test_a_version_without_its_parent_or_on_another_one_is_not_served(trained: ExportedVersions) -> None:
    whole = trained.write(trained.chain.save({1: 1.0, 2: 2.0}))
    changes = trained.write(trained.chain.save({1: 3.0}))
    assert changes.exported.parent == whole.number
    other = trained.write(trained.chain.save({1: 1.0, 5: 2.0}, whole=True))
    aside = Path(whole.url).with_name("aside")
    Path(whole.url).rename(aside)
    parent = rf"{whole.url}/assets/table-\d+.rows"
    with pytest.raises(SpecError, match=rf"table-\d+.rows has the changes of {parent}, which cannot be read"):
        Processor(changes.url)
    shutil.copytree(other.url, whole.url)
    with pytest.raises(SpecError, match=rf"{parent} is not the table whose changes it has"):
        Processor(changes.url)
    shutil.rmtree(whole.url)
    aside.rename(whole.url)
    Processor(changes.url).close()


def test_no_version_stands_on_one_that_cannot_be_loaded(trained: ExportedVersions) -> None:
    for value in (1.0, 2.0):
        trained.write(trained.chain.save({1: value, 2: value}))
    damaged = trained.write(trained.chain.save({1: 3.0}))
    table = Path(damaged.url, "assets", "table-1.rows")
    content = bytearray(table.read_bytes())
    content[read_header(bytes(content[:MOST_HEADER_BYTES]), "").rows_at] ^= 1
    table.write_bytes(content)
    manifest = trained.chain.save({1: 5.0})
    after = trained.write(manifest)
    assert after.exported.parent is None
    with Processor(after.url) as served:
        scores = trained.scores_of_checkpoint(manifest)
        np.testing.assert_allclose(answers(trained, served), scores, rtol=0, atol=1e-6)
    assert trained.write(trained.chain.save({1: 6.0})).exported.parent == after.number


def test_where_the_checkpoint_goes_back_to_no_version_the_next_one_is_whole(trained: ExportedVersions) -> None:
    assert trained.write(trained.chain.save({1: 1.0})).exported.parent is None
    # As after the loss of a parameter server.
    assert trained.write(trained.chain.save({1: 2.0}, whole=True)).exported.parent is None
    # The changes since then have no base that was exported.
    trained.chain.save({2: 2.0}, whole=True)
    assert trained.write(trained.chain.save({3: 2.0})).exported.parent is None


def test_what_has_no_changes_is_refused_and_nothing_is_written(trained: ExportedVersions) -> None:
    with pytest.raises(Unsupported, match="frozen tables have no changes"):
        trained.write(trained.chain.save({1: 1.0}), tables="frozen")
    assert not trained.base_path.exists()


def test_a_writer_that_is_late_leaves_the_version_that_is_there(
    trained: ExportedVersions, monkeypatch: pytest.MonkeyPatch
) -> None:
    from afo.trainable.served import export_versions

    first = trained.write(trained.chain.save({1: 1.0}))
    monkeypatch.setattr(export_versions, "next_number", lambda _versions: first.number)
    before = Path(first.url, "assets", "table-0.rows").read_bytes()
    with pytest.raises(AlreadyExists, match=rf"{first.number} was written meanwhile by another export"):
        trained.write(trained.chain.save({1: 2.0}))
    assert Path(first.url, "assets", "table-0.rows").read_bytes() == before
    assert [path.name for path in trained.base_path.iterdir()] == [str(first.number)]


def test_versions_are_not_written_into_a_model(trained: ExportedVersions) -> None:
    (trained.base_path / "assets").mkdir(parents=True)
    (trained.base_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(AlreadyExists, match="is a SavedModel; versions need a directory of their own"):
        trained.write(trained.chain.save({1: 1.0}))
