"""`make soak-serving`: writes docs/reports/soak-serving.md; ends with 3 where something does not hold.

AFO_SOAK_MINUTES (60), AFO_SOAK_SEED (1), AFO_SOAK_REPORT (another file), AFO_SOAK_KEEP=1 (what was written stays).
"""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from afo.events.event_log import read_log
from afo.events.types import VersionExported
from afo.job.paths import JobPaths
from serving_soak import report
from serving_soak.checker import Checker
from serving_soak.expected import ExpectedAnswers
from serving_soak.faults import Faults
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
    job = EndlessTraining(scratch, place.base_path)
    endings = [job.kill]
    try:
        records = job.records(RECORDS)
        expected = ExpectedAnswers(place.base_path, records, scratch)
        endings.append(expected.stop)
        wait_for_version(place, job)
        server = Server(place.link, scratch)
        endings.append(server.stop)
        checker = Checker(server.grpc_address, records)
        endings.append(checker.stop)
        while not checker.newest_version():
            time.sleep(0.1)
        checker.answers.clear()  # of the time before it listened
        seconds = int(MINUTES * 60)
        began = time.time()
        load = Load(server.grpc_address, server.rest_address, records, seconds, scratch)
        endings.append(load.stop)
        faults = Faults(server, place, checker, expected, SEED)

        def check() -> None:
            if not is_training(job) or not load.is_running():
                raise SystemExit(f"the job, or what asks, has ended before its time; {load.said()}")

        faults.run(seconds - CALM_S, check)
        load.wait()
        checker.stop()
        wait_for_expected(expected, checker)
    finally:
        for end in reversed(endings):
            end()
    found = expected.found()
    return report.Soak(
        seconds=time.time() - began, faults=faults.done, verified=checker.verified(found), expected=found,
        answers={"checker": checker.answers, **load.answers()}, samples=server.samples,
        exported=exported(scratch, job), refused=server.refused(), missing=missing(faults),
    )  # fmt: skip


def wait_for_version(place: VersionsPlace, job: EndlessTraining) -> None:
    """Until the job has exported."""
    deadline = time.time() + FIRST_VERSION_S
    while not place.numbers():
        if time.time() > deadline or not job.is_running():
            raise SystemExit(f"{job.id} exports nothing")
        time.sleep(1)


def wait_for_expected(expected: ExpectedAnswers, checker: Checker) -> None:
    """Until TensorFlow has loaded the versions that answered, as far as they are there."""
    deadline = time.time() + EXPECTED_S
    while not {each.version for each in checker.answers if not each.code} <= expected.found().keys():
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
