"""What a job will read, as `afo submit` finds it: format, schema, first records."""

from pathlib import Path
from unittest.mock import ANY

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from afo.data.example import encode
from afo.data.io.tfrecord import RecordWriter
from afo.data.prepare import markers
from afo.data.schema import parse_schema
from afo.errors import DataError, PermissionDenied, SpecError
from afo.formats.units import Memory
from afo.job import Job, Model
from afo.job.loader import load_job
from afo.site.config import load_config
from afo_client.cli.main import run
from afo_client.cli.validate import plan_text
from afo_client.submission.first_rows import limit_records
from afo_client.submission.inspection import Inspection, check_writable, inspect_job
from afo_client.submission.plan import make_am_config, plan_job
from fake_runtime import small_job, use_fake_runtime


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return small_job(tmp_path, monkeypatch)


def job_of(folder: Path, **data: object) -> Job:
    job = load_job(str(folder / "job.yaml"), variables={"dt": "2026-01-02"})
    return msgspec.structs.replace(job, data=msgspec.structs.replace(job.data, **data))


def inspected(folder: Path, **data: object) -> Inspection:
    return inspect_job(job_of(folder, **data), str(folder / "jobs"))


def test_the_format_is_settled_before_the_job_starts(folder: Path) -> None:
    assert inspected(folder).format == "tfrecord"
    pq.write_table(pa.table({"x": [0.5, 1.5], "label": [0, 1]}), folder / "part-0")
    pattern = (str(folder / "part-*"),)
    with pytest.raises(DataError, match=r"part-0: .*Parquet file"):
        inspected(folder, train=pattern)
    job = job_of(folder, train=pattern, eval=pattern, format="parquet")
    found = inspect_job(job, str(folder / "jobs"))
    assert found.format == "parquet"
    (folder / "part-0").rename(folder / "part-0.snappy.parquet")
    job = job_of(folder, train=pattern, eval=pattern)
    assert (job.data.format, inspect_job(job, str(folder / "jobs")).format) == ("auto", "parquet")
    submitted = make_am_config(load_config("local"), job, inspect_job(job, str(folder / "jobs")))
    assert submitted.job.data.format == "parquet", "tasks do not guess by a glob what the files are"


def test_one_job_reads_one_format(folder: Path) -> None:
    pq.write_table(pa.table({"x": [0.5], "label": [0]}), folder / "b.parquet")
    with pytest.raises(DataError, match=r"\$\.data: .*b\.parquet is Parquet by its name and .*a\.tfrecord is not"):
        inspected(folder, eval=(str(folder / "b.parquet"),))


def test_a_model_of_ones_own_reads_values_as_they_are(folder: Path) -> None:
    (folder / "schema.yaml").write_text("features:\n  - {name: x, kind: dense, transform: log1p}\n")
    assert inspected(folder).schema_text
    (folder / "my_ctr.py").write_text("def build(): ...")
    job = job_of(folder)
    own = msgspec.structs.replace(job, model=Model(entry=f"{folder / 'my_ctr.py'}:build"))
    with pytest.raises(SpecError, match=r"feature `x`: transform is for `model\.kind: wide_deep`; a model of your own"):
        inspect_job(own, str(folder / "jobs"))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"x": [1.0], "click": [1]}, r"b\.parquet: feature `label` is in none .* there are: click, x"),
        ({"y": [1.0], "label": [1]}, r"feature `x` of the schema is in none of the first 1 records"),
        ({"x": ["a"], "label": [1]}, r"record 0: feature `x` holds bytes values where the schema needs float"),
        ({"x": [1.0, 2.0], "label": [0, -1]}, r"\$\.data\.label: .*: record 1: the label `label` is -1 and must be 0"),
        ({"x": pa.array([], pa.float32()), "label": pa.array([], pa.int64())}, r"b\.parquet and the 0 files behind it"),
    ],
)
def test_columns_are_held_against_the_schema(folder: Path, columns: dict[str, list[object]], words: str) -> None:
    pq.write_table(pa.table(columns), folder / "b.parquet")
    pattern = (str(folder / "b.parquet"),)
    with pytest.raises(DataError, match=words):
        inspected(folder, train=pattern, eval=pattern)


@pytest.mark.parametrize("key", ["weight", "sample_id"])
def test_a_first_record_without_its_weight_or_sample_id_is_refused(folder: Path, key: str) -> None:
    columns = {"x": [0.5, 1.5], "label": [0, 1], "w": pa.array([2, None], pa.int64())}
    pq.write_table(pa.table(columns), folder / "b.parquet")
    pattern = (str(folder / "b.parquet"),)
    with pytest.raises(DataError, match=rf"data\.{key}: .*: record 1: it holds 0 values of `w` where one"):
        inspected(folder, train=pattern, eval=pattern, **{key: "w"})
    assert inspected(folder, train=pattern, eval=pattern, max_bad_records=0.5, **{key: "w"}).train


def test_an_empty_file_before_the_others_is_passed_over(folder: Path) -> None:
    for name, values in (("b", []), ("c", [1])):
        columns = {"x": pa.array(map(float, values), pa.float32()), "label": pa.array(values, pa.int64())}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    pattern = (str(folder / "*.parquet"),)
    assert len(inspected(folder, train=pattern, eval=pattern).train) == 2


def test_a_job_takes_label_and_sample_id_from_its_schema_where_it_names_none(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "schema.yaml").write_text("label: click\nsample_id: id\nfeatures: [{name: x, kind: dense}]\n")
    with RecordWriter(str(folder / "a.tfrecord")) as writer:
        for click in (0, 1):
            writer.write(encode({"x": [0.5], "click": [click], "bought": [click], "id": [click]}))
    config = load_config("local")
    data = plan_job(config, job_of(folder)).am_config.job.data
    assert (data.label, data.sample_id) == ("click", "id")
    data = plan_job(config, job_of(folder, label="bought", sample_id="bought")).am_config.job.data
    assert (data.label, data.sample_id) == ("bought", "bought")
    assert run(["validate", str(folder / "job.yaml"), "--var", "dt=1", "--runtime", "local"]) == 0
    with pytest.raises(DataError, match=r"data\.label: .*`label` is in none of"):
        plan_job(config, job_of(folder, label="label"))
    assert "warning" not in capsys.readouterr().err


def test_without_a_schema_one_is_inferred(folder: Path) -> None:
    found = inspected(folder, schema="")
    assert found.inferred
    schema = parse_schema(found.schema_text, "inferred")
    assert (schema.names, schema.label) == (("x",), "label")
    assert not inspected(folder).inferred


@pytest.mark.parametrize("content", ["", "\n", "# features: later\n", "null\n", "---\n"])
def test_a_schema_that_says_nothing_is_refused_and_none_inferred(folder: Path, content: str) -> None:
    (folder / "schema.yaml").write_text(content)
    with pytest.raises(SpecError, match=r"schema\.yaml: \$: the schema says nothing; write its `features`, or leave"):
        inspected(folder)


def submit(folder: Path, *arguments: str) -> int:
    return run(["submit", str(folder / "job.yaml"), "--runtime", "local", "--var", "dt=2026-01-02", *arguments])


def test_an_inferred_schema_is_shown_and_travels_with_the_job(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = use_fake_runtime(monkeypatch, "SUCCEEDED")
    text = (folder / "job.yaml").read_text()
    (folder / "job.yaml").write_text(text.replace("schema: schema.yaml, ", ""))
    assert submit(folder) == 0
    _, schema, _ = fake.submitted[0]
    assert parse_schema(schema, "submitted").names == ("x",)
    shown = capsys.readouterr().err
    assert "`data.schema`" in shown
    for line in schema.splitlines():
        assert f"    {line}\n" in shown


def test_submit_waits_for_the_marker_and_gives_up_in_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = use_fake_runtime(monkeypatch, "SUCCEEDED")
    monkeypatch.setattr(markers, "POLL_S", 0.05)
    waiting = ("--set", "data.wait_for=_SUCCESS", "--set", "timeouts.data=1s")
    assert submit(folder, *waiting) == 5
    assert fake.submitted == []
    said = capsys.readouterr().err
    assert f"waiting for {folder}/_SUCCESS, up to 1s in all" in said
    assert f"$.data.wait_for: {folder}/_SUCCESS not there after 1s, nothing was submitted" in said
    (folder / "_SUCCESS").touch()
    assert submit(folder, *waiting) == 0
    assert len(fake.submitted) == 1


def test_validate_waits_for_nothing_and_says_what_submit_will_wait_for(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["validate", "--no-trial", str(folder / "job.yaml"), "--var", "dt=2026-01-02"]
    arguments += ["--set", "data.wait_for=_SUCCESS"]
    assert run(arguments) == 0
    assert f"waits for {folder}/_SUCCESS" in capsys.readouterr().out
    assert run([*arguments[:-1], "data.wait_for=a/*"]) == 3
    assert "`wait_for` is the name of a file, e.g. _SUCCESS, not 'a/*'" in capsys.readouterr().err


def large(folder: Path) -> Path:
    """A file of about 3 MiB in place of the small one."""
    with RecordWriter(str(folder / "a.tfrecord"), indexed=True) as writer:
        for number in range(300):
            writer.write(encode({"x": [0.5], "label": [number % 2], "unread": [bytes(10_000)]}))
    return folder / "a.tfrecord"


def test_a_large_file_is_several_splits(folder: Path) -> None:
    path = large(folder)
    job = job_of(folder, split_size=Memory(1))
    found = inspect_job(job, str(folder / "jobs"))
    assert ([each.url for each in found.train], len(found.splits)) == ([str(path)], 3)
    submitted = make_am_config(load_config("local"), job, found)
    assert submitted.train_files == (str(path),) * 3
    assert submitted.train_parts == tuple(each.part for each in found.splits)
    assert (submitted.train_parts[0], submitted.train_parts[-1]) == ((0, ANY), (ANY, path.stat().st_size))
    whole = make_am_config(load_config("local"), job_of(folder), inspected(folder))
    assert (whole.train_files, whole.train_parts) == ((str(path),), ())


def test_the_number_of_splits_is_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    large(folder)
    arguments = ["validate", "--no-trial", str(folder / "job.yaml"), "--var", "dt=2026-01-02"]
    arguments += ["--set", "data.split_size=1 MiB"]
    assert run(arguments) == 0
    assert "train: 1 file, 2.9 MiB, in 3 splits" in capsys.readouterr().out
    (folder / ".a.tfrecord.index").unlink()
    assert run(arguments) != 0
    assert "$.data.split_size" in capsys.readouterr().err


def test_a_parquet_file_is_not_cut(folder: Path) -> None:
    pq.write_table(pa.table({"x": [0.5], "label": [0]}), folder / "b.parquet")
    pattern = (str(folder / "b.parquet"),)
    with pytest.raises(SpecError, match=r"\$\.data\.split_size: .*b\.parquet is Parquet, of which a file is a split"):
        inspected(folder, train=pattern, eval=pattern, split_size=Memory(1))


def test_the_first_records_of_a_cut_file_are_one_split(folder: Path) -> None:
    large(folder)
    job = job_of(folder, split_size=Memory(1))
    root = str(folder / "jobs")
    few, found = limit_records(job, inspect_job(job, root), 200, root, "ann", write=True)
    submitted = make_am_config(load_config("local"), few, found)
    assert (len(submitted.train_files), submitted.train_parts, few.data.split_size) == (1, (), None)


def with_list(folder: Path, **embedding: object) -> Job:
    """Of a feature with up to 20 values beside `x`."""
    (folder / "s.yaml").write_text(
        "label: label\nfeatures:\n  - {name: x, kind: dense}\n  - {name: seen, kind: categorical, max_length: 20}\n"
    )
    with RecordWriter(str(folder / "a.tfrecord")) as writer:
        writer.write(encode({"x": [0.5], "seen": [1, 2], "label": [1]}))
    job = job_of(folder, schema=str(folder / "s.yaml"))
    return msgspec.structs.replace(job, model=msgspec.convert({"embedding": embedding}, type(job.model)))


def test_features_of_the_job_file_are_held_against_the_schema(folder: Path) -> None:
    job = with_list(folder, features={"sen": {"filter": {"min_count": 2}}})
    with pytest.raises(SpecError, match=r"\$\.model\.embedding\.features\.sen: .*did you mean `seen`\?"):
        inspect_job(job, str(folder / "jobs"))
    job = with_list(folder, features={"x": {"evict": {"capacity": 2}}})
    with pytest.raises(SpecError, match=r"features\.x: `x` is no categorical, string or bucketised feature"):
        inspect_job(job, str(folder / "jobs"))


def test_what_is_pooled_on_the_servers_is_said_before_the_job_runs(folder: Path) -> None:
    job = with_list(folder)
    found = inspect_job(job, str(folder / "jobs"))
    assert found.pooled == ("seen",)
    assert "  pooled on the parameter servers: seen" in plan_text(job, found, "local").splitlines()
    assert inspect_job(with_list(folder, pooling="workers"), str(folder / "jobs")).pooled == ()


@pytest.mark.parametrize("directory", ["/proc/1", "/proc/nowhere"])
def test_a_directory_that_takes_no_file_is_named(directory: str) -> None:
    with pytest.raises(PermissionDenied, match=f"cannot write into {directory}: .*; choose another directory"):
        check_writable(directory)
