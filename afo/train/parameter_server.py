"""The parameter server's process: TensorFlow's own server over the addresses of all of them, and its desk."""

import threading

import tensorflow as tf

from afo.errors import ClusterUnreachable
from afo.ops import library
from afo.protocol.train_task import Progress
from afo.tables import desk
from afo.train.setup import Setup


def run(setup: Setup) -> None:
    """Serve until the process is killed: the AM decides when, and the kernel when the Child is gone."""
    task = setup.task
    if setup.job.model.embedding.storage == "hash_table":
        library.load_for_job()
        desk.attend()
    else:
        library.load_if_present()  # the workers' functions, which every server is told of, may name our parser
    try:
        server = tf.distribute.Server(
            tf.train.ClusterSpec({"ps": list(task.ps)}), job_name="ps", task_index=task.index, start=True
        )
    except tf.errors.OpError as error:
        raise ClusterUnreachable(f"ps:{task.index} cannot serve at {task.ps[task.index]}: {error.message}") from error
    setup.progress.report(Progress(phase="serving", message=server.target), now=True)
    threading.Event().wait()
