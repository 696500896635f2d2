"""The process of a parameter server of our own (`engine: psplus`): its store and its desk, without TensorFlow."""

import threading

from afo.process.hosts import host_of, host_port, own_address
from afo.protocol.train_task import Progress, TrainTask
from afo.psplus.store_server import StoreServer
from afo.rpc.wire import read_secret
from afo.tables import desk
from afo.train.progress import ProgressPipe


def run(task: TrainTask) -> None:
    """Serve until the process is killed: the AM decides when, and the kernel when the Child is gone."""
    address = task.ps[task.index]
    place = host_port(own_address(host_of(address)), int(address.rpartition(":")[2]))
    StoreServer(place, read_secret(task.secret_file), task.generation, task.job.roles["ps"].vcores)
    desk.attend()
    ProgressPipe(task.progress_fd).report(
        Progress(phase="serving", generation=task.generation, message=address), now=True
    )
    threading.Event().wait()
