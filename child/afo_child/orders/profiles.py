"""Profiles that the training process takes of itself, kept with the job beside the stacks of its threads."""

import shutil
import threading
import time
from pathlib import Path

from afo import storage
from afo.errors import AfoError, NotFound, SpecError
from afo.formats import json_file
from afo.protocol.profile_request import DONE, FOLDER, STACKS, WANTED, Done, Wanted

#: Beyond the profile's own seconds: TensorFlow writes some MB, and counts them.
_PATIENCE_S = 60.0
_POLL_S = 0.1


def take(work_dir: Path, wanted: Wanted, url: str, stacks: str, stopping: threading.Event) -> str:
    """Where the profile lies now. Raises `AfoError` with the reason where there is none, at once when `stopping`."""
    json_file.write_private(work_dir / WANTED, wanted)
    try:
        done = _await_profile(work_dir, wanted, stopping)
    finally:
        (work_dir / WANTED).unlink(missing_ok=True)  # the task's next process would take it for its own
    if done.problem:
        raise AfoError(done.problem)
    folder = work_dir / FOLDER / str(wanted.number)
    (folder / STACKS).write_text(stacks, encoding="utf-8")
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        storage.upload(str(file), storage.join(url, str(file.relative_to(folder))))
    shutil.rmtree(folder)  # some MB, and others may follow
    return url


def _await_profile(work_dir: Path, wanted: Wanted, stopping: threading.Event) -> Done:
    deadline = time.monotonic() + wanted.seconds + _PATIENCE_S
    while time.monotonic() < deadline:
        if stopping.wait(_POLL_S):
            raise NotFound("the process ends")
        try:
            done = json_file.read(work_dir / DONE, Done)
        except (NotFound, SpecError):  # not yet
            continue
        if done.number == wanted.number:
            return done
    raise NotFound("the process takes no profile: it is no training process, or it has not come so far yet")
