"""What a model can take over from another one: parts by name and kind, sources by what lies there."""

from pathlib import Path

import msgspec
import pytest

from afo.checkpoint import transfer_plan
from afo.checkpoint.manifest import Manifest, Refusal, commit, write_refusal
from afo.checkpoint.tensor_map import Section, sections_of
from afo.checkpoint.transfer_plan import Move
from afo.checkpoint.warm_start_candidates import candidates, first_of, newest
from afo.data.feature import Feature
from afo.data.schema import Schema
from afo.errors import DataError, NotFound
from afo.job import Embedding, Model, WarmStart, Wide
from afo.job_dir import lineage
from afo.job_dir.lineage import Ancestry, Evaluation, Lineage, Training
from afo.models.feature_layout import layout_of
from afo.protocol.input_file import InputFile
from afo.storage.url import ByteRange

RULES = {"deep": "adagrad", "wide": "ftrl", "dense": "adagrad"}


def sections(*features: Feature, **model: object) -> tuple[Section, ...]:
    settings = {"hidden_units": (4,), "embedding": Embedding(dim=2, storage="dense"), **model}
    return sections_of(layout_of(Schema(features=features), Model(**settings)))  # type: ignore[arg-type]


def user(buckets: int = 100) -> Feature:
    return Feature(name="user", kind="categorical", hash_buckets=buckets)


CITY = Feature(name="city", kind="string", vocab=("Bonn", "Ulm"))
AGE = Feature(name="age", kind="dense")


def test_the_sections_of_a_tensor_cover_it_without_a_gap() -> None:
    found = sections(user(), CITY, AGE, wide=Wide(crosses=(("user", "city"),), cross_buckets=50))
    for tensor in {each.tensor for each in found}:
        place = 0
        for section in sorted((each for each in found if each.tensor == tensor), key=lambda each: each.first):
            assert section.first == place, section
            place += section.count


def test_a_feature_that_was_added_leaves_all_others_where_their_rows_are_now() -> None:
    plan = transfer_plan.plan(sections(user(), CITY, AGE), sections(user(), AGE), RULES, RULES)
    assert plan.made_new == ("city: new (deep, wide, layer0/kernel)",)
    assert plan.dropped == ()
    # The kernel's rows: user 2, city 2, age 1, of 4 units each; the bias of the model is the vector's first value.
    assert plan.of("dense")[:3] == (
        Move("dense", 0, 0, 1), Move("dense", 1, 1, 8), Move("dense", 9, 17, 4),
    )  # fmt: skip
    assert plan.of("deep") == (Move("deep", 0, 0, 100),)


def test_a_feature_that_went_is_dropped_and_one_of_another_kind_is_made_new() -> None:
    before = sections(user(), CITY, AGE)
    plan = transfer_plan.plan(sections(user(200), AGE), before, RULES, RULES)
    assert plan.dropped == ("city: not in this model (deep, wide, layer0/kernel)",)
    assert "user: was hash number 100 dim 2, is hash number 200 dim 2 (deep)" in plan.made_new
    assert "user (layer0/kernel)" in plan.kept, "the layer reads embeddings of the same size"
    longer = msgspec.structs.replace(CITY, vocab=("Bonn", "Ulm", "Trier"))
    assert any("city: was vocabulary" in text for text in transfer_plan.plan(sections(longer), before, {}, {}).made_new)


def test_a_number_that_is_changed_otherwise_is_another_input() -> None:
    before = sections(user(), AGE, Feature(name="income", kind="dense"))
    now = sections(user(), AGE, Feature(name="income", kind="dense", transform="log1p"))
    plan = transfer_plan.plan(now, before, RULES, RULES)
    assert plan.made_new == (
        "income: was 1x4, is 1x4 of log1p (layer0/kernel/value of income)",
        "income: was sums, is sums of log1p (statistics)",
    )
    assert transfer_plan.plan(now, now, RULES, RULES).made_new == ()


def test_another_optimizer_keeps_the_weights_and_begins_its_state_anew() -> None:
    parts = sections(user(), AGE)
    plan = transfer_plan.plan(parts, parts, {**RULES, "deep": "adam"}, RULES)
    assert plan.with_slots == {"wide", "dense"}
    assert "optimizer state of deep: was adagrad, is adam" in plan.made_new
    assert plan.of("deep") == (Move("deep", 0, 0, 100),)


def test_hash_tables_are_moved_whole_and_not_out_of_dense_ones() -> None:
    tables = Embedding(dim=2, storage="hash_table")
    crossed = Wide(crosses=(("user", "city"),))
    before = sections(user(), CITY, AGE, embedding=tables, wide=crossed)
    plan = transfer_plan.plan(sections(user(), AGE, embedding=tables), before, {}, {})
    assert plan.dropped == (
        "city: not in this model (deep, wide, layer0/kernel)", "user x city: not in this model (wide)",
    )  # fmt: skip
    assert plan.made_new == ()
    assert plan.of("deep/user") == (Move("deep/user", 0, 0, 1),)
    assert "user (deep, wide, layer0/kernel)" in plan.kept
    free = Feature(name="user", kind="categorical")
    bounded = transfer_plan.plan(sections(free, AGE, embedding=tables), before, {}, {})
    assert "user: was hash number 100 dim 2, is hash number 0 dim 2 (deep)" in bounded.made_new
    dense = transfer_plan.plan(before, sections(user(), CITY, AGE, wide=crossed), {}, {})
    assert {text.split(":")[0] for text in dense.made_new} == {"user", "city", "user x city"}


# -- sources ---------------------------------------------------------------------------------------------------------


def write_checkpoint(directory: Path, step: int, *, final: bool = False) -> str:
    directory.mkdir(parents=True, exist_ok=True)
    manifest = Manifest(
        version=2, generation=1, step=step, final=final, directory=f"g000001-{step}", rows={}, parts=()
    )  # fmt: skip
    return commit(str(directory), manifest)[0]


def test_of_a_directory_the_final_checkpoint_is_taken_and_of_jobs_the_last_one(tmp_path: Path) -> None:
    first = write_checkpoint(tmp_path / "day" / "job_1", 10, final=True)
    write_checkpoint(tmp_path / "day" / "job_2", 99)
    assert newest(str(tmp_path / "day")) == first
    assert newest(str(tmp_path / "day" / "job_1")) == first
    assert newest(first) == first
    assert candidates(str(tmp_path / "day"), str(tmp_path / "day" / "job_1/")).manifests != (first,)


def test_a_refused_model_is_no_source_unless_it_is_named_itself(tmp_path: Path) -> None:
    bad = write_checkpoint(tmp_path / "day" / "job_1", 10, final=True)
    write_refusal(str(tmp_path / "day" / "job_1"), Refusal(bad, ("auc 0.5 is not within >=0.7",)))
    with pytest.raises(NotFound, match=r"job_1: the quality gate refused it: auc 0\.5 is not"):
        newest(str(tmp_path / "day"))
    assert newest(bad) == bad


def test_what_holds_no_checkpoint_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match="empty holds no checkpoint"):
        newest(str(tmp_path / "empty"))
    with pytest.raises(NotFound, match=r"nothing does not exist$"):
        newest(str(tmp_path / "nothing"))
    with pytest.raises(NotFound, match="local_1_2 does not exist; of a job name the directory of its checkpoints"):
        newest(str(tmp_path / "local_1_2"))
    with pytest.raises(NotFound, match="does not exist"):
        newest(str(tmp_path / "manifest-g000001-s000000000001.json"))
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="neither a directory nor a checkpoint's manifest"):
        newest(str(tmp_path / "file"))


# -- lineage ---------------------------------------------------------------------------------------------------------


def training(job: int, files: int) -> Training:
    listed = [InputFile(f"/day-{job}/part-{number}", 100, 1.5) for number in range(files)]
    applied = lineage.list_applied(listed, [(0, 10, -1)] * files)
    return Training(
        job_id=f"local_1_{job}", name="ctr", afo_version="0", schema_hash="", first_step=0, step=job, files=applied,
        totals=lineage.totals_of(applied),
    )  # fmt: skip


def test_files_that_were_begun_are_named_with_what_was_read_of_them() -> None:
    files = [InputFile("/a", 1, 1.0), InputFile("/b", 2, 2.0), InputFile("/c", 3, 3.0)]
    found = lineage.list_applied(files, [(0, 7, -2), (-1, 0, 0), (1, 3, 5)])
    assert [(each.url, each.epoch, each.count, each.xor) for each in found] == [
        ("/a", 0, 7, "fffffffffffffffe"), ("/c", 1, 3, "0000000000000005"),
    ]  # fmt: skip
    assert lineage.totals_of(found) == lineage.Totals(files=2, records=10)


def test_splits_of_one_file_are_told_apart_and_are_one_file() -> None:
    files = [
        InputFile("/a", 9, 1.0, ByteRange(0, 4)),
        InputFile("/a", 9, 1.0, ByteRange(4, 9)),
        InputFile("/b", 2, 2.0),
    ]
    found = lineage.list_applied(files, [(0, 7, 1), (0, 3, 2), (0, 5, 3)])
    assert [(each.part, each.count) for each in found] == [((0, 4), 7), ((4, 9), 3), (None, 5)]
    assert lineage.totals_of(found) == lineage.Totals(files=2, records=15)


def test_a_long_chain_of_warm_starts_names_the_last_files_and_sums_up_the_rest() -> None:
    jobs = lineage.NAMED_JOBS + 20
    before = Ancestry()
    for job in range(jobs):
        before = lineage.derive_ancestry(
            Lineage(own=training(job, 3), before=before),
            f"/m/{job}",
            True,
            Evaluation(metrics={"auc": job}, coverage={}),
        )
    assert len(before.jobs) == lineage.NAMED_JOBS
    assert [each.job_id for each in before.jobs[:2]] == [f"local_1_{jobs - 1}", f"local_1_{jobs - 2}"]
    assert [bool(each.files) for each in before.jobs] == [True] * lineage.FULL_GENERATIONS + [False] * (
        lineage.NAMED_JOBS - lineage.FULL_GENERATIONS
    )
    assert (before.earlier_jobs, before.earlier) == (20, lineage.Totals(files=60, records=600))
    assert sum(each.totals.records for each in before.jobs) + before.earlier.records == jobs * 30
    assert before.jobs[0].metrics == {"auc": jobs - 1}


def test_a_list_of_files_is_what_was_written(tmp_path: Path) -> None:
    files = (InputFile("/a", 1, 1.0, ByteRange(0, 1)), InputFile("hdfs://x/b", 2, 2.5))
    lineage.write_files(str(tmp_path / "files.json"), files)
    assert lineage.read_files(str(tmp_path / "files.json")) == files
    (tmp_path / "files.json").write_text("[{]")
    with pytest.raises(DataError, match="malformed"):
        lineage.read_files(str(tmp_path / "files.json"))


def test_a_job_that_may_not_begin_anew_is_refused_before_anything_runs(tmp_path: Path) -> None:
    nothing, here = str(tmp_path / "nothing"), tmp_path / "day"
    with pytest.raises(NotFound, match=r"^\$\.checkpoint\.warm_start: .*nothing does not exist; name another"):
        first_of(WarmStart(sources=(nothing,)))
    assert first_of(WarmStart(sources=(nothing,), missing="fresh")) == ""
    manifest = write_checkpoint(here / "job_1", 10)
    assert first_of(WarmStart(sources=(nothing, str(here)))) == manifest
