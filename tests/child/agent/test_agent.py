"""A real Child process against an AM over the real protocol."""

import json
import os
import shutil
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from afo import __version__
from afo.errors import Orphaned
from afo.rpc import messages as m
from fake_master import FakeMaster, until


def test_registers_with_what_it_found(container, master: FakeMaster) -> None:
    container.start("forever()", environment={"MALLOC_ARENA_MAX": "32:32"}, variables={"MALLOC_ARENA_MAX": "7"})
    registration = until(lambda: master.registrations, "a registration")[0]
    assert (registration.task.role, registration.task.index, registration.task.attempt) == ("worker", 1, 4)
    assert (registration.container, registration.host) == ("container_7", "127.0.0.1")
    assert registration.afo_version == __version__
    assert registration.log_url == f"{container.logs}/worker_1/4"
    found = registration.environment
    assert (found["malloc_arena_max_given"], found["malloc_arena_max_passed"]) == ("32:32", "7")
    assert found["omp_num_threads"] == "3"
    assert container.secret_file.read_text() not in str(found)


def test_runs_reports_progress_and_ends_with_the_program(container, master: FakeMaster) -> None:
    child = container.start(
        """
        report(phase="training", step=5, samples=50, loss=0.25)
        os.write(task["progress_fd"], b"no json\\n")
        print("on stdout")
        print("on stderr", file=sys.stderr)
        mark("up")
        while not (work / "go").exists():
            time.sleep(0.01)
        report(phase="done", step=9, samples=90)
        """
    )
    master.next_heartbeats()
    assert not (container.work / "up").exists(), "nothing runs while the AM says wait"
    master.say("run", ps=("h1:1", "h2:2"))
    container.marked("up")
    beat = master.heartbeat(lambda beat: beat.progress is not None and beat.process_alive, "progress")
    assert beat.progress
    assert (beat.progress.step, beat.progress.loss) == (5, 0.25)
    assert beat.usage.rss > 1_000_000
    (container.work / "go").touch()
    assert child.wait(60) == 0
    report = master.exit_report()
    assert (report.code, report.cause, report.tail, report.generation) == (0, "succeeded", "on stderr", 1)
    assert report.progress
    assert report.progress.step == 9
    logs = container.logs / "worker_1" / "4"
    assert ((logs / "stdout").read_text(), (logs / "stderr").read_text()) == ("on stdout\n", "on stderr\n")
    assert len(master.exits) == 1


def test_the_task_file_is_private_and_complete(container, master: FakeMaster) -> None:
    container.start("mark('task', json.dumps([task, os.stat(sys.argv[-1]).st_mode & 0o777, sys.argv[1:3]])); forever()")
    master.say("run", generation=6, ps=("h1:1", "h2:2"))
    task, mode, arguments = json.loads(container.marked("task"))
    assert (mode, arguments) == (0o600, ["-m", "afo.train"])
    assert task["ps"] == ["h1:1", "h2:2"]
    assert (task["generation"], task["num_workers"], task["splits_at_start"], task["attempt"]) == (6, 2, 3, 4)


@pytest.mark.parametrize(("configured", "seen"), [({"MALLOC_ARENA_MAX": "16"}, "16"), ({}, None)])
def test_malloc_arena_max_is_what_the_job_says(container, master, configured, seen) -> None:
    container.start(
        "mark('env', json.dumps(dict(os.environ))); forever()",
        variables=configured,
        environment={"MALLOC_ARENA_MAX": "32:32", "HADOOP_CONF_DIR": "/conf", "SKEIN_CONTAINER_ID": "x"},
    )
    master.say("run", ps=("h1:1",))
    env = json.loads(container.marked("env"))
    assert env.get("MALLOC_ARENA_MAX") == seen
    assert env["HADOOP_CONF_DIR"] == "/conf"
    assert env["GRPC_FAIL_FAST"] == "use_caller"
    assert "SKEIN_CONTAINER_ID" not in env
    assert container.secret_file.read_text() not in str(env)


def test_an_exception_is_reported_with_its_last_lines(container, master: FakeMaster) -> None:
    child = container.start("raise ValueError('no such column')")
    master.say("run", ps=("h1:1",))
    report = master.exit_report()
    assert (report.code, report.cause) == (1, "user_exception")
    assert report.tail.endswith("ValueError: no such column")
    assert child.wait(60) == 1


def test_a_signal_is_reported(container, master: FakeMaster) -> None:
    child = container.start("os.kill(os.getpid(), signal.SIGSEGV); forever()", variables={"PYTHONFAULTHANDLER": ""})
    master.say("run", ps=("h1:1",))
    assert (master.exit_report().code, master.exit_report().cause) == (-signal.SIGSEGV, "segmentation_fault")
    assert child.wait(60) == 128 + signal.SIGSEGV


def test_a_failed_process_starts_anew_in_its_container_when_called_for(container, master: FakeMaster) -> None:
    master.keeps = True
    container.start(
        """
        mark(f"up{len(list(work.glob('up*')))}", str(os.getpid()))
        forever()
        """
    )
    master.say("run", ps=("h1:1",))
    for number in (1, 2):
        pid = int(container.marked(f"up{number - 1}"))
        os.kill(pid, signal.SIGKILL)
        until(lambda number=number: len(master.exits) == number, "the end is reported")
        assert (master.exits[-1].stays, master.exits[-1].number, master.exits[-1].code) == (True, number, -9)
        assert 0 < master.exits[-1].idle_s < 60
        master.next_heartbeats(3)
        assert not master.heartbeats[-1].process_alive
        master.say("run", ps=("h1:1",), starts=number)
    assert int(container.marked("up2")) != pid


def test_a_container_whose_directory_is_taken_away_is_given_up(container, master: FakeMaster) -> None:
    """A NodeManager that starts again without recovery empties its directories, and knows nothing of our processes."""
    master.keeps = True
    child = container.start("mark('up', str(os.getpid()))\nforever()")
    master.say("run", ps=("h1:1",))
    pid = int(container.marked("up"))
    shutil.rmtree(container.work)
    report = master.exit_report()
    assert (report.cause, report.stays) == ("work_dir_lost", False)
    assert child.wait(60) == 143
    assert not psutil.pid_exists(pid)


def test_a_missing_allocator_is_named(container, master: FakeMaster) -> None:
    child = container.start("forever()", preload="libno_such_allocator.so.9")
    master.say("run", ps=("h1:1",))
    report = master.exit_report()
    assert report.cause == "preload_missing"
    assert "libno_such_allocator.so.9" in report.tail
    assert child.wait(60) == 1


def test_an_interpreter_that_does_not_exist_is_named(container, master: FakeMaster) -> None:
    child = container.start("forever()", python="/no/such/python")
    master.say("run", ps=("h1:1",))
    assert master.exit_report().cause == "python_not_found"
    assert "/no/such/python" in master.exit_report().tail
    assert child.wait(60) == 127


def test_a_new_generation_ends_the_old_process_and_what_it_started(container, master: FakeMaster) -> None:
    container.start(
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        daemon = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
        mark(f"up{task['generation']}", f"{os.getpid()} {daemon.pid}")
        forever()
        """
    )
    master.say("run", 1, ps=("h1:1",))
    first = [int(pid) for pid in container.marked("up1").split()]
    master.say("wait", 2)
    until(lambda: not any(map(_runs, first)), "the end of generation 1, its daemon included")
    beat = master.heartbeat(lambda beat: beat.generation == 2, "a heartbeat of generation 2")
    assert not beat.process_alive
    master.say("run", 2, ps=("h3:3",))
    container.marked("up2")
    master.say("run", 1, ps=("h1:1",))  # an AM that was replaced
    master.next_heartbeats(3)
    assert master.heartbeats[-1].process_alive
    assert master.heartbeats[-1].generation == 2
    assert master.exits == []


def test_a_process_that_stays_lives_through_generations_and_says_which_one_it_is_in(
    container, master: FakeMaster
) -> None:
    master.keeps = True
    container.start(
        """
        report(phase="training", samples=5)
        mark(f"up{len(list(work.glob('up*')))}", str(os.getpid()))
        while not (work / "go").exists():
            time.sleep(0.01)
        report(phase="waiting", generation=3)
        forever()
        """
    )
    master.say("run", 1, ps=("h1:1",))
    pid = int(container.marked("up0"))
    for action, generation in (("wait", 2), ("run", 2), ("wait", 3), ("run", 3)):
        master.say(action, generation, ps=("h1:1",), since=1)
        master.heartbeat(lambda beat, generation=generation: beat.generation == generation, "the Child follows")
        master.next_heartbeats()
    assert _runs(pid)
    assert (master.heartbeats[-1].generation, master.heartbeats[-1].process_alive) == (3, True)
    assert master.heartbeats[-1].progress
    assert master.heartbeats[-1].progress.generation == 1, "the one that it was started in, as long as it says no other"
    (container.work / "go").touch()
    master.heartbeat(lambda beat: beat.progress is not None and beat.progress.generation == 3, "it has gone over")
    os.kill(pid, signal.SIGKILL)
    report = until(lambda: master.exits, "its end")[0]
    assert (report.generation, report.stays, report.progress.generation) == (3, True, 3)
    master.say("run", 3, ps=("h1:1",), since=1, starts=1)
    container.marked("up1")


def test_end_stops_everything_and_uploads(container, master: FakeMaster) -> None:
    child = container.start("print('hello', flush=True); mark('up', str(os.getpid())); forever()")
    master.say("run", ps=("h1:1",))
    pid = int(container.marked("up"))
    master.say("end")
    assert child.wait(60) == 0
    assert not _runs(pid)
    assert (container.logs / "worker_1" / "4" / "stdout").read_text() == "hello\n"
    assert master.exits == []


def test_a_lost_parameter_server_means_a_start_in_place(container, master: FakeMaster) -> None:
    child = container.start(
        """
        starts = work / "starts"
        starts.write_text(starts.read_text() + "x" if starts.exists() else "x")
        sys.exit(75 if len(starts.read_text()) < 2 else 0)
        """
    )
    master.say("run", ps=("h1:1",))
    assert child.wait(60) == 0
    assert (container.work / "starts").read_text() == "xx"
    assert [report.cause for report in master.exits] == ["succeeded"]


def test_a_parameter_server_keeps_its_port_until_it_serves(container, master: FakeMaster) -> None:
    container.start(
        """
        own = next(address for address in task["ps"] if address.startswith("127.0.0.1:"))
        server = socket.socket(socket.AF_INET6)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind(("::", int(own.split(":")[1])))
        server.listen()
        with socket.create_connection(("127.0.0.1", server.getsockname()[1])) as client:
            client.sendall(b"ping")
            connection, _ = server.accept()
            received = connection.recv(10).decode()
        connection.recv(1)
        connection.close()
        mark("received", received)
        report(phase="serving")
        while not (work / "close").exists():
            time.sleep(0.01)
        server.close()
        mark("closed")
        forever()
        """,
        role="ps",
    )
    first = _address(master, 1)
    assert not _free(first)
    master.say("wait", 2)
    second = _address(master, 2)
    assert _free(first), "the port of an older generation is given back"
    assert not _free(second)
    master.say("run", 2, ps=("10.9.9.9:1", second))
    assert container.marked("received") == "ping", "the server got the connection, not the socket that holds the port"
    master.heartbeat(lambda beat: beat.progress is not None and beat.progress.phase == "serving", "serving")
    (container.work / "close").touch()
    container.marked("closed")
    assert _free(second), "the Child let go when the server served"
    assert master.heartbeats[-1].address == second


@pytest.mark.parametrize(
    ("variables", "heard"), [({}, "::ffff:127.0.0.1"), ({"AFO_LISTEN": ""}, "::")], ids=["as it comes", "as wished"]
)
def test_a_parameter_server_listens_where_the_others_look_for_it(
    container, master: FakeMaster, variables: dict[str, str], heard: str
) -> None:
    container.start(
        """
        own = next(address for address in task["ps"] if address.startswith("127.0.0.1:"))
        places = []
        for port in (int(own.split(":")[1]), 0):
            with socket.socket(socket.AF_INET6) as server:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                server.bind(("::", port))
                places.append(server.getsockname()[0])
        mark("bound", json.dumps([places, os.environ["LD_PRELOAD"].split(":")[0]]))
        forever()
        """,
        role="ps", variables=variables, preload="libm.so.6",
        environment={"AFO_LISTEN": "::1 80"},  # of a task that submitted this job
    )  # fmt: skip
    master.say("run", 1, ps=("10.9.9.9:1", _address(master, 1)))
    assert json.loads(container.marked("bound")) == [[heard, "::"], "libm.so.6"]


def test_a_parameter_server_does_not_start_under_anothers_address(container, master: FakeMaster) -> None:
    container.start("mark('up'); forever()", role="ps")
    master.heartbeat(lambda beat: beat.address != "", "an address")
    master.say("run", 1, ps=("127.0.0.1:1", "127.0.0.1:2"))
    master.next_heartbeats(3)
    assert not (container.work / "up").exists()


def test_kill_9_of_the_child_leaves_no_process(container, master: FakeMaster) -> None:
    child = container.start("signal.signal(signal.SIGTERM, signal.SIG_IGN); mark('up', str(os.getpid())); forever()")
    master.say("run", ps=("h1:1",))
    pid = int(container.marked("up"))
    child.send_signal(signal.SIGKILL)
    child.wait(60)
    until(lambda: not _runs(pid), "the end of the process")


def test_sigterm_takes_the_process_along_and_is_reported(container, master: FakeMaster) -> None:
    child = container.start("mark('up', str(os.getpid())); forever()")
    master.say("run", ps=("h1:1",))
    pid = int(container.marked("up"))
    child.send_signal(signal.SIGTERM)
    assert child.wait(60) == 143
    assert not _runs(pid)
    assert [report.cause for report in master.exits] == ["container_stopped"]


def test_sigterm_works_while_nobody_answers(container) -> None:
    child = container.start("forever()")  # no AM at all: the Child waits for an address
    until(lambda: (container.work / "logs" / "stderr").exists(), "the Child's start")
    until(lambda: _catches_sigterm(child.pid), "its signal handler")
    child.send_signal(signal.SIGTERM)
    assert child.wait(60) == 143


def test_an_orphan_ends_itself(container, master: FakeMaster) -> None:
    child = container.start("mark('up', str(os.getpid())); forever()", orphan_s=1.0)
    master.say("run", ps=("h1:1",))
    pid = int(container.marked("up"))
    master.silent.set()
    assert child.wait(60) == Orphaned.exit_code
    assert not _runs(pid)
    assert "orphaned" in container.said


def test_follows_a_restarted_master_and_keeps_its_process(container, make_master: Callable[[int], FakeMaster]) -> None:
    first = make_master(1)
    first.publish()
    container.start("mark('up', str(os.getpid())); forever()")
    first.say("run", ps=("h1:1",))
    pid = int(container.marked("up"))
    second = make_master(2)
    second.say("run", ps=("h1:1",))
    second.publish()
    first.silent.set()
    second.next_heartbeats()
    assert _runs(pid)
    assert second.heartbeats[-1].process_alive


def test_a_wrong_secret_ends_the_child(container, master: FakeMaster) -> None:
    container.secret_file.write_text("another")
    assert container.start("forever()", orphan_s=2.0).wait(60) == 4
    assert "secret" in container.said


def test_new_delegation_tokens_are_put_where_the_process_looks(container, master: FakeMaster) -> None:
    file = container.root / "container_tokens"
    file.write_bytes(b"YARN's")
    master.say("run", 1, ps=("10.9.9.9:1",))
    container.start(
        """
        mark("looks", os.environ["HADOOP_TOKEN_FILE_LOCATION"])
        forever()
        """,
        environment={"HADOOP_TOKEN_FILE_LOCATION": str(file)},
    )
    assert container.marked("looks") == str(file)
    assert file.read_bytes() == b"YARN's"
    for number in (7, 1):  # an AM that was started again counts from 1
        master.tokens = m.TokensReply(number=number, content=b"tokens %d" % number)
        master.directive = replace(master.directive, tokens=number)
        until(lambda number=number: file.read_bytes() == b"tokens %d" % number, "the new tokens")
    assert file.stat().st_mode & 0o777 == 0o600


def test_what_a_runtime_forgot_is_said(container) -> None:
    child = container.start("forever()", environment={"AFO_INDEX": "one"})
    assert child.wait(60) == 2
    assert "AFO_INDEX='one'" in container.said
    assert "Traceback" not in container.said


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _catches_sigterm(pid: int) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(line.split()[1] for line in lines if line.startswith("SigCgt"))
    return bool(int(caught, 16) & 1 << (signal.SIGTERM - 1))


def _address(master: FakeMaster, generation: int) -> str:
    """The address that a parameter server reports for a generation."""
    return master.heartbeat(lambda beat: beat.generation == generation and beat.address != "", "an address").address


def _free(address: str) -> bool:
    """Whether a program without SO_REUSEPORT could listen there."""
    with socket.socket() as probe:
        try:
            probe.bind(("0.0.0.0", int(address.rpartition(":")[2])))
        except OSError:
            return False
    return True
