"""A submission that happens once for each key, however often and from however many machines it is asked for.

    <jobs root>/once-<user>/<hash of user and key>/
        1           made by the client that submits: of two that try, one succeeds
        1.job       the id of its job
        2, 2.job    the next try, where another job was wanted after the first

A client that dies in between leaves its try without a job. Whoever comes next finds the job by its mark, which is in
`AmConfig.once` and, on YARN, a tag of the application; or it waits until the try is too old to become one.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from afo import storage
from afo.errors import AfoError, AlreadyExists, ClusterUnreachable, NotFound, UsageError, WaitTimeout
from afo.formats import decoding
from afo.job.paths import check_job_id
from afo_client.runtimes.application import ClientRuntime
from afo_client.submission.user_folder import make_user_folder, user_folder
from afo_client.terminal.console import say

#: A try without a job is given up after this. It covers the sending of a large environment.
LEASE_S = 600.0
POLL_S = 1.0
#: Others may be quicker so many times; each time one of them has submitted or given up.
_ROUNDS = 20
_MAX_KEY = 1000


@dataclass(frozen=True)
class Key:
    """An idempotency key. With `retry`, a job of it that FAILED or was KILLED is followed by another."""

    text: str
    retry: bool = False


class Once:
    """One key of one user. `runtime` knows jobs by their mark."""

    def __init__(self, jobs_root: str, user: str, key: str, runtime: ClientRuntime) -> None:
        if not key.strip() or len(key) > _MAX_KEY or not key.isprintable():
            raise UsageError(f"--idempotency-key {key[:50]!r}: a key is 1 to {_MAX_KEY} printable characters")
        digest = hashlib.sha256(f"{user}\0{key}".encode()).hexdigest()[:32]
        self._of_user = user_folder(jobs_root, "once", user)
        self._folder = storage.join(self._of_user, digest)
        self._digest, self._runtime = digest, runtime

    def run(self, start: Callable[[str], str], is_wanted: Callable[[str], bool]) -> tuple[str, bool]:
        """The id of this key's job, and whether this call has started it.

        `start` gets the mark and returns the id of the job it started; `is_wanted` says of an earlier job whether it
        will do, or whether another is to be started. Raises what these and `make_user_folder` raise, and `WaitTimeout`.
        """
        make_user_folder(self._of_user)
        for _ in range(_ROUNDS):
            number = self._newest()
            job_id = self._job_of(number) if number else None
            if job_id is not None and is_wanted(job_id):
                return job_id, False
            if number and job_id is None and not self._await_abandoned(number):
                continue
            try:
                return self._start(number + 1, start), True
            except AlreadyExists:
                continue
        raise WaitTimeout(f"others submit with the same idempotency key again and again ({self._folder}); try again")

    def _start(self, number: int, start: Callable[[str], str]) -> str:
        """Raises `AlreadyExists` when another client was quicker."""
        claim = storage.join(self._folder, str(number))
        storage.write_bytes(claim, b"", overwrite=False)
        try:
            job_id = start(self._mark(number))
        except BaseException as error:
            if _is_refused(error) or not self._may_run(number):
                storage.delete(claim)
            if isinstance(error, AlreadyExists):
                raise AfoError(str(error)) from error
            raise
        try:
            storage.write_bytes(f"{claim}.job", job_id.encode())
        except AfoError as error:
            say(f"warning: {job_id} runs, and is found by its mark alone: {error}")
        return job_id

    def _mark(self, number: int) -> str:
        return f"{self._digest}-{number}"

    def _newest(self) -> int:
        try:
            names = [storage.name(info.url) for info in storage.list_dir(self._folder)]
        except NotFound:
            return 0
        return max((int(name) for name in names if name.isdecimal()), default=0)

    def _job_of(self, number: int) -> str | None:
        """The job of a try; None while there is none."""
        claim = storage.join(self._folder, str(number))
        try:
            return check_job_id(decoding.whole(f"{claim}.job").decode(errors="replace"))
        except NotFound:
            job_id = self._runtime.find_marked(self._mark(number))
        if job_id is not None:
            storage.write_bytes(f"{claim}.job", job_id.encode())
        return job_id

    def _await_abandoned(self, number: int) -> bool:
        """Wait for a try without a job to become one or to be withdrawn: False; True once it is too old for that."""
        claim = storage.join(self._folder, str(number))
        say("another submission with the same idempotency key is under way; waiting for it")
        # The file's time is of another machine's clock, or whatever its owner says: it may never come.
        began = time.monotonic()
        while True:
            try:
                age = time.time() - storage.info(claim).modified
            except NotFound:
                return False
            if self._job_of(number) is not None:
                return False
            if max(age, time.monotonic() - began) > LEASE_S:
                return True
            time.sleep(POLL_S)

    def _may_run(self, number: int) -> bool:
        """Whether the cluster may have taken a submission that it did not answer, or whose answer nobody saw."""
        try:
            return self._runtime.find_marked(self._mark(number)) is not None
        except ClusterUnreachable:
            return True


def _is_refused(error: BaseException) -> bool:
    """Whether nothing runs: a cluster that did not answer, and a signal, may have come behind the submission."""
    return isinstance(error, AfoError) and not isinstance(error, ClusterUnreachable)
