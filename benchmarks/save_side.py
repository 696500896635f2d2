"""One side of `bench_server_saves`, of the code on `PYTHONPATH`: servers with full tables that are saved and restored.

`python save_side.py serve ADDRESSES INDEX LIMIT` is a server; `python save_side.py measure URL SERVERS ROWS TURNS
LIMIT` prints what each turn took. LIMIT: bytes a second, as `throttle.limit` has them.
"""

import json
import os

os.environ.update({"GRPC_FAIL_FAST": "use_caller", "TF_GRPC_REUSE_PORT": "1", "TF_CPP_MIN_LOG_LEVEL": "2"})

import importlib
import importlib.util
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil
import tensorflow as tf
import throttle
from servers import connect

from afo import embedding, storage
from afo.embedding import checkpoint
from afo.ops import library

#: A row with Adam's slots is 216 bytes in a file.
DIM, PIECE = 16, 250_000


def serve(addresses: str, index: str, limit: str) -> None:
    """A server until it is killed."""
    library.load_for_job()
    if importlib.util.find_spec("afo.tables.desk"):  # else the chief does all
        importlib.import_module("afo.tables.desk").attend()
    throttle.limit(float(limit))
    cluster = tf.train.ClusterSpec({"ps": json.loads(addresses)})
    server = tf.distribute.Server(cluster, job_name="ps", task_index=int(index))
    print("serving", flush=True)
    server.join()


def measure(url: str, servers: str, rows: str, turns: str, limit: str) -> None:
    """A line of JSON for each turn: processor and wall seconds of a save and of a restore, and the bytes."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(servers))]
    addresses = tuple(f"127.0.0.1:{each.getsockname()[1]}" for each in held)
    for each in held:
        each.close()
    started = [
        subprocess.Popen(
            [sys.executable, __file__, "serve", json.dumps(addresses), str(index), limit],
            stdout=subprocess.PIPE,
        )
        for index in range(int(servers))
    ]
    try:
        for server in started:
            assert server.stdout is not None
            server.stdout.readline()
        throttle.limit(float(limit))
        with connect(addresses):
            _turns(url, len(addresses), int(rows), int(turns), [psutil.Process(each.pid) for each in started])
    finally:
        for server in started:
            server.kill()
            server.communicate()
    os._exit(0)  # TensorFlow's threads wait for the servers


def _turns(url: str, servers: int, rows: int, turns: int, processes: list[psutil.Process]) -> None:
    devices = [f"/job:ps/task:{index}/device:CPU:0" for index in range(servers)]
    group = embedding.TableGroup(devices, client="/job:worker/task:0/device:CPU:0")
    table = embedding.get_embedding_variable("users", DIM, optimizer=embedding.Adam(), group=group)
    for first in range(0, rows, PIECE):
        with embedding.EmbeddingTape():
            embedding.embedding_lookup(table, np.arange(first, min(rows, first + PIECE), dtype=np.int64))
    for turn in range(turns):
        directory = f"{url}/{turn}"
        saved = _measured(lambda: checkpoint.TableSaver(group).save(directory), processes)  # noqa: B023
        size = sum(each.size for each in storage.list_dir(directory))
        restored = _measured(lambda: checkpoint.restore(group, f"{directory}/tables.json"), processes)  # noqa: B023
        assert table.total_count() == rows
        print(json.dumps({"save": saved, "restore": restored, "bytes": size}), flush=True)
        if turn < turns - 1:
            storage.delete(directory, recursive=True)


def _measured(do: Callable[[], Any], processes: list[psutil.Process]) -> dict[str, float]:
    all_of = [psutil.Process(), *processes]
    before, began = [_spent(each) for each in all_of], time.perf_counter()
    do()
    wall = time.perf_counter() - began
    chief, *others = (_spent(each) - then for each, then in zip(all_of, before, strict=True))
    return {"chief": chief, "servers": sum(others), "wall": wall}


def _spent(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    {"serve": serve, "measure": measure}[sys.argv[1]](*sys.argv[2:])
