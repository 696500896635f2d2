"""SIGTERM as an event, from the first moment on."""

import signal
import subprocess
import sys

#: A signal that comes as soon as its handler is there, before anything else is done.
PROGRAM = """
import os, signal, time
from afo_child.agent.termination import Termination

install = signal.signal

def install_and_be_hit(number, handler):
    install(number, handler)
    if number == signal.SIGTERM:
        os.kill(os.getpid(), signal.SIGTERM)

signal.signal = install_and_be_hit
Termination(lambda: print("noticed", flush=True), lambda: None, grace_s=0.0).start()
time.sleep(60)
"""


def test_a_signal_while_the_handlers_are_set_up_is_noticed() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert ended.stdout == "noticed\n", ended.stderr
    assert ended.returncode == 128 + signal.SIGTERM
