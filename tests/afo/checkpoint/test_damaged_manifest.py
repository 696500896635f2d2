"""A manifest is as it was written, and names what is its own, or nothing is read or deleted by it."""

import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from afo.checkpoint import manifest
from afo.checkpoint.manifest import Manifest, Part
from afo.errors import DataError
from afo.formats import manifest_file
from afo.job_dir import lineage
from afo.job_dir.lineage import Ancestry, Lineage, Training
from afo.trainable.served import export_info
from afo.trainable.served.export_info import Exported

#: Checkpoints as the versions wrote them that introduced these formats; `tables1` are hash tables alone.
GOLDEN = Path(__file__).parent / "golden"
OUTSIDE = (
    ".", "..", "...", "", "/", "/etc", "a/b", "../other", "g000001-a/..", "g000001-", "g000002-a", "g1-a",
    "g000001-a\n", "g000001-a\0", "hdfs://nn/x", "manifest-g000001-s000000000007.json", "evil",
)  # fmt: skip


def training() -> Training:
    return Training(
        job_id="local_1700000000000_0001", name="clicks", afo_version="0.1", schema_hash="0", first_step=0, step=7,
        files=(), totals=lineage.Totals(),
    )  # fmt: skip


SAVED = Manifest(
    version=manifest.FORMAT_VERSION, generation=1, step=7, final=False, directory="g000001-a", rows={"deep": 5},
    parts=(Part("deep", "deep.0.npy", 0, 1, 148, 77),), lineage=Lineage(own=training(), before=Ancestry()),
    clock=((1700000000.5, 7),),
)  # fmt: skip


def commit(directory: Path, saved: Manifest = SAVED) -> Path:
    (directory / saved.directory).mkdir(parents=True, exist_ok=True)
    url, ours = manifest.commit(str(directory), saved)
    assert ours
    return Path(url)


def rewritten(url: Path, **changes: Any) -> None:
    """As somebody would who means harm, and knows how a checksum is computed."""
    url.write_bytes(manifest_file.encode(replace(SAVED, **changes)))


class TestChecksum:
    def test_every_changed_byte_is_refused(self, tmp_path: Path) -> None:
        url = commit(tmp_path)
        whole = url.read_bytes()
        assert manifest.read_manifest(str(url)) == SAVED
        for at in range(len(whole)):
            for other in {whole[at] ^ 1, ord(" "), ord("0")} - {whole[at]}:
                url.write_bytes(whole[:at] + bytes([other]) + whole[at + 1 :])
                with pytest.raises(DataError, match=url.name):
                    manifest.read_manifest(str(url))

    def test_every_cut_and_every_byte_too_much_is_refused(self, tmp_path: Path) -> None:
        url = commit(tmp_path)
        whole = url.read_bytes()
        cut = [whole[:at] for at in range(len(whole))]
        grown = [whole[:at] + b" " + whole[at:] for at in range(len(whole) + 1)]
        for content in (*cut, *grown):
            url.write_bytes(content)
            with pytest.raises(DataError, match=url.name):
                manifest.read_manifest(str(url))

    def test_the_error_says_which_file_and_what_to_do(self, tmp_path: Path) -> None:
        url = commit(tmp_path)
        url.write_bytes(url.read_bytes().replace(b'"step": 7', b'"step": 8', 1))
        with pytest.raises(DataError) as caught:
            manifest.read_manifest(str(url))
        assert str(caught.value).startswith(f"{url} is damaged: its CRC-32C is ")
        assert str(caught.value).endswith("put back a copy that is whole, or take an earlier checkpoint")

    def test_a_new_format_without_a_checksum_is_refused_and_an_unknown_one_said(self, tmp_path: Path) -> None:
        url = commit(tmp_path)
        body, _, _ = url.read_bytes().rpartition(b',\n "crc32c"')
        url.write_bytes(body + b"\n}")
        with pytest.raises(DataError, match=r"format 4 ends with a checksum, which is missing; put back"):
            manifest.read_manifest(str(url))
        for unknown in (99, 0, -1):
            rewritten(url, version=unknown)
            with pytest.raises(DataError, match=rf"format {unknown}; this version of afo reads formats 1 to 4"):
                manifest.read_manifest(str(url))

    def test_one_under_the_name_of_another_is_refused(self, tmp_path: Path) -> None:
        other = commit(tmp_path).rename(tmp_path / manifest.manifest_name(1, 8, False))
        with pytest.raises(DataError, match="it says generation 1, step 7"):
            manifest.read_manifest(str(other))


@pytest.mark.parametrize("places", [[(0, 2)], [(0, 2), (0, 2)], [(0, 0)], [(1, 1)], [(0, 1), (1, 2)], [(-1, 1)]])
def test_a_tensor_that_is_not_there_to_its_last_row_is_refused(tmp_path: Path, places: list[tuple[int, int]]) -> None:
    url = commit(tmp_path)
    rewritten(
        url, version=3, parts=tuple(Part("deep", f"{number}.npy", *place, 1, 1) for number, place in enumerate(places))
    )
    with pytest.raises(DataError, match=r"is damaged: of `deep` it has not each part once"):
        manifest.read_manifest(str(url))


class TestNames:
    """Checksums keep nobody from writing a manifest of his own."""

    @pytest.mark.parametrize("outside", OUTSIDE)
    @pytest.mark.parametrize("field", ["directory", "base", "tables"])
    def test_a_directory_elsewhere_is_refused(self, tmp_path: Path, field: str, outside: str) -> None:
        url = commit(tmp_path)
        rewritten(url, **{field: outside})
        with pytest.raises(DataError, match=url.name):
            manifest.read_manifest(str(url))

    @pytest.mark.parametrize("outside", [".", "..", "", "/etc/passwd", "../x", "a/b", "a\\b", "a\0", "a\n", "x" * 256])
    def test_a_file_elsewhere_is_refused(self, tmp_path: Path, outside: str) -> None:
        url = commit(tmp_path)
        rewritten(url, parts=(*SAVED.parts, Part("wide", outside, 0, 1, 1, 1)))
        with pytest.raises(DataError, match=r"is no name of a file in its own directory"):
            manifest.read_manifest(str(url))

    @pytest.mark.parametrize("version", [3, manifest.FORMAT_VERSION])
    @pytest.mark.parametrize("outside", [".", "..", "../other", "/"])
    def test_nothing_else_is_deleted_with_an_old_one(self, tmp_path: Path, outside: str, version: int) -> None:
        own = tmp_path / "job"
        old = commit(own)
        newer = [commit(own, replace(SAVED, step=step, directory=f"g000001-{step}")) for step in (8, 9)]
        rewritten(old, version=version, directory=outside)
        (tmp_path / "other").mkdir()
        [problem] = manifest.remove_old(str(own), keep=1)
        assert str(old) in problem
        assert old.exists()
        assert [path.name for path in sorted(own.iterdir()) if path.is_dir()] == ["g000001-9", "g000001-a"]
        assert newer[1].exists()
        assert (tmp_path / "other").exists()

    def test_an_export_names_a_manifest(self, tmp_path: Path) -> None:
        about = tmp_path.joinpath("m", *export_info.FILE)
        about.parent.mkdir(parents=True)
        about.write_text('{"manifest": "/etc/passwd", "step": 1, "labels": []}')
        with pytest.raises(DataError, match="/etc/passwd is not the name of a checkpoint's manifest"):
            export_info.read(str(tmp_path / "m"))

    @pytest.mark.tensorflow
    def test_an_export_is_prepared_beside_itself_alone(self, tmp_path: Path) -> None:
        from afo.train.exports.export import _hidden_name

        def place(job_id: str) -> str:
            own = replace(training(), job_id=job_id)
            source = Exported(manifest="/m.json", step=7, labels=(), lineage=Lineage(own=own, before=Ancestry()))
            return _hidden_name(str(tmp_path / "current"), source)

        assert place("local_1_1") == str(tmp_path / ".current.local_1_1.tmp")
        for outside in ("x/../../other", "x/y", "", ".."):
            with pytest.raises(DataError, match=r"/m\.json: .* is no name of a file"):
                place(outside)


@pytest.mark.tensorflow
def test_a_chief_that_goes_back_further_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from afo.rpc.messages import ReadyReply, TaskId
    from afo.train import initial_values

    monkeypatch.setattr(initial_values, "restore", lambda _parameters, reader, _kept: reader.manifest.step)
    older, newest = (
        commit(tmp_path, replace(SAVED, step=step, directory=f"g000001-{step}", parts=())) for step in (7, 8)
    )
    newest.write_bytes(newest.read_bytes().replace(b'"final": false', b'"final": falze'))
    ignored: Any = SimpleNamespace(report=lambda *_, **__: None, resume=lambda _: None)
    task = SimpleNamespace(checkpoint_url=str(tmp_path), generation=2)
    chief = TaskId(role="worker", index=0, attempt=0)
    setup: Any = SimpleNamespace(task=task, work_dir=tmp_path / "scratch", progress=ignored, id=chief)
    report = initial_values.begin(setup, ignored, ignored, ReadyReply(ready=False, restore=str(newest)))
    assert (report.restored, report.step) == (str(older), 7)
    [problem] = report.passed_over
    assert problem.startswith(f"{newest} is damaged: ")


@pytest.mark.tensorflow
class TestEarlierFormats:
    @pytest.mark.parametrize("version", [1, 2])
    def test_dense_tables(self, tmp_path: Path, version: int) -> None:
        from afo.checkpoint.restore import CheckpointReader

        [found] = manifest.find_manifests(str(GOLDEN / f"format{version}"))
        with CheckpointReader(found.url, tmp_path) as reader:
            assert reader.manifest.version == version
            assert reader.table("deep", 3, 2).tolist() == [[0, 1], [2, 3], [4, 5]]
            assert reader.whole("dense").tolist() == [0.5, 1.5]
            assert [each.owner for each in reader.manifest.sections] == ([] if version == 1 else ["user", "layer0"])

    def test_hash_tables_whole_and_changed(self, tmp_path: Path) -> None:
        from afo.checkpoint.restore import CheckpointReader

        for found, rows in zip(
            manifest.find_manifests(str(GOLDEN / "format3")), ([[1, 2], [3, 4]], [[1, 2], [9, 8]]), strict=True
        ):
            with CheckpointReader(found.url, tmp_path) as reader:
                tables = reader.hash_tables({"deep/user": 2})
            assert tables["deep/user"].keys.tolist() == [5, 6]
            assert tables["deep/user"].weights.tolist() == rows

    def test_they_are_cleaned_up(self, tmp_path: Path) -> None:
        shutil.copytree(GOLDEN / "format3", tmp_path / "own")
        commit(tmp_path / "own", replace(SAVED, step=11))
        assert manifest.remove_old(str(tmp_path / "own"), keep=1) == []
        assert sorted(path.name for path in (tmp_path / "own").iterdir()) == [
            "g000001-a", "manifest-g000001-s000000000011.json",
        ]  # fmt: skip


@pytest.mark.tensorflow
class TestHashTables:
    def golden(self, tmp_path: Path) -> tuple[Path, Path]:
        """Manifests of the tables of a whole checkpoint, and of what changed since."""
        shutil.copytree(GOLDEN / "format3", tmp_path / "own")
        names = ("g000001-0a1b2c3d4e5f", "g000001-6a7b8c9d0e1f")
        first, second = (tmp_path / "own" / name / "tables" / "tables.json" for name in names)
        return first, second

    def test_every_changed_byte_is_refused(self, tmp_path: Path) -> None:
        from afo.tables import saved_tables

        url, _ = self.golden(tmp_path)
        url.write_bytes(manifest_file.encode(replace(saved_tables.read_manifest(str(url)), version=4)))
        whole = url.read_bytes()
        assert saved_tables.read_manifest(str(url)).files[0].size == 104
        for at in range(len(whole)):
            url.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            with pytest.raises(DataError):
                saved_tables.read_manifest(str(url))

    def test_format_1_names_what_it_stands_on_by_its_url(self, tmp_path: Path) -> None:
        from afo.tables import saved_tables

        shutil.copytree(GOLDEN / "tables1", tmp_path / "whole")
        shutil.copytree(GOLDEN / "tables1", tmp_path / "delta")
        whole, delta = tmp_path / "whole" / "tables.json", tmp_path / "delta" / "tables.json"
        delta.write_bytes(whole.read_bytes().replace(b'"base": null', b'"base": "%s"' % str(whole).encode()))
        assert saved_tables.read_rows(str(delta))["deep/user"].weights.tolist() == [[1, 2], [3, 4]]

    @pytest.mark.parametrize("outside", ["../rows.afo", "/etc/passwd", "..", "a/b"])
    def test_a_file_elsewhere_is_refused(self, tmp_path: Path, outside: str) -> None:
        from afo.tables import saved_tables

        url, _ = self.golden(tmp_path)
        whole = saved_tables.read_manifest(str(url))
        url.write_bytes(manifest_file.encode(replace(whole, files=(replace(whole.files[0], file=outside),))))
        with pytest.raises(DataError, match="is no name of a file in its own directory"):
            saved_tables.read_rows(str(url))

    @pytest.mark.parametrize("number", ['"servers": 0', '"dim": 0', '"dim": 4097', '"server": -1'])
    def test_numbers_that_cannot_be_are_refused(self, tmp_path: Path, number: str) -> None:
        from afo.tables import saved_tables

        url, _ = self.golden(tmp_path)
        key = number.partition(":")[0]
        url.write_text(re.sub(rf"{key}: \d+", number, url.read_text()))
        with pytest.raises(DataError, match=r"no TablesManifest that this version of afo understands"):
            saved_tables.read_manifest(str(url))

    @pytest.mark.parametrize(
        "outside",
        ["../../../other/tables.json", "{folder}/other/tables.json", "hdfs://nn/x/tables.json", "/etc/passwd"],
    )
    def test_a_job_s_tables_stand_on_none_of_another(self, tmp_path: Path, outside: str) -> None:
        from afo.checkpoint.restore import CheckpointReader
        from afo.tables import saved_tables

        shutil.copytree(GOLDEN / "tables1", tmp_path / "other")
        _, url = self.golden(tmp_path)
        delta = saved_tables.read_manifest(str(url))
        url.write_bytes(manifest_file.encode(replace(delta, base=outside.format(folder=tmp_path))))
        newest = manifest.find_manifests(str(tmp_path / "own"))[-1].url
        with (
            CheckpointReader(newest, tmp_path / "scratch") as reader,
            pytest.raises(DataError, match=r"it stands on .* where a checkpoint of tables stands on one in"),
        ):
            reader.hash_tables({"deep/user": 2})
