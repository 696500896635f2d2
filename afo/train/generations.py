"""A worker's process that outlives the parameter servers it began with (`Job.clients_stay`).

When one is lost the Application Master begins a new generation: the process asks where its servers are, drops what it
has in flight, and goes on as a new one would, with the functions that it has traced.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from afo.embedding.plus_client import PlusClient
from afo.errors import AfoError, ClusterUnreachable, GenerationOver
from afo.logs.task_log import LOG, one_line
from afo.protocol.train_task import Progress
from afo.rpc import messages as m
from afo.rpc.wire import read_secret
from afo.state import variables
from afo.state.parameters import Parameters
from afo.state.server_connections import is_lost_server, reason_of
from afo.train.setup import Setup
from afo.train.worker import TracedStep, Worker

#: The name of this process's client.
_CLIENT = "job"
#: Between two looks whether a connection was lost, and between two questions to the Application Master. Seconds.
_LOOK_S = 0.05
_ASK_S = 0.2
#: How long a server may be lost to this process and to nobody else, above the time after which the Application Master
#: looks at one that stands still: a process that ended before would look as if it had trained. Seconds.
_PATIENCE_S = 60.0


def run(setup: Setup) -> None:
    """Train until the data ends or `train.max_steps` is reached, through as many generations as it takes."""
    client = PlusClient(_CLIENT, read_secret(setup.task.secret_file))
    variables.ask_servers(client.name)
    step: TracedStep | None = None
    following: Setup | None = setup
    while following is not None:
        setup = following
        step = TracedStep(setup) if step is None else step
        client.set_servers(setup.task.generation, setup.task.ps)
        with _watched(client, setup):
            following = _train(setup, step)
    client.close()


def _train(setup: Setup, step: TracedStep) -> Setup | None:
    """Through one generation; returns the setup of the next one, None where there is none."""
    worker = Worker(setup, step)
    try:
        _greet(step.parameters)
        worker.run()
        return None
    except Exception as error:
        if not (isinstance(error, GenerationOver) or is_lost_server(error)):
            raise
        worker.leave()
        LOG.warning("generation %d is over: %s", setup.task.generation, one_line(reason_of(error)))
        return _next_generation(setup, error)


def _greet(parameters: Parameters) -> None:
    """Servers that stayed learn of the generation by it: what others still send of the one before is refused then."""
    assert parameters.embeddings is not None
    for server in range(parameters.servers):
        parameters.embeddings.link(server).trace(lambda _: None)()


def _next_generation(setup: Setup, error: Exception) -> Setup | None:
    """The setup of the generation that follows, once all its servers have an address; None at the end of the job.

    Raises ClusterUnreachable where nothing is known to be lost for too long.
    """
    task, patience = setup.task, _PATIENCE_S + float(setup.job.timeouts.hang)
    until = time.monotonic() + patience
    while True:
        reply = _ask(setup)
        if reply.state == "end":
            setup.progress.report(Progress(phase="done", generation=reply.generation), now=True)
            return None
        if reply.state == "run" and reply.generation != task.generation:
            following = replace(task, generation=reply.generation, ps=reply.ps, splits_at_start=reply.splits_at_start)
            return setup.in_generation(following)
        if reply.state == "wait":
            until = time.monotonic() + patience
            setup.progress.report(Progress(phase="waiting", generation=task.generation))
        elif time.monotonic() > until:
            raise ClusterUnreachable(
                f"a parameter server is gone for this process alone: {reason_of(error)}"
            ) from error
        time.sleep(_ASK_S)


def _ask(setup: Setup) -> m.ServersReply:
    return setup.master.servers(m.ServersRequest(task=setup.id, known=setup.task.generation))


@contextmanager
def _watched(client: PlusClient, setup: Setup) -> Iterator[None]:
    """Meanwhile, steps in flight end as soon as the Application Master says that their generation is over.

    A question to a server that is gone would else be asked until its deadline.
    """
    done = threading.Event()
    watch = threading.Thread(target=_watch, args=(client, setup, done), name="servers", daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()
        watch.join()


def _watch(client: PlusClient, setup: Setup, done: threading.Event) -> None:
    seen = client.losses
    while not done.wait(_LOOK_S):
        losses = client.losses
        if losses == seen:
            continue
        reply = _told(setup)
        if reply is not None and (reply.state == "end" or reply.generation != setup.task.generation):
            # To nobody: until all servers have an address.
            client.set_servers(reply.generation, ())
            return
        seen = losses
        done.wait(_ASK_S)


def _told(setup: Setup) -> Any:
    """The Application Master's answer; None where it has none: whoever trains will find out."""
    try:
        return _ask(setup)
    except AfoError as error:
        LOG.warning("the Application Master does not say where the servers are: %s", one_line(str(error)))
        return None
