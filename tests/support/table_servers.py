"""Parameter servers of hash tables alone, and their clients: functions for processes of their own (`fork_server`)."""

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import tensorflow as tf

from afo import embedding, storage
from afo.embedding.checkpoint import TableSaver, restore
from afo.errors import NoSpaceLeft
from afo.ops import library
from afo.state.server_connections import connect, is_lost_server
from afo.tables import desk
from fork_server import ForkedProcess, start_function

KEYS = 3000
_SLOW_S = 1.5
#: Exit code of a client whose server is gone.
LOST = 75


class Servers:
    """Running servers, by number."""

    def __init__(self, directory: Path, faults: tuple[str, ...]) -> None:
        """`faults`: for each server what ails its disk, or ''; see `serve`."""
        held = [socket.create_server(("127.0.0.1", 0)) for _ in faults]
        self.addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in held]
        for each in held:
            each.close()
        self._ready = [directory / f"serving-{os.getpid()}-{address}" for address in self.addresses]
        self.processes = [
            start_function("table_servers", "serve", json.dumps(self.addresses), str(index), str(ready), fault)
            for index, (ready, fault) in enumerate(zip(self._ready, faults, strict=True))
        ]

    def await_ready(self) -> None:
        """Until all serve."""
        await_true(lambda: all(each.exists() for each in self._ready), "all servers serve")

    def start_client(self, function: str, *arguments: str) -> ForkedProcess:
        """One of the functions below, in a process that is connected to these servers."""
        return start_function("table_servers", "be_client", json.dumps(self.addresses), function, *arguments)

    def run_client(self, function: str, *arguments: str) -> int:
        """The same to its end; returns its exit code."""
        return self.start_client(function, *arguments).wait(60)


@contextmanager
def running(directory: Path, *faults: str) -> Iterator[Servers]:
    """So many servers as there are faults."""
    servers = Servers(directory, faults)
    try:
        servers.await_ready()
        yield servers
    finally:
        for process in servers.processes:
            process.kill()
            process.wait(10)


def await_true(condition: Any, what: str) -> None:
    """Raises AssertionError after 30 s."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def serve(addresses: str, index: str, ready: str, fault: str) -> None:
    """A parameter server until it is killed. Its disk is `slow`, `full`, or well ('')."""
    library.load_for_job()
    desk.attend()
    if fault:
        written = storage.open_output
        storage.open_output = lambda url, **given: _Faulty(written(url, **given), fault)  # type: ignore[assignment]
    cluster = tf.train.ClusterSpec({"ps": json.loads(addresses)})
    server = tf.distribute.Server(cluster, job_name="ps", task_index=int(index), start=True)
    Path(ready).touch()
    server.join()


class _Faulty:
    """A file on a disk that takes `_SLOW_S` for each block, of which there is one a table, or is full after one.

    A block is written in two pieces, its head and its rows.
    """

    def __init__(self, file: BinaryIO, fault: str) -> None:
        self._file, self._fault, self._writes = file, fault, 0

    def __enter__(self) -> "_Faulty":
        self._file.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._file.__exit__(*error)

    def write(self, data: bytes) -> int:
        self._writes += 1
        if self._fault == "full" and self._writes > 2:
            raise NoSpaceLeft("no space left, says the test")
        if self._fault == "slow" and self._writes % 2:
            time.sleep(_SLOW_S)
        return self._file.write(data)


def be_client(addresses: str, function: str, *arguments: str) -> None:
    """Ends the process: 0, `LOST` where a server is gone, else 1 with the error on stderr."""
    servers = json.loads(addresses)
    try:
        with connect(tuple(servers)):
            devices = [f"/job:ps/task:{index}/device:CPU:0" for index in range(len(servers))]
            group = embedding.TableGroup(devices, name="tables", client="/job:worker/task:0/device:CPU:0")
            globals()[function](group, *arguments)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(LOST if is_lost_server(error) else 1)
    os._exit(0)


def tables(group: Any) -> tuple[Any, Any]:
    """Two tables of different widths and rules."""
    return (
        embedding.get_embedding_variable("user", 4, optimizer=embedding.Adam(learning_rate=0.1), seed=1, group=group),
        embedding.get_embedding_variable("item", 3, optimizer=embedding.Adagrad(), seed=1, group=group),
    )


def train(variables: tuple[Any, ...], keys: Any, step: int) -> None:
    """A step of both tables."""
    with embedding.EmbeddingTape() as tape:
        rows = embedding.group_embedding_lookup_sparse(variables, [keys] * 2, [None] * 2)
        loss = tf.add_n([tf.reduce_sum(tf.square(each - 1)) for each in rows])
    tape.gradient(loss)
    tape.apply(step=step)


def train_and_save(group: Any, directory: str) -> None:
    """A whole checkpoint in `directory`/0 and a delta in `directory`/1."""
    variables, saver = tables(group), TableSaver(group)
    train(variables, np.arange(KEYS), 0)
    saver.save(f"{directory}/0")
    train(variables, np.arange(10), 1)
    variables[0].remove([7, 8])
    saver.save(f"{directory}/1", incremental=True)


def restore_and_save(group: Any, source: str, target: str) -> None:
    """What a manifest holds, as a whole checkpoint of these servers."""
    tables(group)
    restore(group, source)
    TableSaver(group).save(target)


def restore_one(group: Any, source: str, target: str) -> None:
    """Trains on, restores server 0 alone and saves."""
    variables = tables(group)
    restore(group, source)
    train(variables, np.arange(KEYS), 2)
    restore(group, source, [0])
    TableSaver(group).save(target)


def save_as_expected(group: Any, directory: str, answer: str) -> None:
    """Saves, and writes down the error that it raised, or ''."""
    train(tables(group), np.arange(KEYS), 0)
    try:
        TableSaver(group).save(directory)
        error = ""
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    Path(answer).write_text(error)


def train_while_saving(group: Any, directory: str, answer: str) -> None:
    """Writes down how many steps there were while a save went on; what they changed is in the next delta."""
    variables, saver = tables(group), TableSaver(group)
    train(variables, np.arange(KEYS), 0)
    saving = threading.Thread(target=saver.save, args=(f"{directory}/0",))
    saving.start()
    steps = 0
    while saving.is_alive():
        steps += 1
        train(variables, np.arange(10), steps)
    saving.join()
    saver.save(f"{directory}/1", incremental=True)
    Path(answer).write_text(str(steps))
