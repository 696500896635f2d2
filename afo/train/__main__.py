"""`python -m afo.train TASK_JSON`: the TensorFlow process of one task.

Exit codes: 0 done; 75 (EXIT_RESTART) something else is gone (parameter server, generation, AM, file system), start me
anew; 1 failed, with the reason on stderr.
"""

import importlib
import os
import sys
import time
import traceback

from afo import storage
from afo.errors import AfoError, ClusterUnreachable, ProtocolError
from afo.formats import json_file
from afo.logs import task_log
from afo.process.lifetime import die_with_parent, end_at_once
from afo.process.state import write_stacks_on_request
from afo.protocol.train_task import EXIT_RESTART, Progress, TrainTask
from afo.rpc import messages as m
from afo.rpc.client import AmClient
from afo.rpc.master import Master
from afo.rpc.wire import read_secret
from afo.train.progress import ProgressPipe

#: Needed before TensorFlow is loaded, and set by the Child as well. An unreachable peer is an error at once; the
#: server binds the port that a socket keeps reserved; peers are never reached through a proxy.
_ENVIRONMENT = {"GRPC_FAIL_FAST": "use_caller", "TF_GRPC_REUSE_PORT": "1", "grpc_proxy": ""}

#: For whom there is no proxy where there is a tunnel; gRPC takes an empty list for none given.
_NOBODY = "nobody.invalid"
#: A restart of a NameNode or a failover is over by then, and a safe mode that is not may last for hours. Seconds.
STORAGE_PATIENCE_S = 120.0
#: Between two questions of an evaluator whether the workers train.
_TURN_POLL_S = 1.0


def main(arguments: list[str]) -> int:
    """Run the task in the file that `arguments` name; returns the exit code."""
    die_with_parent(os.getppid())
    os.environ.update(_ENVIRONMENT)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    storage.be_patient(STORAGE_PATIENCE_S)
    task_log.begin()
    try:
        task = json_file.read(arguments[0], TrainTask)
        if task.proxy:
            os.environ.update({"grpc_proxy": f"http://{task.proxy}", "no_grpc_proxy": _NOBODY})
        _run(task)
    except (ClusterUnreachable, ProtocolError) as error:
        print(f"afo.errors.{type(error).__name__}: {error}", file=sys.stderr)
        return EXIT_RESTART
    except AfoError as error:
        # The class by its full name, as a traceback's last line has it: the Child finds the cause by it.
        print(f"afo.errors.{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        from afo.state.server_connections import is_lost_server, reason_of

        if not is_lost_server(error):
            traceback.print_exc()
            return 1
        print(f"a parameter server is gone: {reason_of(error)}", file=sys.stderr)
        return EXIT_RESTART
    return 0


#: Module of each role; its `run` takes a `Setup`.
_ROLES = {
    "ps": "afo.train.parameter_server",
    "worker": "afo.train.worker",
    "chief": "afo.train.worker",
    "evaluator": "afo.train.evaluator",
}


def _run(task: TrainTask) -> None:
    """Imports the role's module, and with it TensorFlow, only when it is needed."""
    write_stacks_on_request(task.work_dir)
    if task.role == "evaluator":
        _await_training(task)
    if task.role == "ps" and task.job.engine == "psplus":
        importlib.import_module("afo.train.store_process").run(task)
        return
    run = importlib.import_module(_ROLES[task.role]).run
    setup = importlib.import_module("afo.train.setup").Setup(task)
    steps = (lambda: setup.progress.steps) if task.role in ("worker", "chief") else None
    importlib.import_module("afo.train.profiler").profile_on_request(task.work_dir, steps)
    run(setup)


def _await_training(task: TrainTask) -> None:
    """Wait, in an evaluator without TensorFlow, until the workers train.

    Loading it takes seconds of a core, and the evaluator's share would come out of the start of training.
    """
    progress = ProgressPipe(task.progress_fd)
    master = Master(AmClient(task.am_address_url, read_secret(task.secret_file)))
    asking = m.TaskId(role=task.role, index=task.index, attempt=task.attempt)
    while not master.ready(m.ReadyRequest(task=asking, generation=task.generation)).ready:
        progress.report(Progress(phase="waiting"))
        time.sleep(_TURN_POLL_S)
    master.close()


if __name__ == "__main__":
    # TensorFlow's threads do not end when a parameter server is gone.
    end_at_once(main(sys.argv[1:]))
