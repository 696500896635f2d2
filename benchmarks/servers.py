"""Parameter servers of this machine for a benchmark of steps."""

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


@contextmanager
def servers(
    count: int, threads: int = 0, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[list[str], list[psutil.Process]]]:
    """Addresses and processes of parameter servers.

    `threads` of each operation, 0: as `environment` says, or else as many as there are cores.
    """
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    # Without the working directory in front of `PYTHONPATH`: it may hold another checkout's code.
    command = [sys.executable, "-P", "-c", _SERVER, json.dumps(addresses)]
    variables = {**os.environ, **(environment or {})}
    started = [
        subprocess.Popen([*command, str(index), str(threads)], stdout=subprocess.PIPE, env=variables)
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


def connect(addresses: tuple[str, ...]) -> AbstractContextManager[object]:
    """Be a client of them by the code of this process, which may be of a checkout from before `afo.state`."""
    package = "afo.state" if importlib.util.find_spec("afo.state") else "afo.params"
    found = importlib.import_module(f"{package}.server_connections").connect(addresses)
    return cast(AbstractContextManager[object], found)
