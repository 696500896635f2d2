"""Orders to a live task, carried out by a real Child."""

import signal
from pathlib import Path

import psutil

from afo.formats import json_file
from afo.process.bounded_command import BoundedCommand
from afo.protocol.profile_request import FOLDER, OPERATORS, STACKS, WANTED, Operators
from afo_child.orders import stacks
from fake_master import FakeMaster, until

UP = "mark('up', str(os.getpid())); forever()"


def _running(container, master: FakeMaster, program: str = UP) -> int:
    """The process id of the task's program."""
    container.start(program)
    master.say("run", ps=("h1:1",))
    return int(container.marked("up"))


def test_a_command_runs_beside_the_program_with_its_environment(container, master: FakeMaster) -> None:
    _running(container, master)
    master.order(1, "exec", "python3", "-c", "import os; print(os.getcwd(), os.environ['GRPC_FAIL_FAST'])")
    result = master.order_result(1)
    assert (result.failed, result.code, result.truncated) == (False, 0, False)
    assert result.output == f"{container.work} use_caller\n"
    master.next_heartbeats(3)
    assert len(master.orders) == 1, "an order that is repeated is carried out once"
    assert master.heartbeats[-1].orders == ()


def test_a_command_reads_no_shell_and_its_code_and_errors_arrive(container, master: FakeMaster) -> None:
    _running(container, master)
    master.order(1, "exec", "ls", "$HOME; echo no")
    master.order(2, "exec", "no-such-program")
    assert master.order_result(1).code == 2
    assert "$HOME; echo no" in master.order_result(1).output
    assert master.order_result(2).code == 127
    assert "cannot start no-such-program" in master.order_result(2).output


def test_a_command_ends_with_the_program(container, master: FakeMaster) -> None:
    pid = _running(container, master)
    master.order(1, "exec", "python3", "-c", "open('sleeping', 'w').close(); import time; time.sleep(600)")
    until((container.work / "sleeping").exists, "the command's start")
    psutil.Process(pid).kill()
    assert master.order_result(1).code == -signal.SIGKILL
    assert master.exit_report().cause == "killed_by_signal"


def test_kill_9_of_the_child_ends_a_command(container, master: FakeMaster) -> None:
    child = container.start(UP)
    master.say("run", ps=("h1:1",))
    container.marked("up")
    master.order(
        1, "exec", "python3", "-c", "import os, time; print(os.getpid(), file=open('pid', 'w')); time.sleep(600)"
    )
    pid = int(until(lambda: (container.work / "pid").exists() and (container.work / "pid").read_text(), "its start"))
    child.kill()
    until(lambda: not psutil.pid_exists(pid), "the end of the command")


def test_time_and_output_are_bounded(tmp_path: Path) -> None:
    noisy = BoundedCommand(["sh", "-c", "while echo yes; do :; done"], {"PATH": "/usr/bin:/bin"}, tmp_path)
    ran = noisy.wait(limit_s=0.5, limit_bytes=10)
    assert (ran.output, ran.truncated, ran.late, ran.code) == ("yes\nyes\nye", True, True, -signal.SIGKILL)
    left = BoundedCommand(["sh", "-c", "sleep 600 & echo $!"], {"PATH": "/usr/bin:/bin"}, tmp_path).wait()
    assert not left.late
    until(lambda: not psutil.pid_exists(int(left.output)), "the end of what the command left behind")


def test_kill_ends_the_program_and_says_who_did_it(container, master: FakeMaster) -> None:
    child = container.start("signal.signal(signal.SIGTERM, signal.SIG_IGN); " + UP)
    master.say("run", ps=("h1:1",))
    pid = int(container.marked("up"))
    master.order(1, "kill")
    assert master.exit_report().cause == "killed_by_user"
    assert not psutil.pid_exists(pid)
    assert not master.order_result(1).failed
    assert child.wait(60) == 143


def test_nothing_is_done_while_no_program_runs(container, master: FakeMaster) -> None:
    container.start(UP)
    master.order(1, "kill")
    assert master.order_result(1).failed
    assert "no process" in master.order_result(1).output
    assert master.exits == []


def test_a_checkpoint_is_asked_for_only_of_a_program_that_listens(container, master: FakeMaster) -> None:
    _running(
        container, master,
        "(work / 'go').exists() or signal.signal(signal.SIGUSR2, lambda *_: None);"
        "mark('up', str(os.getpid()));\nwhile not (work / 'go').exists(): time.sleep(0.01)\n"
        "signal.signal(signal.SIGUSR1, lambda *_: mark('saved')); mark('listens'); forever()",
    )  # fmt: skip
    master.order(1, "checkpoint")
    assert "does not save" in master.order_result(1).output
    (container.work / "go").touch()
    container.marked("listens")
    master.order(2, "checkpoint")
    assert not master.order_result(2).failed
    container.marked("saved")


DEEP = """
def outer():
    inner()
def inner():
    mark('up', str(os.getpid()))
    time.sleep(600)
outer()
"""


def test_stacks_name_every_frame_and_the_place(container, master: FakeMaster) -> None:
    _running(container, master, DEEP)
    master.order(1, "stacks")
    result = master.order_result(1)
    assert "in outer" in result.output
    assert "in inner" in result.output
    assert "sleep" in result.output.partition("in inner")[2], "native frames below the Python ones"
    assert result.place.endswith("in inner")
    assert "/program:" in result.place
    assert "in inner" in (container.work / "logs" / "stderr").read_text(), "so that they are there when the task is not"


#: Answers as `afo.train.profiler` does.
PROFILES = """
mark('up', str(os.getpid()))
from pathlib import Path
import time
from afo.formats import json_file
from afo.errors import NotFound
from afo.protocol.profile_request import DONE, FOLDER, OPERATORS, WANTED, Done, Operators, Wanted
answered = 0
while True:
    time.sleep(0.05)
    try:
        wanted = json_file.read(WANTED, Wanted)
    except NotFound:
        continue
    if wanted.number == answered:
        continue
    answered = wanted.number
    place = Path(FOLDER, str(wanted.number))
    (place / 'plugins').mkdir(parents=True)
    (place / 'plugins' / 'x.xplane.pb').write_bytes(b'x')
    json_file.write_private(place / OPERATORS, Operators(seconds=wanted.seconds, operators=()))
    json_file.write_private(DONE, Done(number=wanted.number))
"""


def test_a_profile_is_sent_to_the_job_s_directory(container, master: FakeMaster) -> None:
    _running(container, master, PROFILES)
    master.order(3, "profile", "2")
    result = master.order_result(3)
    assert not result.failed, result.output
    place = Path(result.output)
    assert place.name.startswith("profile-")
    assert place.name.endswith("-3")
    assert (place / "plugins" / "x.xplane.pb").read_bytes() == b"x"
    assert (place / STACKS).stat().st_size > 100
    assert json_file.read(place / OPERATORS, Operators).seconds == 2
    assert list((container.work / FOLDER).iterdir()) == [], "nothing stays behind"


def test_profiles_that_are_asked_for_at_once_are_taken_one_after_the_other(container, master: FakeMaster) -> None:
    _running(container, master, PROFILES)
    for order in (1, 2, 3, 4):
        master.order(order, "profile", "2")
    for order in (1, 2, 3, 4):
        result = master.order_result(order)
        assert not result.failed, result.output
        assert json_file.read(Path(result.output) / OPERATORS, Operators).seconds == 2


def test_a_profile_that_cannot_be_taken_says_why(container, master: FakeMaster) -> None:
    pid = _running(container, master)
    master.order(1, "profile", "0")
    assert "Expected `float` > 0.0" in master.order_result(1).output
    master.order(2, "profile", "soon")
    assert "could not convert" in master.order_result(2).output
    master.order(3, "profile", "0.1")
    until((container.work / WANTED).exists, "it is asked for")
    psutil.Process(pid).kill()
    assert "the process ends" in master.order_result(3).output


AGAIN = """
if not (work / 'first').exists():
    mark('first')
    while not (work / 'end').exists():
        time.sleep(0.01)
    sys.exit(75)
"""


def test_a_task_that_has_started_again_in_place_is_profiled(container, master: FakeMaster) -> None:
    container.start(AGAIN + PROFILES)
    master.say("run", ps=("h1:1",))
    container.marked("first")
    master.order(3, "profile", "2")
    until((container.work / WANTED).exists, "it is asked for")
    (container.work / "end").touch()
    assert "the process ends" in master.order_result(3).output
    container.marked("up")
    master.order(4, "profile", "2")
    result = master.order_result(4)
    assert not result.failed, result.output
    assert Path(result.output).name.endswith("-4")
    assert not (container.work / WANTED).exists()


def test_stacks_of_a_stopped_program(container, master: FakeMaster) -> None:
    pid = _running(container, master, DEEP)
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_SLEEPING, "its sleep, after the mark")
    psutil.Process(pid).suspend()
    master.order(1, "stacks")
    assert master.order_result(1).place.endswith("in inner")
    assert psutil.Process(pid).status() == psutil.STATUS_STOPPED
    psutil.Process(pid).resume()


ASKED = """
from afo.process.state import write_stacks_on_request
write_stacks_on_request(str(work))
"""


def test_without_permission_the_program_itself_is_asked(container, master: FakeMaster) -> None:
    pid = _running(container, master, ASKED + DEEP)
    refused = BoundedCommand(
        ["sh", "-c", "echo Operation not permitted; exit 1"], {"PATH": "/usr/bin:/bin"}, container.work
    )
    text = stacks.describe(pid, refused.wait(), container.work)
    assert text.startswith("Native stacks cannot be read here: Operation not permitted")
    assert "in outer" in text
    assert stacks.place(text, pid).endswith("in inner")
    assert f"{pid} S" in text


def test_the_place_is_the_callers_where_the_innermost_code_is_a_library() -> None:
    text = """\
Traceback for thread 9 (python) [] (most recent call last):
    (Python) File "/x/other.py", line 1, in wrong
Traceback for thread 7 (python) [] (most recent call last):
    (C) File "Modules/main.c", line 734, in Py_BytesMain (/bin/python3.11)
    (Python) File "/job/my_ctr.py", line 12, in build
    (Python) File "/env/lib/python3.11/site-packages/keras/src/layer.py", line 90, in call
"""
    assert stacks.place(text, 7) == "keras/src/layer.py:90 in call, called from job/my_ctr.py:12 in build"
    assert stacks.place(text, 1) == ""


def test_the_place_is_who_asks_where_the_code_waits_for_an_answer() -> None:
    text = """\
Current thread 0x1 (most recent call first):
  File "/env/lib/python3.11/site-packages/grpc/_channel.py", line 11 in _blocking
  File "/env/lib/python3.11/site-packages/afo/rpc/client.py", line 97 in _once
  File "/env/lib/python3.11/site-packages/afo/train/feed.py", line 5 in next_split
"""
    assert (
        stacks.place(text, 7)
        == "site-packages/grpc/_channel.py:11 in _blocking, called from afo/train/feed.py:5 in next_split"
    )
