"""Ways in which a process really ends, each in the hands of a real Child, which names the cause."""

import platform

import pytest

from fake_master import FakeMaster

#: An instruction that no processor of this kind has.
_UNDEFINED = {"x86_64": b"\x0f\x0b", "aarch64": b"\x00\x00\x00\x00"}

#: Cause → program, and words that its last lines hold.
PROGRAMS = {
    "failed": ("print('goodbye', file=sys.stderr); sys.exit(3)", "goodbye"),
    "user_exception": ("{}['age']", "KeyError: 'age'"),
    "spec_error": (
        "from afo.job.loader import load_job\n(work / 'job.yaml').write_text('name: x\\nrolls: {}\\n')\n"
        "load_job(str(work / 'job.yaml'))",
        "rolls",
    ),
    "file_not_found": ("open('/no/such/file')", "/no/such/file"),
    "permission_denied": ("os.geteuid() or os.seteuid(65534)\nopen('/proc/1/mem', 'rb')", "/proc/1/mem"),
    "out_of_memory": (
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\nbytes(1 << 40)",
        "MemoryError",
    ),
    "disk_full": ("with open('/dev/full', 'w') as file: file.write('x')", "No space left on device"),
    "not_writable": (
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (9, 9))\n(work / 'large').write_bytes(bytes(99))",
        "File too large",
    ),
    "port_in_use": (
        "first, second = socket.create_server(('127.0.0.1', 0)), socket.socket()\nsecond.bind(first.getsockname())",
        "Address already in use",
    ),
    "illegal_instruction": (
        "import ctypes, mmap\ncode = mmap.mmap(-1, 4096, prot=7)\n"
        f"code.write({_UNDEFINED[platform.machine()]!r})\n"
        "ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()",
        "Illegal instruction",
    ),
    "segmentation_fault": ("import ctypes\nctypes.string_at(0)", "Segmentation fault"),
    "aborted": ("os.abort()", "Aborted"),
    "killed_by_signal": ("os.kill(os.getpid(), signal.SIGKILL); forever()", ""),
}


@pytest.mark.parametrize("cause", PROGRAMS)
def test_the_end_of_a_process(container, master: FakeMaster, cause: str) -> None:
    program, words = PROGRAMS[cause]
    child = container.start(program)
    master.say("run", ps=("h1:1",))
    report = master.exit_report()
    assert report.cause == cause, report.tail
    assert words in report.tail
    assert child.wait(60) != 0


def test_child_error(container, master: FakeMaster) -> None:
    """What the Child wants to write cannot be written, and not for want of room."""
    (container.work / "task.json").mkdir()
    container.start("forever()")
    master.say("run", ps=("h1:1",))
    report = master.exit_report()
    assert report.cause == "child_error"
    assert "cannot start the process of worker:1" in report.tail
    assert "task.json" in report.tail


def test_restarts_exhausted(container, master: FakeMaster) -> None:
    """A worker that never reaches the parameter servers which the AM takes for alive."""
    child = container.start("sys.exit(75)")
    master.say("run", ps=("h1:1",))
    assert child.wait(120) == 75
    assert [report.cause for report in master.exits] == ["restarts_exhausted"]


def test_work_dir_lost_and_made_again(container, master: FakeMaster) -> None:
    """As TensorFlow does when it writes a summary into a directory that a NodeManager has taken away."""
    moves = "work.rename(work.with_name('taken'))\n(work / 'summaries').mkdir(parents=True)"
    child = container.start(f"{moves}\nopen(work / 'summaries' / 'eval' / 'events')")
    master.say("run", ps=("h1:1",))
    report = master.exit_report()
    assert (report.cause, report.stays) == ("work_dir_lost", False), report.tail
    assert child.wait(60) == 143


#: What TensorFlow raises where its parameter server is gone.
SERVER_LOST = """
import tensorflow as tf
addresses = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
ps, worker = (f"127.0.0.1:{address.getsockname()[1]}" for address in addresses)
for address in addresses:
    address.close()
cluster = {"ps": [ps], "worker": [worker]}
code = "import json, sys, tensorflow as tf; tf.distribute.Server(json.loads(sys.argv[1]), 'ps', 0).join()"
process = subprocess.Popen([sys.executable, "-c", code, json.dumps(cluster)])
server = tf.distribute.Server(cluster, "worker", 0)
with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
    counter = tf.compat.v1.get_variable("counter", initializer=0.0, use_resource=True)
    step, ready = counter.assign_add(1.0), tf.compat.v1.global_variables_initializer()
    with tf.compat.v1.Session(server.target) as session:
        session.run(ready)
        process.kill()
        process.wait()
        session.run(step)
"""


@pytest.mark.tensorflow
def test_parameter_server_lost(container, master: FakeMaster) -> None:
    container.start(SERVER_LOST)
    master.say("run", ps=("h1:1",))
    report = master.exit_report()
    assert report.cause == "parameter_server_lost", report.tail
    assert "/job:ps/replica:0/task:0" in report.tail
