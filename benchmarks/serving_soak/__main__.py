"""`make soak-serving`: writes docs/reports/soak-serving.md; ends with 3 where something does not hold.

AFO_SOAK_MINUTES (60), AFO_SOAK_SEED (1), AFO_SOAK_REPORT (another file), AFO_SOAK_KEEP=1 (what was written stays).
"""

import os
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from afo.events.event_log import read_log
from afo.events.types import VersionExported
from afo.job.paths import JobPaths
from serving_soak import report
from serving_soak.checker import Checker
from serving_soak.expected import ExpectedAnswers
from serving_soak.faults import Faults
from serving_soak.hdfs_copies import CopiesInHDFS
from serving_soak.load import GRPC_RATE, REST_RATE, Load
from serving_soak.place import VersionsPlace
from serving_soak.server import Server
from serving_soak.training import EndlessTraining

ROOT = Path(__file__).parents[2]
MINUTES = float(os.environ.get("AFO_SOAK_MINUTES", "60"))
SEED = int(os.environ.get("AFO_SOAK_SEED", "1"))
REPORT = Path(os.environ.get("AFO_SOAK_REPORT") or ROOT / "docs" / "reports" / "soak-serving.md")
RECORDS = 8
FIRST_VERSION_S = 300.0
#: At the end, without faults; and for TensorFlow to load what answered last.
CALM_S, EXPECTED_S = 30, 60.0
MISSED = 3
RATES = f"ghz asks {GRPC_RATE} times a second by gRPC and vegeta {REST_RATE} times by REST, whatever the server does"


def main() -> int:
    """0 if all of it holds."""
    scratch = Path(tempfile.mkdtemp(prefix="afo-serving-soak-"))
    place = VersionsPlace(scratch)
    try:
        soak = run(scratch, place)
    finally:
        place.close()
        if os.environ.get("AFO_SOAK_KEEP") != "1":
            shutil.rmtree(scratch, ignore_errors=True)
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(report.page(soak, RATES))
    wrong = report.problems(soak)
    print("\n".join(wrong) or "all of it holds")
    return MISSED if wrong else 0


def run(scratch: Path, place: VersionsPlace) -> report.Soak:
    """Train, serve, ask and break things for so many minutes; ends all that it started."""
    with ExitStack() as stack:
        job = EndlessTraining(scratch, place.base_path)
        stack.callback(job.kill)
        records = job.records(RECORDS)
        expected = ExpectedAnswers(place.base_path, records, scratch)
        stack.callback(expected.stop)
        wait_for_version(place, job)
        copies = CopiesInHDFS(scratch, place.base_path)
        stack.callback(copies.stop)
        copies.start()
        broken = served(str(place.link), scratch / "server", records, stack, is_bounded=True)
        of_hdfs = served(copies.base_path, scratch / "server-of-hdfs", records, stack, is_bounded=False)
        wait_for_answers([broken.checker, of_hdfs.checker])
        began, seconds = time.time(), int(MINUTES * 60)
        load = Load(broken.server.grpc_address, broken.server.rest_address, records, seconds, scratch)
        stack.callback(load.stop)
        faults = Faults(broken.server, place, copies, broken.checker, expected, SEED)

        def check() -> None:
            if not is_training(job) or not load.is_running():
                raise SystemExit(f"the job, or what asks, has ended before its time; {load.said()}")

        faults.run(seconds - CALM_S, check)
        load.wait()
        for each in (broken, of_hdfs):
            each.checker.stop()
        wait_for_expected(expected, [broken.checker, of_hdfs.checker])
    return report.Soak(
        seconds=time.time() - began, faults=faults.done, broken=broken.seen(expected), of_hdfs=of_hdfs.seen(expected),
        load=load.answers(), expected=expected.found(), given_up=copies.given_up, exported=exported(scratch, job),
        missing=missing(faults),
    )  # fmt: skip


class Served(NamedTuple):
    """A server, and what asks it all the time."""

    server: Server
    checker: Checker

    def seen(self, expected: ExpectedAnswers) -> report.Seen:
        """All that it did."""
        return report.Seen(
            self.checker.answers, self.checker.verified(expected.found()), self.server.samples, self.server.refused()
        )


def served(base_path: str, directory: Path, records: list[bytes], stack: ExitStack, *, is_bounded: bool) -> Served:
    """Both, until the stack ends them."""
    server = Server(base_path, directory, is_bounded=is_bounded)
    stack.callback(server.stop)
    checker = Checker(server.grpc_address, records)
    stack.callback(checker.stop)
    return Served(server, checker)


def wait_for_version(place: VersionsPlace, job: EndlessTraining) -> None:
    """Until the job has exported."""
    deadline = time.time() + FIRST_VERSION_S
    while not place.numbers():
        if time.time() > deadline or not job.is_running():
            raise SystemExit(f"{job.id} exports nothing")
        time.sleep(1)


def wait_for_answers(checkers: list[Checker]) -> None:
    """Until all servers listen; what was asked before does not count."""
    deadline = time.time() + FIRST_VERSION_S
    while not all(each.newest_version() for each in checkers):
        if time.time() > deadline:
            raise SystemExit("a server answers nothing")
        time.sleep(0.1)
    for each in checkers:
        each.answers.clear()


def wait_for_expected(expected: ExpectedAnswers, checkers: list[Checker]) -> None:
    """Until TensorFlow has loaded the versions that answered, as far as they are there."""
    deadline = time.time() + EXPECTED_S
    answers = [each for checker in checkers for each in checker.answers]
    while not {each.version for each in answers if not each.code} <= expected.found().keys():
        if time.time() > deadline:
            return
        time.sleep(1)


_looked_at = [0.0, 1.0]


def is_training(job: EndlessTraining) -> bool:
    """Looked at once a minute: the command costs a second."""
    if time.time() - _looked_at[0] > 60:
        _looked_at[:] = [time.time(), float(job.is_running())]
    return bool(_looked_at[1])


def exported(scratch: Path, job: EndlessTraining) -> int:
    """Versions that the job has told of."""
    events = read_log(JobPaths(str(scratch / "jobs"), job.id).events)
    return sum(isinstance(record.event, VersionExported) for record in events)


def missing(faults: Faults) -> tuple[str, ...]:
    """Faults that this machine or user cannot bring about."""
    return tuple(each for each in ("disk full", "memory short") if each not in faults.kinds)


if __name__ == "__main__":
    sys.exit(main())
