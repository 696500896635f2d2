"""A user's own program in the hands of a real Child."""

import json
import platform
import shutil
import sys
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from fake_master import FakeMaster, until

OTHER = "h:1"
UP = "mark(f\"up-{os.environ['AFO_GENERATION']}\", str(os.getpid()))\n"


def run(master: FakeMaster, generation: int, role: str = "worker") -> str:
    """Let a generation form, of this task and others elsewhere; returns this task's address."""
    master.say("wait", generation)
    beat = master.heartbeat(lambda beat: beat.generation == generation and bool(beat.address), "an address")
    own = (beat.address,)
    cluster = {"chief": own if role == "chief" else (OTHER,), "worker": (OTHER, own[0] if role == "worker" else OTHER)}
    master.say("run", generation)
    master.directive = replace(master.directive, cluster=cluster)  # type: ignore[arg-type]
    return own[0]


def test_a_program_has_its_interpreter_arguments_and_cluster(container, master: FakeMaster) -> None:
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        pytest.skip("this machine has no Python but the tests' own")
    container.start_program(
        "import sys\nmark('up', json.dumps([sys.executable, sys.argv[1:], os.environ['TF_CONFIG'], sys.prefix]))\n"
        "forever()",
        python=python, args=("--rate", "0.5"),
    )  # fmt: skip
    own = run(master, 1)
    executable, arguments, config, prefix = json.loads(container.marked("up"))
    assert executable == python
    assert prefix != sys.prefix
    assert arguments == ["--rate", "0.5"]
    assert json.loads(config) == {
        "cluster": {"chief": [OTHER], "worker": [OTHER, own]}, "task": {"type": "worker", "index": 1},
    }  # fmt: skip
    assert platform.python_version() == master.registrations[0].environment["python"]
    assert master.heartbeat(lambda beat: beat.progress is not None, "progress").progress.phase == "running"


def test_a_program_that_fails_starts_again_in_place_when_its_generation_is_over(container, master: FakeMaster) -> None:
    master.keeps = True
    container.start_program(UP + "forever()")
    first = run(master, 1)
    psutil.Process(int(container.marked("up-1"))).kill()
    report = master.exit_report()
    assert (report.stays, report.cause, report.code, report.generation) == (True, "killed_by_signal", -9, 1)
    master.next_heartbeats(3)
    assert len(master.exits) == 1, "the end of a process is told once"
    second = run(master, 2)
    container.marked("up-2")
    assert first != second
    assert len(master.registrations) == 1


def test_a_program_alone_leaves_its_container_when_it_fails(container, master: FakeMaster) -> None:
    child = container.start_program(UP + "sys.exit(3)", scope="task")
    run(master, 1)
    assert (master.exit_report().stays, master.exit_report().code) == (False, 3)
    assert child.wait(60) == 3


def test_a_running_program_is_stopped_for_the_next_generation(container, master: FakeMaster) -> None:
    container.start_program(UP + "forever()")
    run(master, 1)
    pid = int(container.marked("up-1"))
    run(master, 2)
    container.marked("up-2")
    assert not psutil.pid_exists(pid)
    assert master.exits == []


SAVING = """
steps = sorted(int(path.name.split("-")[1]) for path in model.glob("step-*"))
step = steps[-1] + 1 if steps else 1
(model / f"step-{step}").write_text(f"made by generation {os.environ['AFO_GENERATION']}")
(model / "deep").mkdir(exist_ok=True)
(model / "deep" / "newest").write_text(str(step))
"""


def test_the_chiefs_model_is_saved_before_a_restart_and_before_success(container, master: FakeMaster) -> None:
    master.keeps = True
    container.start_program(
        SAVING + UP + "sys.exit(0) if step == 3 else os.kill(os.getpid(), signal.SIGKILL)", role="chief"
    )
    for generation in (1, 2):
        run(master, generation, "chief")
        container.marked(f"up-{generation}")
        until(lambda: len(master.exits) == generation, f"the end of generation {generation}")  # noqa: B023
        assert (container.saved / "deep" / "newest").exists() or generation == 1
    run(master, 3, "chief")
    until(lambda: len(master.exits) == 3, "success")
    assert (master.exits[-1].cause, master.exits[-1].stays) == ("succeeded", False)
    assert saved(container.saved) == {
        "step-1": "made by generation 1", "step-2": "made by generation 2", "step-3": "made by generation 3",
        "deep/newest": "3",
    }  # fmt: skip


def test_others_begin_with_what_the_chief_saved_and_change_nothing(container, master: FakeMaster) -> None:
    (container.saved / "deep").mkdir(parents=True)
    (container.saved / "step-7").write_text("of the chief")
    container.start_program(SAVING + UP + "forever()")
    run(master, 1)
    container.marked("up-1")
    assert (container.work / "model" / "step-8").exists()
    run(master, 2)
    container.marked("up-2")
    assert saved(container.work / "model").keys() == {"step-7", "step-8", "deep/newest"}
    assert (container.work / "model" / "step-8").read_text() == "made by generation 2"
    assert saved(container.saved) == {"step-7": "of the chief"}


def test_there_is_no_success_without_the_model(container, master: FakeMaster) -> None:
    child = container.start_program(SAVING + UP + "while not (work / 'go').exists(): time.sleep(0.01)", role="chief")
    run(master, 1, "chief")
    container.marked("up-1")
    container.saved.write_text("a file where a directory is to be")
    (container.work / "go").touch()
    report = master.exit_report()
    assert (report.code, report.cause, report.stays) == (0, "storage_unreachable", False)
    assert "AFO_MODEL_DIR could not be saved" in report.tail
    child.wait(60)


def saved(directory: Path) -> dict[str, str]:
    """Every file below a directory, by its name in it."""
    return {path.relative_to(directory).as_posix(): path.read_text() for path in directory.rglob("*") if path.is_file()}
