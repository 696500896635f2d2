"""A real Child in a directory of its own, with a script in the place of the TensorFlow process."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from afo.formats import json_file
from afo.formats.units import Duration
from afo.job import Data, Environment, Job, Restart, Role, RoleSpec, Timeouts
from afo.protocol.child_config import ChildConfig
from afo.rpc.wire import new_secret
from fake_master import FakeMaster, until

PRELUDE = """\
#!{python}
import json, os, signal, socket, subprocess, sys, time
from pathlib import Path
task = json.loads(Path(sys.argv[-1]).read_text())
work = Path(task["work_dir"])
def mark(name, text=""):
    (work / f".{{name}}").write_text(text)
    (work / f".{{name}}").rename(work / name)
def report(**progress):
    os.write(task["progress_fd"], json.dumps(progress).encode() + b"\\n")
def forever():
    while True:
        signal.pause()
"""


PROGRAM_PRELUDE = """\
import json, os, signal, sys, time
from pathlib import Path
work, model = Path.cwd(), Path(os.environ["AFO_MODEL_DIR"])
def mark(name, text=""):
    (work / f".{name}").write_text(text)
    (work / f".{name}").rename(work / name)
def forever():
    while True:
        signal.pause()
"""


class Container:
    """Where one Child runs. `work` is its directory, `logs` where its logs are uploaded to."""

    def __init__(self, root: Path, secret: str) -> None:
        self.root, self.work, self.logs, self.secret_file = root, root / "work", root / "logs", root / "secret"
        self.saved = root / "saved"
        self.work.mkdir()
        self.secret_file.write_text(secret)
        self.address_url = str(root / "address")
        self._children: list[subprocess.Popen[bytes]] = []

    def start(
        self, program: str, role: Role = "worker", *, variables: dict[str, str] | None = None, preload: str = "",
        python: str = "", orphan_s: float = 60.0, environment: dict[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:  # fmt: skip
        """Start a Child whose TensorFlow process is the script `program`, after the prelude above."""
        script = self._script(PRELUDE.format(python=sys.executable) + textwrap.dedent(program))
        job = Job(
            name="test",
            roles={"ps": RoleSpec(instances=2), "worker": RoleSpec(instances=2, vcores=3)},
            data=Data(schema="schema.yaml", train=("part-*",)),
            environment=Environment(variables=variables or {}, preload=preload),
            timeouts=Timeouts(orphan=Duration(orphan_s)),
        )
        return self._start(job, python or str(script), role, environment or {})

    def start_program(
        self, program: str, role: Role = "worker", *, python: str = "", args: tuple[str, ...] = (), scope: str = "job"
    ) -> subprocess.Popen[bytes]:
        """Start a Child whose job runs the script `program` as a user's own."""
        script = self._script(PROGRAM_PRELUDE + textwrap.dedent(program))
        roles: dict[Role, RoleSpec] = {"chief": RoleSpec(), "worker": RoleSpec(instances=2), "evaluator": RoleSpec()}
        restart = Restart(scope=scope)  # type: ignore[arg-type]
        job = Job(name="test", roles=roles, program=str(script), args=args, restart=restart)
        return self._start(job, python, role, {})

    def _script(self, text: str) -> Path:
        script = self.root / "program"
        script.write_text(text)
        script.chmod(0o700)
        return script

    def _start(self, job: Job, python: str, role: Role, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        config = ChildConfig(
            job=job, job_id="local_1_1", runtime="local", am_address_url=self.address_url,
            secret_file=str(self.secret_file), schema_file="schema.yaml", files_url="f",
            checkpoint_url=str(self.saved), export_url="e", summary_url=str(self.root / "summaries"),
            logs_url=str(self.logs), python=python, heartbeat_s=0.05, stop_s=0.3,
        )  # fmt: skip
        json_file.write_private(self.root / "child.json", config)
        index = "0" if role in ("chief", "evaluator") else "1"
        own = {"AFO_ROLE": role, "AFO_INDEX": index, "AFO_ATTEMPT": "4", "AFO_CONTAINER": "container_7"}
        own["AFO_CHILD_CONFIG"] = str(self.root / "child.json")
        with open(self.root / "child.stderr", "wb") as stderr:
            child = subprocess.Popen(
                [sys.executable, "-m", "afo_child"], cwd=self.work, stderr=stderr,
                env={**os.environ, **own, **environment},
            )  # fmt: skip
        self._children.append(child)
        return child

    def marked(self, name: str) -> str:
        """Wait for the program's `mark(name, text)`; returns the text."""
        path = self.work / name
        until(path.exists, f"mark {name}\n{(self.root / 'child.stderr').read_text()}")
        return path.read_text()

    @property
    def said(self) -> str:
        """What the Child itself wrote to its stderr."""
        return (self.root / "child.stderr").read_text()

    def close(self) -> None:
        """End what a test left, as a runtime does it."""
        for child in self._children:
            child.terminate()
        for child in self._children:
            child.wait(60)


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    """A container; nothing of it may be left when the test is over."""
    made = Container(tmp_path, new_secret())
    yield made
    made.close()
    until(lambda: not processes_in(made.work), f"the end of all processes in {made.work}")


@pytest.fixture
def make_master(container: Container) -> Iterator[Callable[[int], FakeMaster]]:
    """Makes Application Masters of the container's job, by incarnation."""
    made: list[FakeMaster] = []

    def make(incarnation: int) -> FakeMaster:
        made.append(FakeMaster(container.address_url, container.secret_file.read_text(), incarnation))
        return made[-1]

    yield make
    container.close()  # while there is still somebody to hear its last words
    for master in made:
        master.stop()


@pytest.fixture
def master(make_master: Callable[[int], FakeMaster]) -> FakeMaster:
    """The published Application Master."""
    first = make_master(1)
    first.publish()
    return first


def processes_in(directory: Path) -> list[psutil.Process]:
    """Processes that work in `directory` or below it, zombies aside."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()).is_relative_to(directory):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found
