"""Ports that are reserved, and processes that do not answer at theirs."""

import subprocess
import sys
import time

import psutil

from afo_child.network.ports import PortReservation, describe_stopped, unresponsive


def test_two_reservations_differ_and_release_twice_is_nothing() -> None:
    one, other = PortReservation("h", 1), PortReservation("h", 1)
    assert one.address != other.address
    for reservation in (one, other, one):
        reservation.release()
    assert not one.held


SERVER = """
import grpc, sys
from concurrent import futures
server = grpc.server(futures.ThreadPoolExecutor(1))
print(server.add_insecure_port("[::]:0"), flush=True)
server.start()
input()
server.stop(None)
"""


def suspend(process: psutil.Process) -> None:
    """Stop it; a signal is on its way for a while, in which a server still answers."""
    process.suspend()
    deadline = time.monotonic() + 60
    while process.status() != psutil.STATUS_STOPPED:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_server_that_is_stopped_does_not_answer_and_one_that_lives_does() -> None:
    with subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        port = int(process.stdout.readline())
        server = psutil.Process(process.pid)
        assert unresponsive(process.pid, 30.0) == ""
        suspend(server)
        words = f"its process does not answer at port {port} within 0.5 s (stopped by a signal, state T)"
        assert unresponsive(process.pid, 0.5) == words
        server.resume()
        assert unresponsive(process.pid, 30.0) == ""
        process.communicate(b"\n")
    assert unresponsive(process.pid, 0.5) == "", "it is gone, which others say"


REFUSES = """
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    server.accept()[0].close()
"""


def test_a_server_that_closes_the_connection_lives() -> None:
    with subprocess.Popen([sys.executable, "-c", REFUSES], stdout=subprocess.PIPE) as process:
        assert process.stdout
        port = int(process.stdout.readline())
        assert unresponsive(process.pid, 30.0) == ""
        suspend(psutil.Process(process.pid))
        words = f"its process does not answer at port {port} within 0.5 s (stopped by a signal, state T)"
        assert unresponsive(process.pid, 0.5) == words
        process.kill()


def test_a_process_that_was_stopped_is_told_from_one_that_waits() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert describe_stopped(process.pid) == ""
        suspend(psutil.Process(process.pid))
        assert describe_stopped(process.pid) == "its process stands still (stopped by a signal, state T)"
        psutil.Process(process.pid).resume()
        process.communicate(b"\n")
    assert describe_stopped(process.pid) == ""


def test_a_process_that_listens_nowhere_is_not_said_to_be_silent() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert unresponsive(process.pid, 0.5) == ""
        process.communicate(b"\n")
