"""A worker that is told to end does so between two steps."""

import signal
import subprocess
import sys

import pytest

#: Writes `begun`, takes SIGTERM in the middle of a step, and says how far it came.
PROGRAM = """
import sys
from afo.train.worker import Departure
with Departure() as departure:
    for step in (1, 2):
        print("begun", step, flush=True)
        sys.stdin.readline()
        print("applied", step, flush=True)
        departure.between_steps()
print("done", flush=True)
"""


@pytest.mark.parametrize("step", [1, 2])
def test_the_step_is_ended_and_then_the_process_by_the_signal(step: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        said = []
        for number in (1, step) if step > 1 else (1,):
            said.append(process.stdout.readline())
            if number == step:
                process.send_signal(signal.SIGTERM)
            process.stdin.write("\n")
            process.stdin.flush()
            said.append(process.stdout.readline())
        assert process.stdout.read() == ""
    assert said[-2:] == [f"begun {step}\n", f"applied {step}\n"]
    assert process.returncode == -signal.SIGTERM


def test_outside_it_the_signal_ends_the_process_at_once() -> None:
    program = "import os, signal\n" + PROGRAM.replace("import sys\n", "") + "os.kill(os.getpid(), signal.SIGTERM)\n"
    program = program.replace("sys.stdin.readline()", "pass")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("done\n"), done.stderr
    assert done.returncode == -signal.SIGTERM
