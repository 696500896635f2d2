"""A checkpoint is what its manifest says, or none."""

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from afo import storage
from afo.checkpoint import manifest
from afo.checkpoint.manifest import Manifest, Part
from afo.errors import CheckpointLost, DataError, NotFound
from afo.formats import manifest_file
from afo.job_dir.lineage import Evaluation


def save(
    directory: Path, step: int, *, generation: int = 1, final: bool = False, value: float = 1.0, base: str | None = None
) -> str:
    """A checkpoint of one table of five rows in two parts, committed."""
    folder = f"g{generation:06d}-s{step:012d}-{'f' if final else 'p'}"
    (directory / folder).mkdir(parents=True)
    table = np.full((5, 2), value, np.float32) + np.arange(5, dtype=np.float32)[:, np.newaxis]
    parts = []
    for number in range(2):
        path = directory / folder / f"deep.{number}.npy"
        np.save(path, table[number::2])
        parts.append(Part("deep", path.name, number, 2, path.stat().st_size, manifest.checksum_of(path)))
    url, ours = manifest.commit(
        str(directory),
        Manifest(
            version=manifest.FORMAT_VERSION, generation=generation, step=step, final=final, directory=folder,
            rows={"deep": 5}, parts=tuple(parts), base=base,
        ),
    )  # fmt: skip
    assert ours
    return url


def test_the_newest_is_that_of_the_highest_generation_then_step(tmp_path: Path) -> None:
    save(tmp_path, 900)
    save(tmp_path, 100, generation=2)
    save(tmp_path, 100, generation=2, final=True)
    (tmp_path / "g000003-s000000000001-x").mkdir()
    (tmp_path / "manifest-broken.json").touch()
    found = manifest.find_manifests(str(tmp_path))
    assert [each.age for each in found] == [(1, 900, False), (2, 100, False), (2, 100, True)]
    assert manifest.find_manifests(str(tmp_path / "nothing")) == []


def test_of_two_writers_of_a_manifest_the_first_counts(tmp_path: Path) -> None:
    url = save(tmp_path, 7)
    stale = tmp_path / "g000001-stale"
    stale.mkdir()
    (stale / "deep.0.npy").touch()
    second = Manifest(version=1, generation=1, step=7, final=False, directory="g000001-stale", rows={}, parts=())
    assert manifest.commit(str(tmp_path), second) == (url, False)
    assert manifest.read_manifest(url).rows == {"deep": 5}
    assert not stale.exists()


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    urls = [save(tmp_path, step) for step in range(5)]
    manifest.remove_old(str(tmp_path), keep=2)
    assert [each.url for each in manifest.find_manifests(str(tmp_path))] == urls[3:]
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2


def test_what_an_earlier_generation_did_not_finish_goes(tmp_path: Path) -> None:
    kept, newest = save(tmp_path, 7), save(tmp_path, 5, generation=3)
    for name in ("g000001-torn", "g000002-torn", "g000003-under-way", "g000004-another", "gate"):
        (tmp_path / name).mkdir()
    manifest.remove_old(str(tmp_path), keep=2)
    named = {manifest.read_manifest(url).directory for url in (kept, newest)}
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == named | {
        "g000003-under-way", "g000004-another", "gate",
    }  # fmt: skip


def test_a_writer_that_begins_removes_what_one_before_it_did_not_finish(tmp_path: Path) -> None:
    kept, newest = save(tmp_path, 7), save(tmp_path, 5, generation=3)
    for name in ("g000001-torn", "g000003-torn", "g000004-another", "gate"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "deep.0.npy").touch()
    manifest.remove_unfinished(str(tmp_path), generation=3)
    named = {manifest.read_manifest(url).directory for url in (kept, newest)}
    left = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert left == named | {"g000004-another", "gate"}


def test_what_nobody_finished_stays_beside_a_manifest_that_cannot_be_read(tmp_path: Path) -> None:
    damaged = Path(save(tmp_path, 7))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    (tmp_path / "g000001-torn").mkdir()
    manifest.remove_unfinished(str(tmp_path), generation=1)
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2
    manifest.remove_unfinished(str(tmp_path / "nothing"), generation=1)


def test_files_that_were_removed_under_their_writer_are_missed(tmp_path: Path) -> None:
    made = manifest.read_manifest(save(tmp_path, 7))
    names = [part.file for part in made.parts]
    manifest.require_files(str(tmp_path), made.directory, names)
    (tmp_path / made.directory / names[0]).unlink()  # the writer has gone on since, with the other
    with pytest.raises(NotFound, match=names[0]):
        manifest.require_files(str(tmp_path), made.directory, names)
    with pytest.raises(NotFound):
        manifest.require_files(str(tmp_path), "g000001-gone", names)


def test_what_is_protected_outlives_newer_ones_and_evaluations_go_with_their_checkpoints(tmp_path: Path) -> None:
    urls = [save(tmp_path, step) for step in range(5)]
    for url in urls:
        manifest.write_evaluation(url, Evaluation(metrics={"auc": 0.5}, coverage={}))
    manifest.remove_old(str(tmp_path), keep=1, protected=(urls[1],))
    assert [each.url for each in manifest.find_manifests(str(tmp_path))] == [urls[1], urls[4]]
    assert sorted(path.name[:10] for path in tmp_path.glob("evaluation-*")) == ["evaluation"] * 2
    assert manifest.read_evaluation(urls[1]) == Evaluation(metrics={"auc": 0.5}, coverage={})
    assert manifest.read_evaluation(urls[0]) is None


def test_what_a_kept_one_stands_on_stays_until_nothing_needs_it(tmp_path: Path) -> None:
    def left(protected: str = "") -> list[int]:
        manifest.remove_old(str(tmp_path), keep=1, protected=(protected,))
        assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == len(
            manifest.find_manifests(str(tmp_path))
        )
        return [each.step for each in manifest.find_manifests(str(tmp_path))]

    def delta(step: int, on: str) -> str:
        return save(tmp_path, step, base=manifest.read_manifest(on).directory)

    whole = save(tmp_path, 1)
    second = delta(2, whole)
    third = delta(3, second)
    assert left() == [1, 2, 3]
    save(tmp_path, 4)
    assert left(protected=second) == [1, 2, 4]
    assert third not in [each.url for each in manifest.find_manifests(str(tmp_path))]
    assert left() == [4]


def test_what_lies_below_one_that_cannot_be_read_stays(tmp_path: Path) -> None:
    urls = [save(tmp_path, 0), save(tmp_path, 1)]
    for step in (2, 3):
        urls.append(save(tmp_path, step, base=manifest.read_manifest(urls[-1]).directory))
    damaged = Path(urls[2])
    damaged.write_bytes(damaged.read_bytes()[:-1])
    [problem] = manifest.remove_old(str(tmp_path), keep=1)
    assert str(damaged) in problem
    assert [each.url for each in manifest.find_manifests(str(tmp_path))] == urls
    assert len(list(tmp_path.glob("*/deep.0.npy"))) == 4
    newest = save(tmp_path, 4)
    manifest.remove_old(str(tmp_path), keep=1)
    assert [each.url for each in manifest.find_manifests(str(tmp_path))] == [str(damaged), newest]


def test_one_that_cannot_be_read_stays_and_does_not_keep_the_others(tmp_path: Path) -> None:
    urls = [save(tmp_path, step, generation=2) for step in range(4)]
    damaged = Path(urls[1])
    damaged.write_text(damaged.read_text()[:40])
    (tmp_path / "g000001-torn").mkdir()
    [problem] = manifest.remove_old(str(tmp_path), keep=1)
    assert str(damaged) in problem
    assert [each.url for each in manifest.find_manifests(str(tmp_path))] == [urls[1], urls[3]]
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 3
    damaged.unlink()
    assert manifest.remove_old(str(tmp_path), keep=1) == []
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2


def test_two_that_name_one_directory_stay_with_it(tmp_path: Path) -> None:
    urls = [save(tmp_path, step) for step in range(4)]
    first, second = (manifest.read_manifest(url) for url in urls[:2])
    Path(urls[0]).write_bytes(manifest_file.encode(replace(first, directory=second.directory)))
    problems = manifest.remove_old(str(tmp_path), keep=1)
    assert [problem.partition(": another checkpoint has its directory")[0] for problem in problems] == urls[:2]
    assert [each.url for each in manifest.find_manifests(str(tmp_path))] == [*urls[:2], urls[3]]
    assert (tmp_path / second.directory / "deep.0.npy").exists()


@pytest.mark.tensorflow
class TestReading:
    """What needs TensorFlow only because `afo.checkpoint.restore` also writes variables."""

    def test_a_table_is_put_together_from_its_parts(self, tmp_path: Path) -> None:
        from afo.checkpoint.restore import CheckpointReader

        with CheckpointReader(save(tmp_path / "all", 1), tmp_path) as reader:
            assert reader.table("deep", 5, 2)[:, 0].tolist() == [1, 2, 3, 4, 5]
            with pytest.raises(DataError, match=r"embedding\.dim"):
                reader.table("deep", 5, 3)
            with pytest.raises(DataError, match="holds no `wide`"):
                reader.table("wide", 5, 1)
            with pytest.raises(DataError, match="holds no hash tables"):
                reader.hash_tables({"deep/city": 2})
            assert reader.hash_tables({}) == {}, "a model of numbers alone"
        assert not (tmp_path / "restore").exists()

    @pytest.mark.parametrize("damage", ["flipped", "cut", "missing", "no manifest", "manifest"])
    def test_a_torn_one_is_passed_over_for_an_older_one(self, tmp_path: Path, damage: str) -> None:
        from afo.checkpoint.restore import from_newest_complete

        everything = tmp_path / "all"
        older, torn = save(everything, 10, value=3.0), save(everything, 20)
        save(everything, 30)
        part = everything / manifest.read_manifest(torn).directory / "deep.1.npy"
        content = bytearray(part.read_bytes())
        if damage == "flipped":
            content[-1] ^= 1
            part.write_bytes(content)
        elif damage == "cut":
            part.write_bytes(content[:-1])
        elif damage == "manifest":
            Path(torn).write_text(Path(torn).read_text().replace('"deep": 5', '"deep": 4'))
        else:
            storage.delete(str(part) if damage == "missing" else torn)
        taken, first, problems = from_newest_complete(
            torn, str(everything), tmp_path, lambda reader: float(reader.table("deep", 5, 2)[0, 0])
        )
        assert taken == older, "never a newer one: the AM counts from the one it named"
        assert first == 3.0
        assert len(problems) == 1

    def test_none_left_is_an_error_that_says_why(self, tmp_path: Path) -> None:
        from afo.checkpoint.restore import from_newest_complete

        url = save(tmp_path / "all", 10)
        storage.delete(str(tmp_path / "all" / manifest.read_manifest(url).directory), recursive=True)
        with pytest.raises(CheckpointLost, match=r"left .* step 10 was saved: .*deep\.0\.npy.*; submit the job again"):
            from_newest_complete(url, str(tmp_path / "all"), tmp_path, lambda reader: reader)
        with pytest.raises(NotFound):
            manifest.read_manifest(str(tmp_path / manifest.manifest_name(1, 1, False)))
