"""Wiring of a Child: what it is comes from its environment, what to do from the Application Master."""

import logging
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from afo import __version__, storage
from afo.errors import AfoError, UsageError
from afo.formats import json_file
from afo.job import ROLES
from afo.process import descriptors
from afo.process.hosts import advertised_host
from afo.process.lifetime import adopt_orphans
from afo.protocol.child_config import AM, ATTEMPT, CONFIG, CONTAINER, INDEX, ROLE, ChildConfig
from afo.protocol.task_environment import task_environment
from afo.rpc.client import AmAddress, AmClient
from afo.rpc.master import Master
from afo.rpc.messages import PROTOCOL, RegisterRequest, TaskId
from afo.rpc.wire import read_secret
from afo_child.agent.agent import SAVE_S, Agent
from afo_child.agent.termination import Termination
from afo_child.container.facts import environment_report
from afo_child.model_dir.mirror import Mirror
from afo_child.model_dir.model_dir import ModelDir, use_of
from afo_child.network.tunnel import Tunnel
from afo_child.orders.order_runner import Orders
from afo_child.process import launch
from afo_child.process.output import Output
from afo_child.process.task_runner import TaskRunner

#: For the last upload of the logs; beyond that the file system is taken to hang.
_UPLOAD_S = 60.0
_LOG = logging.getLogger(__name__)


class NewestMaster(threading.Thread):
    """Reads the address file now and then, beside the heartbeats because storage may be slow.

    A call that fails finds the new AM by itself; this is for an old one that lives on, cut off from its journal.
    """

    def __init__(self, client: AmClient, every_s: float = 30.0) -> None:
        super().__init__(name="newest-master", daemon=True)
        self._client, self._every_s = client, every_s
        self._ending = threading.Event()

    def run(self) -> None:
        """Until `stop`."""
        while not self._ending.wait(self._every_s):
            try:
                self._client.follow()
            except AfoError as error:
                _LOG.info("cannot read the AM's address: %s", error)

    def stop(self) -> None:
        """End soon; does not wait."""
        self._ending.set()


def task_of(environment: Mapping[str, str]) -> TaskId:
    """Which task this container is for. Raises `UsageError` naming the variable that is missing or wrong."""
    role = next((role for role in ROLES if role == environment.get(ROLE)), None)
    if role is None:
        raise UsageError(f"{ROLE}={environment.get(ROLE)!r}, set by a runtime, must be one of {', '.join(ROLES)}")
    numbers = {}
    for name in (INDEX, ATTEMPT):
        text = environment.get(name, "")
        if not text.isdecimal():
            raise UsageError(f"{name}={text!r}, set by a runtime of afo, must be a number from 0 on")
        numbers[name] = int(text)
    return TaskId(role=role, index=numbers[INDEX], attempt=numbers[ATTEMPT])


def run(environment: Mapping[str, str], work_dir: Path) -> int:
    """Be a Child until its end; returns the exit code. Raises `AfoError`. To be called in the main thread."""
    adopt_orphans()
    task = task_of(environment)
    if CONFIG not in environment:
        raise UsageError(f"{CONFIG} is not set; it names the file with this Child's configuration")
    config = json_file.read(environment[CONFIG], ChildConfig)
    orphan_s = float(config.job.timeouts.orphan)
    known = AmAddress.of_text(environment[AM]) if AM in environment else None
    client = AmClient(config.am_address_url, read_secret(config.secret_file), patience_s=orphan_s, known=known)
    output = Output(work_dir, storage.join(config.logs_url, f"{task.role}_{task.index}", str(task.attempt)))
    wake = threading.Event()
    trainer = TaskRunner(config, task, output, work_dir, environment, wake.set)
    host = advertised_host(config.runtime)
    mirror = Mirror(work_dir / launch.MODEL_DIR, config.checkpoint_url)
    model_dir = ModelDir(mirror, use_of(config.job, task), wake.set)
    orders = Orders(task, trainer, output, work_dir, config.summary_url, wake.set)
    tunnel = Tunnel(read_secret(config.secret_file), host) if config.job.needs_tunnel else None
    agent = Agent(config, task, host, Master(client), trainer, orders, model_dir, output, wake, tunnel)
    if config.job.program:
        model_dir.start()
    Termination(agent.terminate, trainer.kill).start()
    follower = NewestMaster(client)
    follower.start()
    try:
        return agent.run(_registration(config, task, host, output.url, environment, work_dir))
    finally:
        model_dir.finish(SAVE_S)
        follower.stop()
        if tunnel is not None:
            tunnel.close()
        client.close()
        if not output.close(_UPLOAD_S):
            _LOG.error("the logs could not be uploaded to %s in %g s", output.url, _UPLOAD_S)


def _registration(
    config: ChildConfig, task: TaskId, host: str, log_url: str, environment: Mapping[str, str], work_dir: Path
) -> RegisterRequest:
    passed = task_environment(config.job, task.role, task.index, config.job.roles[task.role].vcores, environment)
    return RegisterRequest(
        task=task,
        container=environment.get(CONTAINER) or environment.get("CONTAINER_ID", ""),
        host=host,
        pid=os.getpid(),
        afo_version=__version__,
        protocol=PROTOCOL,
        environment=environment_report(environment, passed, work_dir),
        log_url=log_url,
    )


def main() -> int:
    """The program. Exit codes: that of the TensorFlow process (128 + signal), 143 after SIGTERM, else `AfoError`'s."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    descriptors.raise_limit()  # for TensorFlow, too: a parameter server has connections of every worker
    try:
        return run(os.environ, Path.cwd())
    except AfoError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
