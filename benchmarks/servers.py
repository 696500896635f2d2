"""Parameter servers of this machine for a benchmark of steps: of TensorFlow, or our own."""

import importlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import cast

import psutil

_SERVER = """
import importlib, importlib.util, json, sys, threading
import tensorflow as tf
from afo.ops import library
library.load_for_job()
if importlib.util.find_spec("afo.tables.desk"):  # not in 80de9be1, which is another side
    importlib.import_module("afo.tables.desk").attend()
tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[3]))
servers = tf.train.ClusterSpec({"ps": json.loads(sys.argv[1])})
server = tf.distribute.Server(servers, job_name="ps", task_index=int(sys.argv[2]))
print("serving", flush=True)
threading.Event().wait()
"""
_STORE_SERVER = """
import json, sys, threading
from afo.psplus.store_server import StoreServer
from afo.tables import desk
address = json.loads(sys.argv[1])[int(sys.argv[2])]
server = StoreServer(address, sys.argv[4], 1, int(sys.argv[3]) or 1)
desk.attend()
print("serving", flush=True)
threading.Event().wait()
"""
_PROGRAMS = {"tensorflow": _SERVER, "psplus": _STORE_SERVER}
#: As of a job; it guards nothing here.
_SECRET = "benchmark" * 8


@contextmanager
def servers(
    count: int, threads: int = 0, environment: Mapping[str, str] | None = None, engine: str = "tensorflow"
) -> Iterator[tuple[list[str], list[psutil.Process]]]:
    """Addresses and processes of parameter servers.

    `threads` of each operation, 0: as `environment` says, or else as many as there are cores. With `engine: psplus`
    those of the server, 0: one, as in a container of one core.
    """
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    # Without the working directory in front of `PYTHONPATH`: it may hold another checkout's code.
    command = [sys.executable, "-P", "-c", _PROGRAMS[engine], json.dumps(addresses)]
    variables = {**os.environ, **(environment or {})}
    started = [
        subprocess.Popen([*command, str(index), str(threads), _SECRET], stdout=subprocess.PIPE, env=variables)
        for index in range(count)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
        yield addresses, [psutil.Process(process.pid) for process in started]
    finally:
        for process in started:
            process.kill()
            process.communicate()


def connect(addresses: tuple[str, ...], engine: str = "tensorflow") -> AbstractContextManager[object]:
    """Be a client of them by the code of this process, which may be of a checkout from before `afo.state`."""
    if engine == "psplus":
        return _asking(addresses)
    package = "afo.state" if importlib.util.find_spec("afo.state") else "afo.params"
    found = importlib.import_module(f"{package}.server_connections").connect(addresses)
    return cast(AbstractContextManager[object], found)


@contextmanager
def _asking(addresses: tuple[str, ...]) -> Iterator[None]:
    plus_client = importlib.import_module("afo.embedding.plus_client")
    client = plus_client.PlusClient("benchmark", _SECRET)
    client.set_servers(1, addresses)
    importlib.import_module("afo.state.variables").ask_servers(client.name)
    try:
        yield
    finally:
        client.close()
