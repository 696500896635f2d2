"""The evaluator's wait for its turn. No TensorFlow here."""

import time

from afo.protocol.train_task import Progress, TrainTask
from afo.rpc import messages as m
from afo.rpc.client import AmClient
from afo.rpc.master import Master
from afo.rpc.wire import read_secret
from afo.train.progress import ProgressPipe

POLL_S = 1.0


def await_training(task: TrainTask) -> None:
    """Return once the workers train.

    Loading TensorFlow takes seconds of a core, and the evaluator's share would come out of the start of training.
    """
    progress = ProgressPipe(task.progress_fd)
    master = Master(AmClient(task.am_address_url, read_secret(task.secret_file)))
    asking = m.TaskId(role=task.role, index=task.index, attempt=task.attempt)
    while not master.ready(m.ReadyRequest(task=asking, generation=task.generation)).ready:
        progress.report(Progress(phase="waiting"))
        time.sleep(POLL_S)
    master.close()
