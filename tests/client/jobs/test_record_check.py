"""What `afo check` says of an account that does not fit files or checkpoint."""

from pathlib import Path

import pytest

from afo.checkpoint.manifest import FORMAT_VERSION, Manifest, commit
from afo.errors import DataError
from afo.events import types as ev
from afo.events.accounting import Account, Acknowledged, Position
from afo.job_dir import lineage
from afo.protocol.input_file import InputFile
from afo.protocol.offline_task import RecountedSplit
from afo.rpc.messages import TaskId
from afo_client.cli.main import run
from afo_client.jobs.record_check import NAMED, findings
from job_writer import DONE, RUNNING, JobWriter

CHIEF, WORKER = TaskId("chief", 0, 0), TaskId("worker", 0, 0)

FILES = (RecountedSplit(number=0, count=10, xor=1), RecountedSplit(number=1, count=12, xor=2, bad=2, unread=1))


def account(**changed: object) -> Account:
    acknowledged = {(0, 0): Acknowledged(10, 1), (1, 0): Acknowledged(12, 2, bad=2, unread=1)}
    positions = ((0, 0, 10, 1), (1, 0, 12, 2))
    fields = {"acknowledged": acknowledged, "positions": positions, "final": True, "manifest": "m"} | changed
    return Account(splits=("a", "b"), epochs=1, **{"closed": True} | fields)  # type: ignore[arg-type]


def problems(
    of: Account, saved: tuple[Position, ...] | None = None, complete: bool = True, sifted: bool = False
) -> list[str]:
    return list(
        findings(of, of.positions if saved is None else saved, FILES, complete=complete, sifted=sifted).problems
    )


def test_what_fits_has_no_problem() -> None:
    assert problems(account()) == []


def test_another_count_checksum_or_number_of_bad_records_is_found() -> None:
    for wrong in (Acknowledged(11, 1), Acknowledged(10, 3), Acknowledged(10, 1, bad=1)):
        changed = account(acknowledged={(0, 0): wrong, (1, 0): Acknowledged(12, 2, bad=2, unread=1)}, final=False)
        (found,) = problems(changed)
        assert found.startswith("a: epoch 0 was acknowledged with")


def test_a_checkpoint_that_says_something_else_than_the_log_is_found() -> None:
    (found,) = problems(account(), saved=((0, 0, 9, 1), (1, 0, 12, 2)))
    assert found.startswith("m: of a it holds (epoch, count, xor) [0, 9, 1]")


def test_a_split_that_was_left_out_is_found_once_the_job_has_read_everything() -> None:
    left_out = account(acknowledged={(0, 0): Acknowledged(10, 1)}, final=False)
    assert problems(left_out) == ["b: epoch 0 was never acknowledged"]
    assert problems(left_out, complete=False) == []


def test_a_final_checkpoint_before_the_end_of_a_split_is_found() -> None:
    positions = ((0, 0, 10, 1), (1, 0, 5, 9))
    (found,) = problems(account(positions=positions))
    assert found.startswith("b: the final checkpoint stands at")
    assert problems(account(positions=positions), sifted=True) == []
    assert problems(account(positions=((0, 0, 10, 1), (1, 0, 12, 9))), sifted=True)


def test_a_log_that_claims_any_number_of_epochs_costs_no_more_than_its_lines() -> None:
    claimed = account(final=False)
    claimed.epochs = 10**15
    found = problems(claimed)
    assert len(found) == NAMED + 1
    assert found[-1] == f"{2 * 10**15 - 2 - NAMED:,} more epochs of splits were never acknowledged"


@pytest.mark.timeout(20)
def test_what_is_saved_is_counted_by_what_was_acknowledged() -> None:
    saved = account(final=False, positions=((0, 1, 4, 1), (1, 10**15, 3, 1)))
    saved.acknowledged |= {(0, 0): Acknowledged(10, 1), (1, 0): Acknowledged(12, 2)}
    assert saved.saved == 10 + 4 + 12 + 3


def refused(writer: JobWriter, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """What `afo check` says of a job's directory that it does not read."""
    assert run(["check", writer.paths.job_id, *options]) == DataError.exit_code
    return capsys.readouterr().err


@pytest.fixture
def writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobWriter:
    """A job of one split."""
    monkeypatch.setenv("AFO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFO_JOBS_ROOT", str(tmp_path / "jobs"))
    return JobWriter(str(tmp_path / "jobs"), DONE, "j").begin()


def test_a_log_that_names_other_splits_is_refused(writer: JobWriter, capsys: pytest.CaptureFixture[str]) -> None:
    writer.log(saved := ev.CheckpointWritten(
        task=CHIEF, generation=1, step=1, manifest="m", positions=((7, 0, 1, 1),), final=False
    ))  # fmt: skip
    assert f"{writer.paths.events}: it names split 7, and the job has 1 splits" in refused(writer, capsys)
    writer.log(saved, ev.SplitDone(task=WORKER, split=7, epoch=0, count=1, xor=1))
    assert f"{writer.paths.events}: split 7 is read, and the list of splits has 1" in refused(writer, capsys)


def test_a_list_of_splits_that_cannot_be_right_is_refused(
    writer: JobWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    writer.log(ev.SplitsAdded(first=1, splits=(InputFile("b", 1, 1.0),), closed=True))
    message = "splits are added from number 1 on, and the list of splits was closed with 1"
    assert f"{writer.paths.events}: {message}" in refused(writer, capsys)


def test_a_job_that_read_all_of_a_list_that_was_never_closed_is_a_problem() -> None:
    assert problems(account(closed=False), complete=False) == []
    [found] = problems(account(closed=False))
    assert found == "the event log never closed the list of splits, which has 2, and the job read all"


def test_a_list_of_files_of_another_length_is_refused(
    tmp_path: Path, writer: JobWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = JobWriter(str(tmp_path / "jobs"), RUNNING, "j").begin(old=True)
    lineage.write_files(writer.paths.files, [InputFile("a", 1, 1.0), InputFile("b", 1, 1.0)])
    assert f"{writer.paths.files} names 2 splits, and the event log 1" in refused(writer, capsys)


def test_a_checkpoint_of_other_files_is_refused(writer: JobWriter, capsys: pytest.CaptureFixture[str]) -> None:
    training = lineage.Training(
        job_id=DONE, name="j", afo_version="0.1", schema_hash="", first_step=0, step=1, totals=lineage.Totals(1, 1),
        files=(lineage.AppliedFile("elsewhere", 1, 1.0, 0, 1, "01"),),
    )  # fmt: skip
    manifest = Manifest(
        version=FORMAT_VERSION, generation=1, step=1, final=False, directory="g000001-s000000000001-5f3a91c1", rows={},
        parts=(), lineage=lineage.Lineage(own=training, before=lineage.Ancestry()),
    )  # fmt: skip
    place, _ = commit(writer.paths.checkpoints(""), manifest)
    writer.log(ev.CheckpointWritten(task=CHIEF, generation=1, step=1, manifest=place, positions=(), final=False))
    message = refused(writer, capsys, "--no-files")
    assert f"{place}: its lineage is not that of the job in the event log: 'elsewhere'" in message
