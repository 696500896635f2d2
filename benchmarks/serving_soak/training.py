"""The job: Wide & Deep on synthetic clicks, without an end, on this machine; exports a version every few seconds."""

import json
import os
import subprocess
import sys
from pathlib import Path

_COMMAND = [sys.executable, "-m", "afo_client"]
_RECORDS, _FILES = 400_000, 4
#: So small that not every row changes from one version to the next.
_BATCH = 16
#: Training gives way to the server and its clients.
_NICENESS = "10"
EXPORT_EVERY_S = 15


class EndlessTraining:
    """A job from its submission on. `base_path`: where its versions go."""

    def __init__(self, directory: Path, base_path: Path) -> None:
        self._data = directory / "data"
        homes = {"AFO_STATE_DIR": str(directory / "state"), "AFO_JOBS_ROOT": str(directory / "jobs")}
        self._environment = os.environ | homes
        counts = ["--train", str(_RECORDS), "--eval", "1000", "--train-files", str(_FILES), "--eval-files", "1"]
        self._afo("data", "synth", str(self._data), *counts)
        job_file = directory / "job.yaml"
        job_file.write_text(json.dumps(self._job(base_path)))
        self.id = self._afo("submit", str(job_file), "--runtime", "local", "--detach").strip()

    def _job(self, base_path: Path) -> dict[str, object]:
        return {
            "name": "ctr",
            "roles": {"ps": {"memory": "1 GiB"}, "worker": {"memory": "3 GiB"}},
            "data": {
                "schema": str(self._data / "schema.yaml"), "train": [f"{self._data}/train/*.tfrecord"],
                "label": "click", "sample_id": "sample_id", "batch_size": _BATCH, "epochs": 1_000_000,
            },
            "model": {"hidden_units": [64, 32], "embedding": {"dim": 8}},
            "checkpoint": {"every": f"{EXPORT_EVERY_S}s", "full_every": 20, "keep": 2},
            "export": {
                "dir": str(base_path), "tables": "native", "every": f"{EXPORT_EVERY_S}s", "deltas": True,
                "full_every": 16, "keep": 10,
            },
        }  # fmt: skip

    def records(self, count: int) -> list[bytes]:
        """Serialized, of the evaluation's data."""
        from itertools import islice

        from afo.data.io.tfrecord import read_records

        [file] = (self._data / "eval").glob("*.tfrecord")
        return list(islice(read_records(str(file)), count))

    def is_running(self) -> bool:
        """Whether the job has not ended."""
        return not json.loads(self._afo("status", self.id, "--json"))["final"]

    def kill(self) -> None:
        """End it."""
        self._afo("kill", self.id)

    def _afo(self, *words: str) -> str:
        done = subprocess.run(
            ["nice", "-n", _NICENESS, *_COMMAND, *words], env=self._environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"afo {' '.join(words)} ended with {done.returncode}: {done.stderr}")
        return done.stdout
