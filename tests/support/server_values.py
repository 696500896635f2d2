"""`python server_values.py TASK_JSON FILE.npz`: what the parameter servers of a task hold, by name of the variable."""

import os
import sys
from pathlib import Path

os.environ.update({"GRPC_FAIL_FAST": "use_caller", "TF_GRPC_REUSE_PORT": "1", "grpc_proxy": ""})

import numpy as np

from afo import jsonfile
from afo.train.cluster import connect
from afo.train.setup import Setup
from afo.train.variables import VariableIo
from afo.train_task import TrainTask


def write(task_file: str, target: Path) -> None:
    """Slots and copies of counters are variables too."""
    setup = Setup(jsonfile.read(task_file, TrainTask))
    parameters = setup.model.parameters(len(setup.task.ps), setup.task.num_splits)
    trained = [
        variable
        for parameter in parameters.trained
        for shard in parameter.shards
        for variable in (shard.weights, *shard.slots)
    ]
    with connect(setup.task.ps):
        everything = (*trained, *parameters.counters, *parameters.copies.values())
        np.savez(target, **{each.name: VariableIo(each).read() for each in everything})


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
    sys.stdout.flush()
    os._exit(0)
